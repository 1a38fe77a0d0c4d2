#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# count from outside: exact counts, the same every time; baselines; kernels that
# go wrong; ptrace that is not permitted.
#   count.sh NORMBENCH TESTS   (TESTS: the folder of the providers built for tests)
set -u
. "$(dirname "$0")/checks.sh"
normbench=$1
tests=$2

count() { "$normbench" count "$@" >"$work/output" 2>&1 </dev/null; }

# ---- A kernel whose work is known
expect 0 '5x7' "$normbench" count --provider "$tests/provider_counted.so" --kernel copy \
    --rows 5 --hidden 7,1 --csv "$work/known.csv"
case $(uname -m) in
    x86_64) exact="13 $((48 + 8 * 35 + 8)) 280" one="13 $((48 + 8 * 5 + 8)) 40" ;;
    *) exact="$((6 + 6 * 35)) $((48 + 8 * 35)) 280" one="$((6 + 6 * 5)) $((48 + 8 * 5)) 40" ;;
esac
holds 'instructions, bytes loaded and stored are exact' is "$exact" \
    "$(value instructions 1 "$work/known.csv") $(value load_bytes 1 "$work/known.csv") $(value store_bytes 1 "$work/known.csv")"
holds 'for another shape too' is "$one" \
    "$(value instructions 2 "$work/known.csv") $(value load_bytes 2 "$work/known.csv") $(value store_bytes 2 "$work/known.csv")"

# ---- Our own kernels: repeatable, and exact relations
small="--kernel residual_add,rmsnorm --dtype f32 --hidden 70,72"
for n in 1 2; do
    count $small --rows 2 --csv "$work/$n.csv" || fail "count $small"
done
holds 'two runs are the same to the instruction' cmp "$work/1.csv" "$work/2.csv"
holds 'the table keeps to 100 columns' narrow
for isa in $("$normbench" list --kernel residual_add --dtype f32 | awk '$6 == "yes" { print $4 }'); do
    count --kernel residual_add --dtype f32 --isa "$isa" --rows 2,4,6,8 --hidden 70 \
        --csv "$work/$isa.csv" || fail "count --isa $isa"
    for column in instructions load_bytes store_bytes flops; do
        a=$(value $column 1 "$work/$isa.csv") b=$(value $column 2 "$work/$isa.csv")
        c=$(value $column 3 "$work/$isa.csv") d=$(value $column 4 "$work/$isa.csv")
        holds "$isa: two rows more add the same $column" is "$((b - a)) $((b - a))" "$((c - b)) $((d - c))"
        holds "$isa: and they add something" [ $((b - a)) -gt 0 ]
    done
    case $isa in scalar | neon) continue ;; esac # their tails are not masked
    # One element more is one more lane of a masked tail: 4 bytes a row.
    count --kernel residual_add --dtype f32 --isa "$isa" --rows 4 --hidden 69,70 \
        --csv "$work/tail.csv" --force || fail "count --isa $isa"
    holds "$isa: a masked store counts what it stores" is 16 \
        $(($(value store_bytes 2 "$work/tail.csv") - $(value store_bytes 1 "$work/tail.csv")))
    holds "$isa: a masked load what it loads" is 32 \
        $(($(value load_bytes 2 "$work/tail.csv") - $(value load_bytes 1 "$work/tail.csv")))
done
count --kernel residual_add --dtype f32 --isa scalar --rows 1,2 --hidden 64 --csv "$work/s.csv"
holds 'one addition an element' is \
    "$(($(value flops 2 "$work/s.csv") - $(value flops 1 "$work/s.csv")))" 64
expect 0 'fp_add' "$normbench" count --kernel residual_add --dtype f32 --isa scalar --rows 1 \
    --hidden 64 --detail

# ---- Baselines
mine="--kernel residual_add --dtype f32 --isa scalar --rows 1 --hidden 64,65"
count $mine --csv "$work/base.csv"
expect 2 'exists' "$normbench" count $mine --csv "$work/base.csv"
expect 0 '0 more by over 1 %, 2 within it, 0 less, 0 new, 0 missing' \
    "$normbench" count $mine --baseline "$work/base.csv"
lower() { # PERCENT: a baseline of which this is so much above
    awk -F, -v OFS=, -v percent="$1" 'NR > 1 { $(NF - 21) = int($(NF - 21) * 100 / (100 + percent)) } 1' \
        "$work/base.csv" >"$work/lower.csv"
}
lower 3
expect 1 'MORE: residual_add' "$normbench" count $mine --baseline "$work/lower.csv"
expect 1 '2 more by over 2.5 %' "$normbench" count $mine --baseline "$work/lower.csv" --margin 2.5
expect 0 '0 more by over 5 %' "$normbench" count $mine --baseline "$work/lower.csv" --margin 5
lower -50
expect 0 'less: residual_add' "$normbench" count $mine --baseline "$work/lower.csv"
sed 's/"residual_add"/"residual_sub"/; 2!s/residual_sub/residual_add/' "$work/base.csv" >"$work/gone.csv"
expect 1 'missing: residual_sub' "$normbench" count --dtype f32 --isa scalar --rows 1 \
    --hidden 64,65 --baseline "$work/gone.csv"
holds 'and what is new is listed' grep -q '^new: residual_add.*hidden:64' "$work/output"
expect 0 '1 within it' "$normbench" count $mine --kernel residual_add --baseline "$work/gone.csv"
expect 2 'nothing to compare with' "$normbench" count $mine --margin 2
expect 2 'no percentage' "$normbench" count $mine --baseline "$work/base.csv" --margin nan
expect 2 'no percentage' "$normbench" count $mine --baseline "$work/base.csv" --margin -1
expect 2 'in common' "$normbench" count --kernel rmsnorm --baseline "$work/base.csv"
expect 2 'cannot read' "$normbench" count $mine --baseline "$work/nowhere.csv"
sed 's/,"[a-z]* [0-9.]* /,"tcc 1.0 /' "$work/base.csv" >"$work/other.csv"
expect 2 "counted with the build 'tcc 1.0" "$normbench" count $mine --baseline "$work/other.csv"
sed 's/"L1d [0-9a-z]*/"L1d 12345/' "$work/base.csv" >"$work/other.csv"
expect 2 "counted with the caches 'L1d 12345" "$normbench" count $mine --baseline "$work/other.csv"
: >"$work/empty.csv"
expect 2 "empty.csv:1: the file is empty" "$normbench" count $mine --baseline "$work/empty.csv"

# ---- Wrong usage, wrong kernels
expect 2 'has no use for it' "$normbench" count $mine --level L1
expect 2 'no output' "$normbench" count $mine --force
expect 3 'No space left' "$normbench" count $mine --csv /dev/full
expect 2 'No such file' "$normbench" count $mine --csv "$work/nowhere/a.csv"
expect 1 'should be' "$normbench" count --provider "$tests/twin_double.so" --hidden 64 --rows 2
expect 1 "($tests/twin_crash.so): crashed: Segmentation fault" "$normbench" count \
    --provider "normkernels,$tests/twin_crash.so" --kernel rmsnorm --dtype f32 --isa scalar \
    --hidden 64 --rows 2
holds 'what crashes does not keep the others from being counted' grep -q '2x64' "$work/output"
expect 1 'hung: no answer within 1 s' env NORMBENCH_PATIENCE=1 "$normbench" count --provider "$tests/provider_counted.so" --algorithm hang \
    --hidden 64 --rows 2

# ---- Not permitted (nor is LeakSanitizer, which needs ptrace itself)
expect 3 'ptrace_scope' env ASAN_OPTIONS=detect_leaks=0 "$tests/deny_ptrace" "$normbench" count $mine
holds 'by a sentence that says what to change' grep -q 'SYS_PTRACE' "$work/output"

# ---- Ctrl-C
"$normbench" count --kernel rmsnorm --dtype f32 --isa scalar --rows 1,64 --hidden 64,65536 \
    --csv "$work/i.csv" >"$work/output" 2>&1 </dev/null &
running=$!
while [ ! -s "$work/i.csv" ] || [ "$(wc -l <"$work/i.csv")" -lt 2 ]; do
    kill -0 $running 2>/dev/null || break
    sleep 0.05
done
kill -INT $running
wait $running
holds 'interrupted is 130' is $? 130
holds 'finished rows stay' [ "$(wc -l <"$work/i.csv")" -ge 2 ]

conclude
