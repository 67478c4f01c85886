# shellcheck shell=bash
# What ./run and ./test need of the machine: Debian packages and a Rust toolchain.
# To be sourced by bash, from the root of the project.

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command as root: at once, or by sudo where that asks for no password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

# What apt-get says is shown only when it fails. One at a time: checks run beside each other.
apt_quietly() {
    local said
    mkdir -p "$(target_directory)"
    said=$(as_root flock "$(target_directory)/apt.lock" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" 2>&1) && return 0
    printf '%s\n' "$said" | tail -n 5 >&2
    return 1
}

update_package_lists() {
    [ -z "${package_lists_are_new:-}" ] || return 0
    say "Updating apt's package lists"
    apt_quietly update && package_lists_are_new=yes
}

has_package() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Installs those of the Debian packages that are missing. Fails, with a line
# that says what to do, where it cannot.
install_packages() {
    local package missing=()
    command -v dpkg-query >/dev/null || {
        say "this is no Debian system; install by hand: $*" >&2
        return 1
    }
    for package in "$@"; do
        has_package "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    as_root true || {
        say "missing, and no root to install it: apt-get install ${missing[*]}" >&2
        return 1
    }
    say "Installing ${missing[*]}"
    apt_quietly install -y --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
    update_package_lists && apt_quietly install -y --no-install-recommends "${missing[@]}" && return 0
    say "apt-get could not install: ${missing[*]}" >&2
    return 1
}

# Sees to it that each program of "PROGRAM=PACKAGE" is there.
need_programs() {
    local pair packages=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}")
    done
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
}

# Whether version $1 is at least version $2.
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust_needed() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

rust_is_good() {
    command -v cargo >/dev/null || return 1
    local version
    version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && at_least "$version" "$(rust_needed)"
}

apt_candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -vx '(none)'; }

# A Rust toolchain that is new enough: the one on PATH or in ~/.cargo, else
# Debian's (Debian 12 has a new one as rustc-web), else rustup's.
need_rust() {
    rust_is_good && return 0
    PATH=$HOME/.cargo/bin:$PATH
    rust_is_good && return 0
    local needed cargo rustc
    needed=$(rust_needed)
    say "No Rust $needed or newer here; looking at Debian's packages"
    as_root true || die "install Rust $needed or newer first (no root here to do it)"
    update_package_lists || die "apt-get update failed"
    for cargo in cargo cargo-web; do
        rustc=${cargo/cargo/rustc}
        if at_least "$(apt_candidate "$rustc")" "$needed"; then
            install_packages "$cargo" "$rustc" || die "cannot install $cargo"
            rust_is_good && return 0
        fi
    done
    [ "$(apt_candidate rustup)" != "" ] || die "install Rust $needed or newer: https://www.rust-lang.org/tools/install"
    install_packages rustup || die "cannot install rustup"
    say "Getting the stable Rust toolchain with rustup"
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt &&
        rustup default stable
    rust_is_good || die "rustup could not install Rust $needed or newer"
}

# What building takes: Rust, and a C compiler for the codecs' C libraries.
need_build_tools() {
    need_rust
    local missing=()
    command -v cc >/dev/null || missing+=(gcc)
    [ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}" || die "cannot build without ${missing[*]}"
}

target_directory() { printf '%s\n' "${CARGO_TARGET_DIR:-$PWD/target}"; }

# The program and both libraries, always all: by itself each would have other features of what they share, and all of
# that would be compiled once more.
release_build() { cargo build --release --locked --quiet -p bigiron -p bigiron-preload -p bigiron-capi; }

# Unpacks the shipped vmcore into target/, unless it is there already.
unpack_sample() {
    sample=$(target_directory)/sample/linux-6.1-5level.elf
    [ -e "$sample" ] && return 0
    need_programs zstd=zstd || return 1
    mkdir -p "${sample%/*}"
    zstd -q -d -f --sparse samples/linux-6.1-5level.elf.zst -o "$sample.$BASHPID" && mv "$sample.$BASHPID" "$sample"
}
