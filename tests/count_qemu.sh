#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Counts from qemu's execution log: exact where the work is known, the same
# every time, and on x86-64 the same as single-stepping gives.
#   count_qemu.sh SCRIPT NORMBENCH TESTS aarch64|x86_64
set -u
. "$(dirname "$0")/checks.sh"
script=$1
normbench=$2
tests=$3
cpu=$4

# growth FILE: what two rows more add.
growth() {
    for column in instructions flops loads load_bytes stores store_bytes; do
        echo "$(($(value $column 2 "$1") - $(value $column 1 "$1")))"
    done
}

[ "$cpu" = aarch64 ] || export QEMU='qemu-x86_64-static -cpu Nehalem'
isa=scalar
[ "$cpu" = x86_64 ] || isa=neon
some="--kernel residual_add --dtype f32 --isa $isa --rows 4,6 --hidden 70"
for n in 1 2; do
    holds "a count ($n)" "$script" "$normbench" $some --csv "$work/$n.csv" >"$work/output"
done
holds 'two counts are the same' cmp "$work/1.csv" "$work/2.csv"
if [ "$cpu" = aarch64 ]; then
    holds 'a known kernel' "$script" "$normbench" --provider "$tests/provider_counted.so" \
        --kernel copy --rows 5 --hidden 7 --csv "$work/known.csv" >"$work/output"
    holds 'six instructions and six an element' is "$(value instructions 1 "$work/known.csv")" 216
    holds 'bytes loaded' is "$(value load_bytes 1 "$work/known.csv")" 328
    holds 'bytes stored' is "$(value store_bytes 1 "$work/known.csv")" 280
else
    "$normbench" count $some --csv "$work/stepped.csv" >"$work/output"
    holds 'the log and single steps count alike' is "$(growth "$work/1.csv")" \
        "$(growth "$work/stepped.csv")"
    "$script" "$normbench" --provider "$tests/provider_counted.so" --kernel copy --rows 5 \
        --hidden 7 >"$work/output" 2>&1
    holds 'what a log cannot tell is refused' is $? 3
    holds 'and named' grep -q 'a masked instruction' "$work/output"
fi
"$normbench" count --execution-log "$work/nowhere" $some >"$work/output" 2>&1
holds 'a log that is not there is an error' [ $? -ge 2 ]

conclude
