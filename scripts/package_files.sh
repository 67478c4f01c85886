# shellcheck shell=bash
# shellcheck disable=SC2154  # the scripts set tree, built, static, run and tools
# The files of the package bigiron in a tree, for scripts/deb and scripts/rpm. Sourced in the root
# directory of the project, after scripts/machine.sh.

# put MODE DIRECTORY FILE...: copies files into the package's tree.
put() { install -D -m "$1" -t "$tree/$2" "${@:3}"; }

# program_files KIND COMPLETIONS_ZSH: fills $tree with the files of packages of this KIND: those of
# packaging/files, and what the program writes. $built has the programs, $static is the static one,
# $run runs programs of the architecture, and $tools is the prefix of its binutils.
program_files() {
    local kind=$1 zsh=$2 mode directory file only
    while read -r mode directory file only; do
        [ -n "$mode" ] || continue
        [ -z "$only" ] || [ "$only" = "$kind" ] || continue
        file=${file/#@built/$built}
        put "$mode" "$directory" "${file/#@static/$static}"
    done < <(sed 's/^#.*//' packaging/files)
    "${tools}strip" --strip-unneeded "$tree/usr/bin/bigiron" "$tree/usr/lib/bigiron/libbigiron_preload.so"
    "${run[@]}" "$built/bigiron" man "$tree/usr/share/man/man1"
    gzip -9n "$tree"/usr/share/man/man1/*.1
    mkdir -p "$tree"/usr/share/{bash-completion/completions,zsh/"$zsh",fish/vendor_completions.d}
    "${run[@]}" "$built/bigiron" completions bash >"$tree/usr/share/bash-completion/completions/bigiron"
    "${run[@]}" "$built/bigiron" completions zsh >"$tree/usr/share/zsh/$zsh/_bigiron"
    "${run[@]}" "$built/bigiron" completions fish >"$tree/usr/share/fish/vendor_completions.d/bigiron.fish"
    python3 scripts/third_party.py >"$tree/usr/share/doc/bigiron/third-party.txt"
}
