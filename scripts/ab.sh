#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

usage() {
    cat <<'END'
usage: scripts/ab.sh BASE_REF [OPTION...]

Is the working tree slower than a revision? Builds both alike, side by side, in a
folder of its own, and holds them against each other with `normbench ab`. What a
developer types before pushing:

  scripts/ab.sh origin/main

Options are passed on to `normbench ab` (--kernel, --isa, --margin, --markdown ...; see
build/bench/normbench ab --help); files that they name are relative to the top of the
tree. Ends with 1 if a kernel is slower, wrong or gone; 2 for a revision that does not
exist; 3 if one cannot be built.
END
}

case ${1:-} in
    --help | -h) usage && exit 0 ;;
    '' | -*) usage >&2 && exit 2 ;;
esac
base=$(git rev-parse --verify --quiet "$1^{commit}") || {
    printf 'scripts/ab.sh: there is no revision "%s"\n' "$1" >&2
    exit 2
}
shift
need_packages "${NEEDS_BUILD[@]}" >&2

# Paths of one length, so that even strings with file names lie alike.
work=$(mktemp -d)
cleanup() {
    git worktree remove --force "$work/base" 2>/dev/null || true
    rm -rf "$work"
    git worktree prune
}
trap cleanup EXIT
git worktree add --quiet --detach "$work/base" "$base"
mkdir "$work/head"
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null --files-from=- -cf - | tar -C "$work/head" -xf -

# build SIDE TARGET...: what goes wrong is shown, all else kept off the report.
build() {
    local dir=$work/$1/build
    printf 'Building %s\n' "$1" >&2
    {
        meson setup --buildtype=release "$dir" "$work/$1" && meson compile -C "$dir" "${@:2}"
    } >"$work/$1.log" 2>&1 || {
        tail -n 30 "$work/$1.log" >&2
        printf 'scripts/ab.sh: %s cannot be built\n' "$1" >&2
        exit 3
    }
}
build base normkernels:shared_library
build head normkernels:shared_library normbench

status=0
"$work/head/build/bench/normbench" ab "$work/base/build/kernels/libnormkernels.so" \
    "$work/head/build/kernels/libnormkernels.so" "$@" || status=$?
exit $status
