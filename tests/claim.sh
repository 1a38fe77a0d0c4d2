#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# claim along its axes and for models, and what it answers against what it measured.
#   claim.sh NORMBENCH BUILD SOURCE   (BUILD: with bench/peers and tests/deny_ptrace, where there
#   are any)
set -u
. "$(dirname "$0")/checks.sh"
. "$(dirname "$0")/small_caches.sh"
normbench=$1
build=$2
source=$3
peers=$build/bench/peers
deny=$build/tests/deny_ptrace

# The cells of a CSV: each begins with LayerNorm, in slot 0.
cells() {
    column 8-11,13-18,27 "$1" |
        awk -F, '$11 == 0 { if (cell) print cell; cell = $0 } $2 == "layernorm_bwd" { cell = cell ",training" }
            END { print cell }' | sort -u
}

quick="--quick --processes 1"

# ---- Axes: from the base each alone
threads=1 more=0
[ "$(nproc)" -eq 1 ] || threads=1,2 more=1
expect 0 'Base: f32, scalar, hidden 64, ' "$normbench" claim --axes $quick --isa scalar \
    --hidden 64,128 --rows 1,2 --threads $threads --provider normkernels --out "$work/a.csv"
holds 'the table keeps to 100 columns' narrow
for line in 'hidden 64' 'hidden 128' 'level L1' 'level memory' 'ISA scalar' 'dtype f16' 'rows 1' \
    'rows 2' "threads ${threads#1,}" 'mode rotate' 'step fused add' 'step forward + backward' \
    'LayerNorm welford' 'LayerNorm one_pass'; do
    holds "there is a line '$line'" grep -q "^$line  " "$work/output"
done
base=$(cells "$work/a.csv" | grep '^normkernels,layernorm,default,f32,scalar,[0-9]*,64,1,L2,hot,0$')
holds 'one of the cells is the base' is "$(echo "$base" | grep -c .)" 1
# 1 base, 1 hidden, 3 levels, 2 dtypes, 2 rows, 1 mode, 2 kinds of step, 4 algorithms
holds 'no cell is measured twice' is "$(cells "$work/a.csv" | wc -l)" $((16 + more))
# Rows and level may have to follow.
holds 'a cell differs from the base on one axis alone' is "$(cells "$work/a.csv" | awk -F, -v base="$base" '
    BEGIN { split(base, b) }
    { n = $12 != ""; for (i = 2; i <= 10; i++) n += i != 6 && i != 9 && $i != b[i] }
    n > 1')" ''
expect 0 'Base: bf16, scalar, hidden 64, ' "$normbench" claim --axes $quick --isa scalar --dtype bf16 \
    --hidden 64 --rows 1 --mode hot --algorithm one_pass,welford --kernel layernorm,rmsnorm \
    --provider normkernels --out "$work/b.csv"
holds 'filters give the axes their values' is "$(cells "$work/b.csv" | grep ',scalar,1,64,' | cut -d, -f2-7,10 | tr '\n' ' ')" \
    'layernorm,one_pass,bf16,scalar,1,64,hot '
expect 2 'no pair to compare' "$normbench" claim --axes --kernel dyt
expect 0 'f32, hot, 1 thread, forward + backward' "$normbench" claim $quick --isa scalar --hidden 64 --rows 2 \
    --kernel layernorm,rmsnorm,layernorm_bwd,rmsnorm_bwd --out "$work/t.csv"
holds 'whose limit is not known, unlike that of the plain cell' is \
    "$(grep -cE '"limit_ns":[[:space:]]*[0-9]' "$work/t.json")" 4
holds 'a training step is both kernels and both gradients' is \
    "$(column 9,27 "$work/t.csv" | tail -5 | tr '\n' ' ')" \
    'layernorm,0 rmsnorm,1 copy,2 layernorm_bwd,3 rmsnorm_bwd,4 '

# ---- Where one round outlasts the budget it is of the calls that are checked
expect 0 'f16, hot, 1 thread' "$normbench" claim --quick --processes 2 --isa scalar --dtype f16 \
    --hidden 16384 --rows 256 --out "$work/long.csv"
[ "$(column 26 "$work/long.csv" | sort -u)" != 0 ] ||
    holds 'two calls each, in either process' is \
        "$(column 20,22 "$work/long.csv" | sort | uniq -c | awk '{print $1 "x" $2}' | tr '\n' ' ')" '4x0,2 4x1,2 '
holds 'all of them checked' is "$(column 28 "$work/long.csv" | grep -c .)" "$(column 28 "$work/long.csv" | wc -l)"

# ---- Peers: plain C, beside ours and alone
for peer in "$peers"/peer_*.so; do
    [ -e "$peer" ] || continue
    name=$(basename "$peer" .so | sed 's/^peer_//; s/_/-/g')
    expect 0 '3 kernels, 0 broken' "$normbench" verify --provider "$peer" --hidden 768
    expect 0 'rmsnorm (default) against layernorm (two_pass)' "$normbench" claim $quick \
        --hidden 64 --rows 2 --provider "$peer" --out "$work/$name.csv"
    holds "$name has its name in the CSV" is "$(column 8,13 "$work/$name.csv" | sort -u | grep -c "^$name,native$")" 1
    holds "$name leaves the process its floating-point state" is "$(nm "$peer" | grep -c set_fast_math)" 0
    all=${all:-normkernels},$peer
done
if [ -n "${all-}" ]; then
    expect 0 'LayerNorm two_pass' "$normbench" claim --axes $quick --hidden 64 --rows 1 --mode hot \
        --threads 1 --dtype f32 --kernel layernorm,rmsnorm --algorithm two_pass --provider "$all"
    for peer in "$peers"/peer_*.so; do
        name=$(basename "$peer" .so | sed 's/^peer_//; s/_/-/g')
        holds "a line for the LayerNorm of $name" is "$(grep -c "^$name two_pass " "$work/output")" 1
    done
fi

# ---- Models
expect 0 'gpt2-xl has layernorm: hidden 1600, 48 layers of 2 norms (pre)' "$normbench" claim \
    --model gpt2-xl $quick --isa scalar --rows 1 --out "$work/m.csv"
holds 'the table keeps to 100 columns' narrow
holds 'Pre-Norm adds the residual' is "$(column 9,14,15,18 "$work/m.csv" | sort -u | tr '\n' ' ')" \
    'add_layernorm,1,1600,rotate add_rmsnorm,1,1600,rotate copy,1,1600,rotate '
holds 'a token reads 4 bytes a parameter' grep -q '^A token reads 6.23 GB of parameters (f32)' "$work/output"
holds 'what memory gives is in the machine file' grep -q load_bytes_per_s "$work/m.json"
expect 0 'cannot be told' env HWLOC_COMPONENTS=stop "$normbench" claim --model gpt2 $quick --isa scalar \
    --rows 1
expect 0 'rmsnorm against layernorm' "$normbench" claim --model gemma-2-2b $quick --isa scalar --rows 1
expect 2 'leave them out' "$normbench" claim --model gpt2 --level L1
expect 2 'leave them out' "$normbench" claim --model gpt2 --hidden 64
expect 2 'choose one' "$normbench" claim --exhaustive --axes

# ---- Meanings: of the formula, and as count has it (not of instrumented kernels)
line() { awk -v a="$1" '/^[a-z]/ { name = $1 } name == a' "$work/meanings" | sed -n "s/.*$2  *//p"; }
if [ -x "$deny" ]; then
    expect 0 'against layernorm of normkernels, f32, scalar, 2 rows of 64' "$normbench" claim \
        --meanings $quick --isa scalar --hidden 64 --rows 2 --out "$work/f.csv"
    holds 'the table keeps to 100 columns' narrow
    cp "$work/output" "$work/meanings"
    holds 'arithmetic of the formula: 4 of 7' is "$(line default formula | tr -s ' ')" \
        '7.00 4.00 42.9 % exact above'
    holds 'and of two passes: 4 of 8' is "$(line two_pass formula | tr -s ' ')" \
        '8.00 4.00 50.0 % exact above'
    # x and y, 4 bytes each; gamma and beta of two rows 4 bytes
    holds 'bytes: one parameter less' is "$(line default 'must move' | tr -s ' ')" \
        '12.00 10.00 16.7 % exact within'
    expect 0 'a row takes' "$normbench" claim --meanings $quick --isa scalar --hidden 1048576 --level L1
    expect 0 'f32, scalar, 32 rows of 64 (level unknown)' env HWLOC_COMPONENTS=stop "$normbench" claim \
        --meanings $quick --isa scalar --hidden 64 --algorithm default
fi
if [ -x "$deny" ] && "$normbench" count --kernel layernorm,rmsnorm --dtype f32 --isa scalar --rows 2 \
    --hidden 64 --csv "$work/count.csv" >/dev/null 2>&1; then
    sort "$work/count.csv" >"$work/first"
    sort "$work/f-counts.csv" >"$work/second"
    holds 'what is executed is what count says' cmp "$work/first" "$work/second"
    holds 'and so says the table' is "$(line default 'instructions executed' | awk '{print $1}')" \
        "$(grep '"layernorm","default"' "$work/count.csv" | cut -d, -f10 | awk '{printf "%.2f", $1 / 128}')"
    expect 0 'Nothing was counted' "$deny" "$normbench" claim --meanings $quick --isa scalar \
        --hidden 64 --rows 2 --algorithm default
    holds 'and says why' grep -q ptrace "$work/output"
    cp "$work/output" "$work/meanings"
    holds 'no count is made up' is "$(line default 'instructions executed' | tr -s ' ')" '- - - - -'
fi

# ---- A machine that shows little of itself
expect 0 'hidden 64, 32 rows (level unknown)' env HWLOC_COMPONENTS=stop "$normbench" claim --axes \
    $quick --isa scalar --hidden 64 --rows 1 --dtype f32 --mode hot --kernel layernorm,rmsnorm \
    --algorithm default --threads 1 --provider normkernels --out "$work/u.csv"
holds 'without a level no limit is known' is "$(grep -cE '"limit_ns":[[:space:]]*[0-9]' "$work/u.json")" 0

# ---- What is printed is what the CSV says
expect 0 '15-20 % hold' "$normbench" claim --isa scalar --hidden 768 --rows 2 --quick --processes 3 \
    --out "$work/c.csv"
holds 'whatever the order in a process, what was found is of whom it says' is \
    "$(column 9,10,25 "$work/c.csv" | sort -u | tr '\n' ' ')" \
    'copy,default,0 layernorm,default,10752 layernorm,two_pass,12288 rmsnorm,default,6144 '
printed=$(awk '$1 == 768 { print $9; exit }' "$work/output")
computed=$(column 20,23,26,27 "$work/c.csv" | python3 -c '
import collections, statistics, sys
times = collections.defaultdict(dict)
for line in sys.stdin:
    process, time, pair, slot = line.strip().split(",")
    times[process, pair][slot] = float(time)
medians = [statistics.median(t["1"] / t["0"] for (p, _), t in times.items() if p == process)
           for process in "012"]
print(f"{100 * (1 - statistics.median(medians)):.1f}")')
holds "the saving printed, $printed, is that of the CSV" is "$printed" "$computed"

# ---- Intervals: one kernel under two names
if command -v cc >/dev/null; then
    expect 0 '| 64 | L1 | 1 |' "$source/scripts/prove_intervals.py" 1 --build "$build" --hidden 64 \
        --levels L1 --out "$work/intervals"
fi

conclude
