#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run, claim and info from outside: files, statuses, interruption, odd machines.
#   measure.sh NORMBENCH TWINS   (TWINS: the folder of the provider_twin builds)
set -u
. "$(dirname "$0")/checks.sh"
normbench=$1
twins=$2
columns='schema,run_id,started_utc,machine,cpu,commit,compiler,provider,kernel,algorithm,dtype,param_dtype,isa,rows,hidden,threads,level,mode,working_set_bytes,process,repetition,iterations,time_ns,bytes,flops,pair,slot,error_ulp,status'

rows_of() { tail -n +2 "$1" | wc -l | tr -d ' '; }

# ---- run: every op has a copy beside it, gradients included
all=$("$normbench" list --isa scalar --dtype f32 | awk 'NR > 1 && $2 == "default" {print $1}' | sort -u)
expect 0 'dyt_bwd' "$normbench" run --kernel "$(echo $all | tr ' ' ,)" --dtype f32 --isa scalar --hidden 70 \
    --rows 2 --repetitions 1 --out "$work/all.csv"
holds 'a copy for each' is "$(column 9 "$work/all.csv" | grep -c copy)" \
    "$(($(column 9 "$work/all.csv" | grep -vc copy) / 2 + 3))"

# ---- run: the copy is by the ISA that is measured, beside scalar code by the plainest vectors
expect 0 'rmsnorm' "$normbench" run --kernel rmsnorm --dtype f32 --hidden 70 --rows 2 \
    --repetitions 1 --out "$work/isas.csv"
isas_of() { paste "$work/kernels" "$work/isas" | awk -v kernel="$1" '$1 == kernel {print $2}' | sort -u; }
column 9 "$work/isas.csv" >"$work/kernels"
column 13 "$work/isas.csv" >"$work/isas"
vectors=$(isas_of rmsnorm | grep -v scalar)
holds 'no other' is "$(isas_of copy)" "${vectors:-scalar}"

# ---- run: what is left out unless it is asked for
expect 0 'layernorm' "$normbench" run --dtype f32 --isa scalar --hidden 70 --rows 2 --repetitions 1 \
    --out "$work/usual.csv"
holds 'default algorithms alone' is "$(column 10 "$work/usual.csv" | sort -u | tr '\n' ' ')" 'default '
holds 'and no gradients' is "$(column 9 "$work/usual.csv" | grep -c _bwd)" 0
expect 0 'welford' "$normbench" run --dtype f32 --isa scalar --hidden 70 --rows 2 --repetitions 1 \
    --algorithm welford --out "$work/welford.csv"

small="--kernel rmsnorm --dtype f32 --isa scalar --hidden 768 --rows 2"

# ---- run: the CSV and the machine file
expect 0 'ns/row' "$normbench" run $small --out "$work/a.csv" --repetitions 2
holds 'the columns are those of the design' is "$(head -1 "$work/a.csv" | tr -d '\r')" "$columns"
holds 'three rows a repetition: alone, and paired with the copy' is "$(rows_of "$work/a.csv")" 6
holds 'the copy has its rows' is "$(column 9 "$work/a.csv" | grep -c copy)" 2
holds 'pairs are numbered by repetition' is "$(column 26 "$work/a.csv" | tr '\n' ' ')" ' 0 0  1 1 '
holds 'every row is ok' is "$(column 29 "$work/a.csv" | sort -u)" ok
holds 'the machine file is complete' complete "$work/a.json" true
holds 'the table keeps to 100 columns' narrow
expect 2 'exists' "$normbench" run $small --out "$work/a.csv"
rm "$work/a.csv"
expect 2 'exists' "$normbench" run $small --out "$work/a.csv"
holds 'nothing is half written' [ ! -e "$work/a.csv" ]
expect 0 'ns/row' "$normbench" run $small --out "$work/a.csv" --repetitions 2 --force

# ---- run: three times, what takes 20 ms a call or more once
expect 0 'ns/row' "$normbench" run $small --out "$work/usual.csv" --force
expect 0 'ns/row' "$normbench" run --kernel dyt --algorithm default --dtype f32 --isa scalar \
    --hidden 1048576 --rows 3 --out "$work/long.csv"
for run in usual long; do
    wanted=$(value time_ns 1 "$work/$run.csv" | awk '{print $1 < 20e6 ? "0 1 2 " : "0 "}')
    holds "$run calls" is "$(column 21 "$work/$run.csv" | sort -u | tr '\n' ' ')" "$wanted"
done

# What takes 10 ms or more is timed by one call, which is checked, between two of the copy.
[ "$(value time_ns 1 "$work/long.csv" | awk '{print ($1 >= 20e6)}')" = 0 ] ||
    holds 'a long call is timed once' is "$(column 22 "$work/long.csv" | tr '\n' ' ')" '1 1 2 '
holds 'and checked' is "$(column 28 "$work/long.csv" | head -2 | awk '$1 < 64' | wc -l | tr -d ' ')" 2

# The copy takes none of the options of these.
expect 0 'ns/row' "$normbench" run --kernel deepnorm,prmsnorm,dyt --dtype f32 --isa scalar \
    --hidden 64 --rows 2 --repetitions 1 --out "$work/options.csv"

# ---- run: wrong usage
expect 2 '--out' "$normbench" run $small
expect 2 'No such file' "$normbench" run $small --out "$work/nowhere/a.csv"
expect 2 'contradict' "$normbench" run --kernel rmsnorm --rows 2 --level L1 --out "$work/b.csv"
expect 2 '0 leaves nothing to do' "$normbench" run $small --threads 0 --out "$work/b.csv"
expect 2 "'-1' is no whole number" "$normbench" run $small --threads -1 --out "$work/b.csv"
expect 2 "'abc' is no whole number" "$normbench" run $small --threads 1,abc --out "$work/b.csv"
expect 2 'at most' "$normbench" run $small --threads 5000 --oversubscribe --out "$work/b.csv"
expect 3 '--oversubscribe' "$normbench" run $small --threads 1000 --out "$work/b.csv"
expect 2 'no number' "$normbench" run $small --repetitions 0 --out "$work/b.csv"
expect 2 'too large' "$normbench" run --kernel rmsnorm --hidden 9999999999999999999 --out "$work/b.csv"
expect 3 'exceed the memory' "$normbench" run --kernel rmsnorm --rows 1 --hidden 99999999999999 --out "$work/b.csv"
expect 2 'too large' "$normbench" run --kernel rmsnorm --hidden 8 --rows 9999999999999999999 --out "$work/b.csv"
expect 2 "there is no 'x'" "$normbench" run --kernel x --out "$work/b.csv"
expect 2 'Too many arguments' "$normbench" run $small --out "$work/b.csv" more
holds 'nothing was written' [ ! -e "$work/b.csv" ]

# ---- run: outputs that fail
expect 3 'No space left' "$normbench" run $small --out /dev/full
expect 0 'ns/row' "$normbench" run $small --out /dev/null --repetitions 1
holds 'a device has no machine file' [ ! -e /dev/null.json ]

# ---- run: levels and modes
expect 0 'a row takes' "$normbench" run --kernel rmsnorm --dtype f32 --isa scalar --hidden 1048576 \
    --level L1 --out "$work/l.csv"
holds 'an empty cell has no row' is "$(rows_of "$work/l.csv")" 0
holds 'and its reason in the machine file' grep -q skipped "$work/l.json"
expect 0 rotate "$normbench" run $small --mode rotate --model bert-base --out "$work/m.csv" --repetitions 1
set -- $(column 19 "$work/m.csv" | sort -u)
holds 'rotate walks over 24 sets of x, y and gamma' is "$1" $((24 * (2 * 2 + 1) * 768 * 4))

# ---- run: replay
expect 0 'ns/row' "$normbench" run --replay "$work/a.json" --out "$work/r.csv"
column 9,11,13,14,15,21,25,26,27 "$work/a.csv" >"$work/first"
column 9,11,13,14,15,21,25,26,27 "$work/r.csv" >"$work/second"
holds 'a replay has the same rows in the same order' cmp "$work/first" "$work/second"
expect 2 'leave the others out' "$normbench" run --replay "$work/a.json" --isa scalar --out "$work/s.csv"
expect 2 'no machine file' "$normbench" run --replay "$work/a.csv" --out "$work/s.csv"
expect 2 'cannot read' "$normbench" run --replay "$work/nowhere.json" --out "$work/s.csv"
expect 2 'Is a directory' "$normbench" run --replay "$work" --out "$work/s.csv"

# ---- run: a provider that is wrong, one that crashes
expect 0 'ns/row' "$normbench" run --provider "$twins/twin_right.so" --hidden 64 --rows 2 \
    --repetitions 1 --out "$work/right.csv"
expect 1 'should be' "$normbench" run --provider "$twins/twin_double.so" --hidden 64 --rows 2 \
    --out "$work/wrong.csv"
holds 'what fails its check is never timed' is "$(column 23 "$work/wrong.csv" | tr -d '\n')" ''
holds 'and has one row that says why' is "$(rows_of "$work/wrong.csv")" 1
for bad in twin_crash:'crashed: Segmentation fault' twin_illegal:'crashed: Illegal instruction' \
    twin_hang:'hung' twin_leave:'ended the process'; do
    file=$twins/${bad%%:*}.so
    expect 1 "${bad#*:}" env NORMBENCH_PATIENCE=1 "$normbench" run --hidden 64 --rows 2 \
        --provider "$file,$twins/twin_right.so" --repetitions 1 --out "$work/${bad%%:*}.csv"
    holds "$file: the other provider is timed" is "$(rows_of "$work/${bad%%:*}.csv")" 4
    holds "$file: all was done" complete "$work/${bad%%:*}.json" true
done
expect 1 'crashed in rmsnorm' "$normbench" run --provider "$twins/twin_later_crash.so" --hidden 64 \
    --rows 2 --out "$work/later.csv"
holds 'a crash while it is timed leaves the file incomplete' complete "$work/later.json" false
expect 1 'hung in rmsnorm' env NORMBENCH_PATIENCE=1 "$normbench" run --hidden 64 --rows 2 \
    --provider "$twins/twin_later_hang.so" --out "$work/hang.csv"

# ---- run: threads
threads="--kernel rmsnorm --dtype f32 --isa scalar --hidden 768 --repetitions 1 --oversubscribe"
expect 0 '2 threads' "$normbench" run $threads --rows 5 --threads 1,2 --out "$work/th.csv"
holds 'rows are those of all threads' is \
    "$(column 14,16 "$work/th.csv" | sort -u | tr '\n' ' ')" '5,1 5,2 '
set -- $(column 9,16,24 "$work/th.csv" | sort -u | grep rmsnorm)
holds 'each thread reads its own parameters' is "$*" \
    "rmsnorm,1,$(((2 * 5 + 1) * 768 * 4)) rmsnorm,2,$(((2 * 5 + 2) * 768 * 4))"
holds 'the cell has its threads in its name' grep -q 'rows:5/hidden:768/threads:2"' "$work/th.json"
expect 0 'rows < 2 threads' "$normbench" run $threads --rows 1 --threads 2 --out "$work/th1.csv"
expect 0 'ns/row' "$normbench" run --replay "$work/th.json" --out "$work/thr.csv"
holds 'a replay has as many threads' is "$(column 16 "$work/thr.csv" | sort -u | tr '\n' ' ')" '1 2 '
expect 0 'ns/row' "$normbench" run --provider "$twins/twin_thread_crash.so" --hidden 64 --rows 2 \
    --repetitions 1 --out "$work/tc1.csv"
expect 1 'crashed in rmsnorm' "$normbench" run --provider "$twins/twin_thread_crash.so" --hidden 64 \
    --rows 2 --threads 2 --oversubscribe --out "$work/tc.csv"
expect 1 'y[1, 0] is' "$normbench" run --provider "$twins/twin_thread_wrong.so" --hidden 64 \
    --rows 2 --threads 2 --oversubscribe --out "$work/tw.csv"
holds 'what is wrong in a thread is never timed' is "$(column 23 "$work/tw.csv" | tr -d '\n')" ''

# ---- run: limits
holds 'the machine file has what was measured of the machine' grep -q stream_copy_bytes_per_s "$work/a.json"
holds 'and the limit of each cell' [ "$(grep -cE '"limit_ns":[[:space:]]*[0-9]' "$work/th.json")" = 2 ]
holds 'of an empty cell it is unknown' grep -qE '"limited_by":[[:space:]]*null' "$work/l.json"
expect 1 'the limit is wrong, or the work is not done' "$normbench" run --hidden 4096 --rows 32 \
    --provider "$twins/twin_lazy.so" --repetitions 1 --out "$work/lazy.csv"
expect 1 'the limit is wrong, or the work is not done' "$normbench" claim --hidden 4096 --rows 32 \
    --provider "$twins/twin_lazy.so" --quick --processes 1 --out "$work/lazy2.csv"
holds 'the answer is there all the same' complete "$work/lazy2.json" true

# ---- claim
pair="--isa scalar --hidden 768 --rows 2 --quick"
expect 0 '15-20 % hold' "$normbench" claim $pair --out "$work/c.csv" --processes 3
holds 'the columns are those of the design' is "$(head -1 "$work/c.csv" | tr -d '\r')" "$columns"
holds 'and every limit is in the machine file' [ "$(grep -cE '"limit_ns":[[:space:]]*[0-9]' "$work/c.json")" = 4 ]
holds 'three processes' is "$(column 20 "$work/c.csv" | sort -u | tr '\n' ' ')" '0 1 2 '
holds 'each pair has layernorm, rmsnorm, the copy and two_pass' is \
    "$(column 9,10,27 "$work/c.csv" | sort -u | tr '\n' ' ')" \
    'copy,default,2 layernorm,default,0 layernorm,two_pass,3 rmsnorm,default,1 '
holds 'as often each' is "$(column 27 "$work/c.csv" | sort | uniq -c | awk '{print $1}' | sort -u | wc -l)" 1
holds 'the machine file is complete' complete "$work/c.json" true
holds 'the table keeps to 100 columns' narrow
expect 0 'add_rmsnorm (default) against add_layernorm' "$normbench" claim $pair --processes 1 \
    --kernel add_layernorm,add_rmsnorm
expect 0 'against layernorm (two_pass)' "$normbench" claim $pair --processes 1 --algorithm two_pass
expect 2 'no pair to compare' "$normbench" claim --kernel rmsnorm
expect 3 '--oversubscribe' "$normbench" claim $pair --threads 1000
expect 0 ', 2 threads' "$normbench" claim $pair --processes 1 --threads 1,2 --oversubscribe \
    --out "$work/ct.csv"
holds 'claim with one thread and with two' is \
    "$(column 14,16 "$work/ct.csv" | sort -u | tr '\n' ' ')" '2,1 2,2 '
expect 0 'threads:2' "$normbench" ab "$twins/twin_right.so" "$twins/twin_right.so" --margin 1000 \
    --hidden 64 --rows 2 --processes 1 --threads 2 --oversubscribe
expect 1 'while it was timed' "$normbench" ab "$twins/twin_right.so" \
    "$twins/twin_thread_crash.so" --hidden 64 --rows 2 --processes 1 --threads 2 --oversubscribe
expect 2 'exists' "$normbench" claim $pair --out "$work/c.csv"
expect 3 'No space left' "$normbench" claim $pair --out /dev/full
expect 2 'other subcommands' "$normbench" worker

# ---- Ctrl-C keeps what is finished
interrupt() { # COMMAND: interrupts it when it has written its first rows
    rm -f "$work/i.csv" "$work/i.json"
    "$normbench" "$@" --out "$work/i.csv" >"$work/output" 2>&1 </dev/null &
    running=$!
    while [ ! -s "$work/i.csv" ] || [ "$(rows_of "$work/i.csv")" -lt 4 ]; do
        kill -0 $running 2>/dev/null || break
        sleep 0.05
    done
    kill -INT $running
    wait $running
    holds "$1: interrupted is 130" is $? 130
    holds "$1: finished rows stay" [ "$(rows_of "$work/i.csv")" -ge 4 ]
    holds "$1: the last row is whole" is "$(tail -1 "$work/i.csv" | tr -d '\r' | tail -c 5)" '"ok"'
    holds "$1: the machine file says incomplete" complete "$work/i.json" false
}
interrupt run --kernel rmsnorm --dtype f32 --hidden 768 --repetitions 100 --rows 1,2,3,4
interrupt claim --isa scalar --hidden 768 --rows 1,2,3,4 --processes 100

# ---- A machine that shows little of itself
expect 0 'chosen ISA' "$normbench" info
machine=$(tail -1 "$work/c.csv" | cut -d, -f4 | tr -d '"')
expect 0 "$machine" "$normbench" info --machine
expect 0 'NT copy' "$normbench" info --limits
holds 'no limit is 0 or no number' [ -z "$(grep -E ' (0|nan|inf)( |$)' "$work/output")" ]
expect 0 '"latency_ns"' "$normbench" info --limits --json
holds 'it is JSON' python3 -c 'import json, sys; json.load(open(sys.argv[1]))["limits"][0]' "$work/output"
expect 0 '"cores"' "$normbench" info --json
holds 'it recommends an ISA that runs' python3 -c 'import json, sys
recommended = json.load(open(sys.argv[1]))["recommended"]
times = recommended["relative_times"]
assert recommended["isa"] in times["isa"] and times["isa"].pop("scalar") > 0
assert recommended["layernorm"] == "default" and len(times["layernorm"]) > 2
assert recommended["add_rmsnorm"] in ("fused", "unfused")' "$work/output"
expect 0 'ISA             scalar' env NORMKERNELS_ISA=scalar "$normbench" info
expect 2 'hash only' "$normbench" info --machine --json
expect 0 'unknown' env HWLOC_COMPONENTS=stop "$normbench" info
holds 'an unknown size is no 0' is "$(grep -cE '^(L1d|L2|L3) +unknown$' "$work/output")" 3
expect 0 'chosen ISA' env HWLOC_XMLFILE=/nonexistent "$normbench" info
expect 0 'chosen ISA' env HWLOC_FSROOT=/nonexistent "$normbench" info
expect 0 'ns/row' env HWLOC_COMPONENTS=stop "$normbench" run --kernel rmsnorm --dtype f32 \
    --isa scalar --hidden 768 --repetitions 1 --out "$work/u.csv"
holds 'rows are chosen without caches' is "$(column 14 "$work/u.csv" | sort -u)" 32
holds 'and the level is empty' is "$(column 17 "$work/u.csv" | sort -u)" ''
holds 'and the cache sizes are null' is "$(grep -c '"bytes":[[:space:]]*null' "$work/u.json")" 3
expect 0 '15-20 % hold' env HWLOC_COMPONENTS=stop "$normbench" claim --isa scalar --hidden 768 \
    --quick --processes 1

# ---- A restricted set of CPUs
last=$(taskset -pc $$ | sed 's/.*[ ,-]//')
expect 0 "measured on     CPU $last" taskset -c "$last" "$normbench" info
holds 'and one thread is all' grep -q -e '--threads all   1$' "$work/output"
holds 'one CPU is allowed' grep -q 'CPUs allowed    1$' "$work/output"
expect 0 'ns/row' taskset -c "$last" "$normbench" run $small --repetitions 1 --out "$work/t.csv"
expect 3 '1 core may be used' taskset -c "$last" "$normbench" run $small --threads 2 --out "$work/t2.csv"
expect 0 'ns/row' taskset -c "$last" "$normbench" run $small --threads all --repetitions 1 \
    --out "$work/t3.csv"
holds 'all the threads of one core are one' is "$(column 16 "$work/t3.csv" | sort -u)" 1
expect 0 '3 threads' taskset -c "$last" "$normbench" run $threads --rows 3 --threads 3 \
    --out "$work/t4.csv"
holds 'the binding is recorded' grep -q "\"bound_cpu\":[[:space:]]*$last," "$work/t.json"

conclude
