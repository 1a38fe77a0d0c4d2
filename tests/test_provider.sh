#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example of a provider, compiled by its own comment's command and used as a
# stranger would. Prints TAP.
#   test_provider.sh SOURCE NORMBENCH   (CC: the compiler)
set -u
export LC_ALL=C
source=$1 normbench=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset NORMKERNELS_ISA
cd "$source" || exit 1
number=0
failures=0

# expect STATUS TEXT COMMAND...
expect() {
    wanted=$1 text=$2
    shift 2
    number=$((number + 1))
    "$@" >"$work/output" 2>&1 </dev/null
    status=$?
    if [ "$status" -eq "$wanted" ] && { [ -z "$text" ] || grep -qF -e "$text" "$work/output"; }; then
        echo "ok $number - ${text:-it compiles}"
    else
        echo "not ok $number - $*: status $status of $wanted, '$text'"
        sed 's/^/# /' "$work/output"
        failures=$((failures + 1))
    fi
}

compile=$(sed -n 's/^ \*   cc //p' examples/provider/mine.c)
expect 0 '' sh -c "${CC:-cc} -Wall -Wextra -Werror ${compile%build/mine.so}$work/mine.so"
cp "$work/mine.so" "$work/copy.so"
mine="--provider $work/mine.so"
small='--hidden 768 --rows 4'
expect 0 'rmsnorm  default    f32    c    mine      yes' "$normbench" list $mine
expect 0 '1 kernels, 0 broken' "$normbench" verify $mine
expect 0 'rmsnorm' "$normbench" run $mine,normkernels --kernel rmsnorm --dtype f32 $small \
    --repetitions 1 --out "$work/mine.csv"
expect 0 '"mine"' cat "$work/mine.csv"
expect 0 '"normkernels"' cat "$work/mine.csv"
expect 0 'same bytes' "$normbench" ab "$work/mine.so" "$work/copy.so" $small --margin 50
sed 's/x\[i\] \* scale/x[i] * scale * 1.001f/' examples/provider/mine.c >"$work/wrong.c"
expect 0 '' ${CC:-cc} -shared -fPIC -O3 -Ikernels "$work/wrong.c" -lm -o "$work/wrong.so"
expect 1 '1 broken' "$normbench" verify --provider "$work/wrong.so" --hidden 768
expect 1 'head: rmsnorm/algorithm:default/dtype:f32/isa:c: y[' \
    "$normbench" ab "$work/mine.so" "$work/wrong.so" $small
echo "1..$number"
[ "$failures" -eq 0 ]
