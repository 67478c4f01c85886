# shellcheck shell=bash
# shellcheck disable=SC2034  # the scripts use the variables
# Functions of scripts/static, scripts/cross and scripts/deb: compilers, C libraries and Rust's
# standard library for this machine's architecture and for others. Sourced after machine.sh.

# Prints why nothing is built, and exits as checks do that are skipped.
skip() {
    say "SKIP $*"
    exit 77
}

# Sets the names that an architecture has: in Rust (`target` without the C library), as a
# prefix of GNU's tools and C library (`triplet`), in Debian (`debian`) and in QEMU (`qemu`).
# `is_cross` is yes unless it is this machine's.
name_architecture() {
    arch=$1 target=$1-unknown-linux triplet=$1-linux-gnu debian=$1 qemu=qemu-$1 is_cross=yes
    case $arch in
        x86_64) debian=amd64 ;;
        aarch64) debian=arm64 ;;
        powerpc64le) debian=ppc64el qemu=qemu-ppc64le ;;
        s390x) ;;
        riscv64) target=riscv64gc-unknown-linux ;;
        *) die "$arch is not one of x86_64, aarch64, powerpc64le, s390x, riscv64" ;;
    esac
    case $(uname -m) in
        "$arch" | "${qemu#qemu-}") is_cross=no ;;
    esac
}

# The name of a variable for a target: cargo's in capitals, the C compiler's in small letters.
in_variable() { tr '-' '_' <<<"$1"; }
in_capitals() { in_variable "$1" | tr '[:lower:]' '[:upper:]'; }

# Provides the C compiler of `triplet` and its C library, and sets `cc`.
need_c_compiler() {
    cc=cc
    [ "$is_cross" = yes ] || return 0
    cc=$triplet-gcc
    need_programs "$cc=gcc-${triplet//_/-}" "$triplet-ar=binutils-${triplet//_/-}" || return 1
    [ -e "/usr/$triplet/include/stdlib.h" ] || [ -e "/usr/include/$triplet/stdlib.h" ] ||
        install_packages "libc6-dev-$debian-cross"
}

std_is_ready() {
    [ -n "$(find "$sysroot/lib/rustlib/$1/lib" -name 'libstd-*.rlib' -print -quit 2>/dev/null)" ]
}
std_has_sources() { [ -e "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ]; }

# Installs the sources of std, from rustup or from Debian, whose name for them depends on
# its name for the compiler.
need_std_sources() {
    std_has_sources && return 0
    if command -v rustup >/dev/null; then
        rustup --quiet component add rust-src 2>/dev/null
    elif has_package rustc-web; then
        install_packages rust-web-src
    elif has_package rustc; then
        install_packages rust-src
    fi
    std_has_sources
}

# Unpacks Debian's compiler and its sources of std in target/rust, and makes cargo use it: for a
# machine whose own compiler has neither std for the target nor its sources. Nothing is installed.
unpack_debian_rust() {
    local root packages
    root=$(target_directory)/rust
    if [ ! -e "$root/ready" ]; then
        command -v apt-get >/dev/null && at_least "$(apt_candidate rustc-web)" "$(rust_needed)" || return 1
        mapfile -t packages < <(apt-get install --simulate --no-install-recommends rustc-web rust-web-src 2>/dev/null |
            sed -n 's/^Inst \([^ ]*\) .*/\1/p')
        [ "${#packages[@]}" -gt 0 ] || return 1
        say "Unpacking Debian's Rust compiler in $root"
        rm -rf "$root"
        mkdir -p "$root/packages"
        (cd "$root/packages" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}") || return 1
        local package
        for package in "$root"/packages/*.deb; do
            dpkg-deb -x "$package" "$root" || return 1
        done
        rm -r "$root/packages"
        # The package's link is absolute on the installed system.
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$root/usr/lib:$root/usr/lib/$(uname -m)-linux-gnu" \
            "$root/usr/bin/rustc" >"$root/rustc"
        chmod 755 "$root/rustc"
        touch "$root/ready"
    fi
    export RUSTC=$root/rustc
    sysroot=$("$RUSTC" --print sysroot)
    std_has_sources
}

# Provides std for a target, and sets the options of cargo that it needs in `std_options`: none,
# or those that build the parts of std named by the other arguments. std always belongs to the
# very compiler that is used. The first that is available: the compiler's own; rustup's; built
# from the compiler's sources; built from the sources of Debian's compiler, which then compiles
# all. With `from_sources` = yes only the latter two.
need_std() {
    local wanted=$1 parts=$2
    std_options=()
    sysroot=$("${RUSTC:-rustc}" --print sysroot)
    if [ "${from_sources:-no}" = no ]; then
        std_is_ready "$wanted" && return 0
        if [ -z "${RUSTC:-}" ] && command -v rustup >/dev/null; then
            rustup --quiet target add "$wanted" 2>/dev/null && std_is_ready "$wanted" && return 0
            say "rustup cannot install std for $wanted: building it from source"
        fi
    fi
    need_std_sources || unpack_debian_rust || return 1
    std_options=("-Zbuild-std=$parts")
    # Allows -Z with a stable compiler.
    export RUSTC_BOOTSTRAP=1
}

# Provides musl for `arch`. Sets `musl`, the directory of its libraries, and `cc` and
# `musl_options`, the C compiler that uses its headers, and the options for that. For another architecture than this machine's,
# Debian's package is unpacked in target/musl: nothing is installed, and apt's own lists and
# architectures do not change.
need_musl() {
    local root='' name=$arch-linux-musl
    if [ "$is_cross" = yes ]; then
        root=$(target_directory)/musl/$arch
        [ -e "$root/usr/lib/$name/libc.a" ] || unpack_foreign "$root" "musl-dev:$debian" || return 1
        musl_options="-nostdinc -isystem $root/usr/include/$name -isystem $("$cc" -print-file-name=include)"
    else
        need_programs musl-gcc=musl-tools || return 1
        cc=musl-gcc musl_options=''
    fi
    musl=$root/usr/lib/$name
    [ -e "$musl/libc.a" ]
}

# Unpacks packages of other architectures in a directory, with package lists of its own.
unpack_foreign() {
    local root=$1 state options sources=/etc/apt/sources.list.d/debian.sources
    command -v apt-get >/dev/null || return 1
    state=$(target_directory)/apt/$debian
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$root/packages"
    options=(-qq -o APT::Sandbox::User=root -o "Dir::State=$state" -o "Dir::State::lists=$state/lists"
        -o "Dir::Cache=$state/cache" -o Acquire::Languages=none -o APT::Architecture="$(dpkg --print-architecture)"
        -o APT::Architectures::="$debian")
    # Only Debian's own sources: others need not have the architecture.
    [ ! -e "$sources" ] || options+=(-o "Dir::Etc::sourcelist=$sources" -o Dir::Etc::sourceparts=-)
    say "Downloading ${*:2}"
    # An update that misses some lists is enough if the package is in the others.
    apt-get "${options[@]}" update >/dev/null 2>&1 || true
    (cd "$root/packages" && apt-get "${options[@]}" download "${@:2}") >/dev/null 2>&1 || {
        rm -r "$root/packages"
        return 1
    }
    local package
    for package in "$root"/packages/*.deb; do
        dpkg-deb -x "$package" "$root" || return 1
    done
    rm -r "$root/packages"
}
