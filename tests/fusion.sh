#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run --unfused, and the table that scripts/fusion.py makes of it.
#   fusion.sh NORMBENCH PROVIDERS SOURCE   (PROVIDERS: the folder of the provider_fused builds)
set -u
. "$(dirname "$0")/checks.sh"
normbench=$1
providers=$2
script=$3/scripts/fusion.py

# ---- The rows
small="--isa scalar --hidden 768 --rows 2 --repetitions 2 --unfused"
fused=add_layernorm,add_rmsnorm,rmsnorm_add,rmsnorm_add_rmsnorm
expect 0 'deepnorm is not timed unfused' "$normbench" run $small --out "$work/a.csv" \
    --kernel deepnorm,rmsnorm,$fused
holds 'the table keeps to 100 columns' narrow
holds 'each chain of each dtype has a row a repetition' is \
    "$(column 9,10 "$work/a.csv" | grep unfused | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 6 add_layernorm,unfused 6 add_rmsnorm,unfused 6 rmsnorm_add,unfused 6 rmsnorm_add_rmsnorm,unfused '
holds 'in the third slot of the pair' is \
    "$(column 10,26,27 "$work/a.csv" | grep unfused | sort -u | tr '\n' ' ')" 'unfused,0,2 unfused,1,2 '
holds 'every row is ok' is "$(column 29 "$work/a.csv" | sort -u)" ok
holds 'every chain was checked and timed' is \
    "$(column 10,23,28 "$work/a.csv" | grep -c '^unfused,[0-9.e+]*,[0-9.e+-]*$')" 24
# x, residual, gamma, h and the rows between: 2 rows of 768 floats each, gamma one
holds 'the rows between two kernels count' is \
    "$(column 9,10,11,19 "$work/a.csv" | grep '^rmsnorm_add,unfused,f32' | sort -u)" \
    "rmsnorm_add,unfused,f32,$(((4 * 2 + 1) * 768 * 4))"
expect 0 'ns/row' "$normbench" run --replay "$work/a.json" --out "$work/again.csv"
column 9,10,11,21,27 "$work/a.csv" >"$work/first"
column 9,10,11,21,27 "$work/again.csv" >"$work/second"
holds 'a replay has the same rows' cmp "$work/first" "$work/second"
expect 0 rotate "$normbench" run --unfused --kernel $fused --isa scalar --model bert-base \
    --mode rotate --rows 1 --repetitions 1 --out "$work/rotate.csv"

expect 2 'none of the kernels chosen is a fused one' "$normbench" run $small --kernel rmsnorm \
    --out "$work/b.csv"
expect 2 'multiplies x by alpha' "$normbench" run $small --kernel deepnorm --out "$work/b.csv"
expect 2 'leave the others out' "$normbench" run --unfused --replay "$work/a.json" --out "$work/b.csv"

# ---- Providers
provider() { echo run $small --provider "$providers/fused_$1.so" --kernel add_rmsnorm --out "$work/$1.csv"; }
expect 0 'ns/row' "$normbench" $(provider right)
expect 2 'has no residual_add' "$normbench" $(provider lacking)
expect 1 'unfused: y[' "$normbench" $(provider wrong)
holds 'a wrong chain has one row without a time; the kernel is timed' is \
    "$(column 10,23 "$work/wrong.csv" | sed 's/,[0-9].*/,time/' | grep -v copy | sort | uniq -c | tr -s ' \n' ' ')" \
    ' 6 default,time 1 unfused, '

# ---- The table
holds 'the table is made' "$script" "$work/a.csv" -o "$work/fusion.md"
cp "$work/fusion.md" "$work/output"
holds 'it names the CSV' grep -qF '[a.csv](a.csv)' "$work/fusion.md"
holds 'and the commit' grep -qF "commit $(column 6 "$work/a.csv" | head -1)," "$work/fusion.md"
holds 'a section for each fused kernel' is "$(grep -c '^## ' "$work/fusion.md")" 4
holds 'a line for each dtype in it' is "$(grep -c '^| .* | scalar | 768 | ' "$work/fusion.md")" 12
holds 'it says why deepnorm is none' grep -q '^deepnorm has no chain: ' "$work/fusion.md"
expect 0 'of fused, hot' "$script" "$work/right.csv"

# Known times: ratios .75, .5 and 1.5 make 25, 50 and -50 per cent.
head -1 "$work/a.csv" >"$work/known.csv"
awk -v q='"' 'BEGIN {
    split("75 50 150", fused)
    for (i = 0; i < 3; i++) for (slot = 0; slot < 3; slot += 2)
        printf "1,\"id\",\"then\",\"m\",\"c\",\"abc123\",\"cc\",\"normkernels\",\"add_rmsnorm\",\"%s\",\"f32\",\"f32\",\"avx2\",4,64,1,\"L2\",\"hot\",9,0,%d,1,%d,1,1,%d,%d,0,\"ok\"\r\n",
            slot ? "unfused" : "default", i, slot ? 100 : fused[i + 1], i, slot
}' >>"$work/known.csv"
machine='"run_id": "id", "complete": true, "arguments": ["--unfused"], "cells":
    [{"name": "add_rmsnorm/algorithm:unfused/dtype:f32/isa:avx2/rows:4/hidden:64"}]'
echo "{$machine}" >"$work/known.json"
expect 0 '| f32 | avx2 | 64 | 25.0 [-50.0, 50.0] |' "$script" "$work/known.csv"

# broken NAME TEXT SED-OF-CSV [SED-OF-JSON]: the message names the file and what to do
broken() {
    sed "$3" "$work/known.csv" >"$work/$1.csv"
    sed "${4:-}" "$work/known.json" >"$work/$1.json"
    expect 2 "$2" "$script" "$work/$1.csv"
    holds "$1: a remedy" grep -q "$1\..*normbench run --unfused" "$work/output"
}
broken lost 'algorithm:unfused/dtype:f32/isa:avx2/rows:4/hidden:64 has no row in repetition 1' 5d
broken half 'algorithm:default/dtype:f32/isa:avx2/rows:4/hidden:64 has no row in repetition 0' 2d
broken cell 'rows:4/hidden:64 has no row' '2,$c\
1,"id","then","m","c","abc123","cc","normkernels","rmsnorm","default","f32","f32","avx2",4,64,1,"L2","hot",9,0,0,1,1,1,1,0,0,0,"ok"'
broken empty 'a header and no rows' '2,$d'
broken incomplete 'is incomplete' '' s/true/false/
broken without 'made without --unfused' '' s/--unfused/--seed=1/
broken other 'of another run' '' 's/"id"/"ie"/'
broken failed 'y is wrong' '3s/"ok"/"y is wrong"/'
broken shape ":3: column 15 (hidden): 'x'" '3s/,64,/,x,/'
for time in '' 0 -1 nan inf abc; do
    broken time ":2: column 23 (time_ns): '$time' is no number" "2s/,75,/,$time,/"
done
rm "$work/known.json"
expect 2 'known.json' "$script" "$work/known.csv"
expect 2 'nowhere' "$script" "$work/a.csv" -o "$work/nowhere/fusion.md"

conclude
