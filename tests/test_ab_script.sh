#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/ab.sh in a repository of its own, whose library is one small kernel (a
# whole build would take minutes) and whose normbench calls the real one. A
# slow-down of a factor of two is held against a margin of 40 %. Prints TAP.
#   test_ab_script.sh SOURCE NORMBENCH
set -euo pipefail
export LC_ALL=C
source=$1
NORMBENCH=$(realpath "$2")
export NORMBENCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NORMKERNELS_ISA
number=0
failures=0

result() { # result STATUS NAME
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        failures=$((failures + 1))
        sed 's/^/# /' "$work/output"
    fi
}

# expect STATUS TEXT ARGUMENT...: how scripts/ab.sh ends, and a text that it prints.
expect() {
    local status=0
    scripts/ab.sh "${@:3}" >"$work/output" 2>&1 </dev/null || status=$?
    [ "$status" -eq "$1" ] && grep -qF -e "$2" "$work/output" && status=0 || status=1
    result $status "scripts/ab.sh ${*:3}: $1, $2"
}

mkdir -p "$work/tree/"{scripts,kernels,bench} && cd "$work/tree"
cp "$source/scripts/ab.sh" "$source/scripts/packages.sh" scripts/
cp "$source/kernels/normkernels.h" kernels/
cp "$source/examples/provider/mine.c" kernels/
cat >meson.build <<'END'
project('small', 'c')
m_dep = meson.get_compiler('c').find_library('m')
subdir('kernels')
subdir('bench')
END
cat >bench/meson.build <<'END'
executable('normbench', 'main.c')
END
cat >bench/main.c <<'END'
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) { return argc ? execv(getenv("NORMBENCH"), argv) : 1; }
END
cat >kernels/meson.build <<'END'
both_libraries('normkernels', 'mine.c', dependencies: m_dep)
END
echo note >note
git init -q . && git add . && git -c user.name=x -c user.email=x@y commit -qm base

small=(--hidden 64 --rows 64 --margin 40)
expect 0 'BASE_REF' --help
expect 2 'BASE_REF'
expect 2 'no revision "nowhere"' nowhere
expect 0 'same bytes' HEAD "${small[@]}"
expect 0 '### normbench: 1 unchanged' HEAD "${small[@]}" --markdown

# The working tree counts as it is: changed, new and deleted files.
rm note
printf '#define TIMES 2\n' >kernels/times.h
sed -i 's/^#include <math.h>/&\n#include "times.h"/
        s/^static nk_status rmsnorm(/static nk_status once(/
        s/^static const nk_kernel kernels/static nk_status rmsnorm(const nk_args *a)\n{\n    nk_status (*volatile work)(const nk_args *) = once;\n    for (int i = 1; i < TIMES; i++)\n        work(a);\n    return work(a);\n}\n\n&/' kernels/mine.c
expect 1 '1 slower' HEAD "${small[@]}"
expect 2 "there is no 'x'" HEAD --kernel x
echo '#error' >kernels/times.h
expect 3 'head cannot be built' HEAD "${small[@]}"

git worktree list >"$work/output"
status=0
[ "$(wc -l <"$work/output")" -eq 1 ] || status=1
result $status 'no worktree stays behind'
git status --short >"$work/output"
[ "$(wc -l <"$work/output")" -eq 3 ] || status=1
result $status 'the working tree is as it was'
echo "1..$number"
[ $failures -eq 0 ]
