#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gate from outside. No small difference in time is asserted: a slow-down by
# a factor of two against a margin of 40 %.
#   ab.sh NORMBENCH TWINS   (TWINS: the folder of the provider_twin builds)
set -u
. "$(dirname "$0")/checks.sh"
normbench=$1
twins=$2
unset NORMBENCH_PATIENCE

base=$twins/twin_right.so
small='--hidden 64 --rows 4 --margin 40'
cp "$base" "$work/copy.so"

# ab STATUS TEXT HEAD OPTION...: base against head.
ab() {
    wanted=$1 text=$2 head=$3
    shift 3
    expect "$wanted" "$text" "$normbench" ab "$base" "$head" $small "$@"
}

# ---- The same code is not slower, twice the work is
ab 0 '1 unchanged' "$work/copy.so" --csv "$work/a.csv" --json "$work/answer.json"
holds 'equal files are told' says 'same bytes'
holds 'the table keeps to 100 columns' says_not '.{101}'
holds 'six processes' is "$(column 20 "$work/a.csv" | sort -u | tr '\n' ' ')" '0 1 2 3 4 5 '
holds 'both sides have as many rows' is "$(column 8 "$work/a.csv" | sort | uniq -c | tr -s ' ' | tr '\n' ,)" ' 30 base, 30 head,'
holds 'each in both places' is "$(column 8,27 "$work/a.csv" | sort -u | tr '\n' ' ')" 'base,0 base,1 head,0 head,1 '
holds 'the observations have their machine' complete "$work/a.json" true
holds 'the answer is whole' complete "$work/answer.json" true
holds 'and says that the files are equal' grep -q '"same_bytes":[[:space:]]*true' "$work/answer.json"
ab 0 '1 unchanged' "$base" --processes 1 # one file on both sides
ab 0 '1 unchanged' "$twins/twin_three.so" --algorithm default
holds 'files that differ are not called equal' says_not 'same bytes'
ab 1 '1 slower' "$twins/twin_slow.so" --csv "$work/slow.csv"
holds 'the kernel is named' says 'rmsnorm .* SLOWER'
holds 'it was measured once more' is "$(column 20 "$work/slow.csv" | sort -n | tail -1)" 11
expect 0 '1 faster' "$normbench" ab "$twins/twin_slow.so" "$base" $small
ab 0 '1 unchanged' "$twins/twin_slow.so" --margin rmsnorm=500,40 --margin 1 --processes 1
ab 1 '| SLOWER |' "$twins/twin_slow.so" --margin 500,rmsnorm=40 --markdown --processes 2
holds 'a heading for the comment' says '^### normbench: 1 slower'

# ---- Nothing measured is no success
expect 2 'nothing in common' "$normbench" ab "$base" "$twins/twin_layernorm.so" $small
ab 2 'the filters leave no kernel' "$work/copy.so" --kernel layernorm
ab 2 "there is no 'rms'" "$work/copy.so" --kernel rms
ab 2 "there is no 'rmsnormx'" "$work/copy.so" --kernel rmsnormx
ab 3 'cannot run here' "$work/copy.so" --isa avx512
expect 2 'can be had: a row takes' "$normbench" ab "$base" "$work/copy.so" --hidden 1048576 --level L1
expect 0 '1 unchanged' env HWLOC_COMPONENTS=stop "$normbench" ab "$base" "$work/copy.so" --margin 90 \
    --hidden 64 --processes 1

# ---- Kernels of one side only
expect 1 'only in base: rmsnorm/algorithm:second' "$normbench" ab "$twins/twin_three.so" "$base" \
    $small --algorithm default,second --processes 1
holds 'what is common is measured' says '1 only in base, 1 unchanged'
expect 0 'only in base: rmsnorm/algorithm:second' "$normbench" ab "$twins/twin_three.so" "$base" \
    $small --algorithm default,second --processes 1 --allow-missing
ab 0 'only in head: rmsnorm/algorithm:second' "$twins/twin_three.so" --processes 1 --algorithm default,second

# ---- Wrong, crashing and hanging sides are named, and the rest goes on
ab 1 'head: rmsnorm/algorithm:default/dtype:f32/isa:scalar: y[' "$twins/twin_double.so"
expect 1 'base: rmsnorm/' "$normbench" ab "$twins/twin_double.so" "$base" $small
expect 1 'BROKEN head: rmsnorm/algorithm:second' "$normbench" ab "$twins/twin_three.so" \
    "$twins/twin_poisoned.so" $small --algorithm default,second,third --processes 1 --csv "$work/p.csv"
holds 'only the poisoned kernel fails' says '1 broken, 2 unchanged'
holds 'and none of its rows has a time' is "$(grep '"second"' "$work/p.csv" | cut -d, -f23 | tr -d '\n')" ''
export NORMBENCH_PATIENCE=1
for bad in twin_crash:'crashed: Segmentation fault' twin_illegal:'crashed: Illegal instruction' \
    twin_hang:'hung: no answer within 1 s' twin_leave:'ended the process'; do
    ab 1 "head: rmsnorm/algorithm:default/dtype:f32/isa:scalar: ${bad#*:}" "$twins/${bad%%:*}.so"
done
ab 1 'while it was timed: rmsnorm' "$twins/twin_later_crash.so"
holds 'how it died is told' says 'crashed: Segmentation fault|crashed: Aborted|ended the process' # sanitizers
ab 1 'hung: no answer within 1 s, while it was timed' "$twins/twin_later_hang.so"
for bad in twin_abi:'abi 2' twin_entry:'is no provider' twin_load_crash:'crashed' \
    twin_load_hang:'hung' twin_load_leave:'ended the process'; do
    ab 1 "${bad#*:}" "$twins/${bad%%:*}.so"
    holds "${bad%%:*} is named" says "${bad%%:*}.so"
done
unset NORMBENCH_PATIENCE

# ---- Wrong usage
expect 2 'BASE.so HEAD.so' "$normbench" ab "$base"
expect 2 'Too many arguments' "$normbench" ab "$base" "$base" "$base"
ab 2 'No such file' "$work/none.so"
ab 2 'ab compares the two' "$work/copy.so" --provider normkernels
for number in 0 -1 nan '' abc 1e400 1001 0x2 1.5.2 rmsnorm= rmsnorm=x; do
    ab 2 'no per cent' "$work/copy.so" --margin "$number"
done
ab 2 "no kernel 'rms'" "$work/copy.so" --margin rms=2
ab 2 'no number' "$work/copy.so" --processes 0
ab 2 'no output' "$work/copy.so" --force

# ---- Outputs
ab 2 'exists' "$work/copy.so" --csv "$work/a.csv" --json "$work/b.json"
ab 2 'exists' "$work/copy.so" --json "$work/answer.json"
ab 2 'exists' "$work/copy.so" --csv "$work/b.csv" --json "$work/answer.json"
holds 'a refusal leaves nothing behind' [ ! -e "$work/b.csv" ]
holds 'neither file' [ ! -e "$work/b.json" ]
ab 2 'the machine file of --csv' "$work/copy.so" --csv "$work/b.csv" --json "$work/b.json" --force
ab 2 'cannot write' "$work/copy.so" --csv "$work/nowhere/a.csv"
ab 2 'cannot write' "$work/copy.so" --json "$work/nowhere/a.json"
ab 3 'No space left' "$work/copy.so" --csv /dev/full
ab 3 'No space left' "$work/copy.so" --json /dev/full --processes 1
ab 0 '1 unchanged' "$work/copy.so" --csv "$work/a.csv" --json "$work/answer.json" --force --processes 1

# ---- Ctrl-C keeps what is finished
"$normbench" ab "$base" "$work/copy.so" --hidden 64 --rows 4 --processes 100 --csv "$work/i.csv" \
    --json "$work/ij.json" >"$work/output" 2>&1 </dev/null &
running=$!
while kill -0 $running 2>/dev/null && { [ ! -s "$work/i.csv" ] || [ "$(wc -l <"$work/i.csv")" -lt 11 ]; }; do
    sleep 0.05
done
kill -INT $running
wait $running
holds 'interrupted is 130' is $? 130
holds 'finished rows stay' [ "$(wc -l <"$work/i.csv")" -ge 11 ]
holds 'the machine file says incomplete' complete "$work/i.json" false
holds 'and so does the answer' complete "$work/ij.json" false

conclude
