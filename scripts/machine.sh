# shellcheck shell=bash
# Functions of ./run, ./test and the scripts: Debian packages, the Rust toolchain, and
# builds. Sourced by bash in the root directory of the project.

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Runs a command as root: directly, or with sudo if sudo needs no password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

# Runs apt-get, and shows its output only if it fails. A lock serialises calls, because checks run in parallel.
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

# Installs the Debian packages that are missing. If it cannot, prints what to do and
# fails.
install_packages() {
    local package missing=()
    command -v dpkg-query >/dev/null || {
        say "not a Debian system; install these packages yourself: $*" >&2
        return 1
    }
    for package in "$@"; do
        has_package "$package" || missing+=("$package")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    as_root true || {
        say "missing packages, and no root to install them; run: apt-get install ${missing[*]}" >&2
        return 1
    }
    say "Installing ${missing[*]}"
    apt_quietly install -y --no-install-recommends "${missing[@]}" 2>/dev/null && return 0
    update_package_lists && apt_quietly install -y --no-install-recommends "${missing[@]}" && return 0
    say "apt-get could not install: ${missing[*]}" >&2
    return 1
}

# Installs the packages of missing programs; each argument is PROGRAM=PACKAGE.
need_programs() {
    local pair packages=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}")
    done
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
}

# True if version $1 is at least version $2.
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust_needed() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

rust_is_good() {
    command -v cargo >/dev/null || return 1
    local version
    version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && at_least "$version" "$(rust_needed)"
}

apt_candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -vx '(none)'; }

# Provides a Rust toolchain that is new enough: the one on PATH or in ~/.cargo, else
# Debian's (Debian 12 has a recent one as rustc-web), else rustup's.
need_rust() {
    rust_is_good && return 0
    PATH=$HOME/.cargo/bin:$PATH
    rust_is_good && return 0
    local needed cargo rustc
    needed=$(rust_needed)
    say "Rust $needed or newer is not installed; trying Debian's packages"
    as_root true || die "install Rust $needed or newer first (there is no root to install it here)"
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
    say "Installing the stable Rust toolchain with rustup"
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt &&
        rustup default stable
    rust_is_good || die "rustup could not install Rust $needed or newer"
}

# Provides what builds need: Rust, and a C compiler for the codecs' C libraries.
need_build_tools() {
    need_rust
    local missing=()
    command -v cc >/dev/null || missing+=(gcc)
    [ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}" || die "cannot build without these packages: ${missing[*]}"
}

target_directory() { realpath -m "${CARGO_TARGET_DIR:-target}"; }

# The profile of builds: BIGIRON_PROFILE, else `release`, which users get. ./test sets `unit`, which builds faster.
profile() { printf '%s\n' "${BIGIRON_PROFILE:-release}"; }

# The directory of what build_programs builds.
program_directory() { printf '%s/%s\n' "$(target_directory)" "$(profile)"; }

# Builds the program and both libraries, always together: alone, each would have other features of the crates they
# share, which would be compiled again. For the same reason the profile of the tests builds with the tests' features,
# which an example has.
build_programs() {
    local what=(-p bigiron -p bigiron-preload -p bigiron-capi)
    [ "$(profile)" != unit ] || what=(--workspace --lib --bin bigiron --example fuzz_seeds)
    cargo build --profile "$(profile)" --locked --quiet "${what[@]}"
}

# Unpacks the shipped vmcore into target/ unless it is already there, and sets `sample` to its path.
unpack_sample() {
    sample=$(target_directory)/sample/linux-6.1-5level.elf
    [ -e "$sample" ] && return 0
    need_programs zstd=zstd || return 1
    mkdir -p "${sample%/*}"
    zstd -q -d -f --sparse samples/linux-6.1-5level.elf.zst -o "$sample.$BASHPID" && mv "$sample.$BASHPID" "$sample"
}
