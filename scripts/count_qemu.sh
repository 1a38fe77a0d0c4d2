#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Counts on an emulated AArch64 CPU, where there is no ptrace: qemu logs each
# instruction of the kernels' library, and normbench counts from the log.
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/count_qemu.sh NORMBENCH [OPTION...]

NORMBENCH is an AArch64 build, as scripts/test.sh aarch64 leaves it in
build-aarch64/bench/normbench; the options are those of `normbench count`.
QEMU names another emulator than "qemu-aarch64-static -cpu neoverse-n1 -L /".
END
}

case ${1-} in
    --help | -h) usage && exit 0 ;;
    '' | -*) usage >&2 && exit 2 ;;
esac
normbench=$1
shift
# A CPU without SVE: where there is SVE, memcpy uses it, which is not decoded.
read -ra qemu <<<"${QEMU:-qemu-aarch64-static -cpu neoverse-n1 -L /}"
command -v "${qemu[0]}" >/dev/null || {
    printf '%s: there is no %s: install qemu-user-static\n' "$0" "${qemu[0]}" >&2
    exit 3
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Which addresses are logged has to be known before the program starts; qemu
# maps the libraries to the same ones each time. What chooses the kernels is all
# that matters here.
chosen=()
for ((i = 1; i <= $#; i++)); do
    case ${!i} in
        --provider | --kernel | --algorithm | --dtype | --isa)
            chosen+=("${@:i:2}")
            i=$((i + 1))
            ;;
        --provider=* | --kernel=* | --algorithm=* | --dtype=* | --isa=*) chosen+=("${!i}") ;;
    esac
done
filter=$("${qemu[@]}" "$normbench" count --log-filter "${chosen[@]}")
"${qemu[@]}" -singlestep -d exec,nochain -D "$log" -dfilter "$filter" \
    "$normbench" count --execution-log "$log" "$@"
