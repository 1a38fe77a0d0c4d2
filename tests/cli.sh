#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program from outside: what it prints, and how it ends.
#   cli.sh NORMBENCH TWINS   (TWINS: the folder of the provider_twin builds)
set -u
. "$(dirname "$0")/checks.sh"
normbench=$1
program=$1
twins=$2

# expect_no TEXT: what the last command must not have printed.
expect_no() {
    ! grep -qF -e "$1" "$work/output" || fail "says '$1'"
}

case $(uname -m) in
aarch64 | arm64) absent=avx2 ;;
*) absent=neon ;;
esac

# ---- Help and wrong words
expect 2 'Usage: normbench COMMAND'
expect 2 "no command 'lsit'" lsit
expect 0 'verify' --help
expect 0 'normbench 0' --version
expect 0 '--kernel' list --help
expect 0 '--vectors' verify --help
expect 2 'unrecognized option' list --no-such-option
expect 2 'Too many arguments' list rmsnorm

# ---- Colour only on a terminal, and not where NO_COLOR asks for none
# on_a_terminal ENVIRONMENT...: what `list` prints there.
on_a_terminal() { script -qec "env $* '$normbench' list --kernel rmsnorm" /dev/null </dev/null; }
has_colour() { grep -q "$(printf '\033')\["; }
checks=$((checks + 4))
on_a_terminal -u NO_COLOR | has_colour || fail 'no colour on a terminal'
on_a_terminal NO_COLOR= | has_colour || fail 'an empty NO_COLOR asks for nothing'
on_a_terminal NO_COLOR=1 | has_colour && fail 'colour in spite of NO_COLOR'
"$normbench" list --kernel rmsnorm | has_colour && fail 'colour in a pipe'

# ---- Filters
expect 0 'rmsnorm' list
expect 0 'layernorm' list --kernel layernorm --isa scalar --dtype f32
expect_no rmsnorm
expect 0 'two_pass' list --kernel layernorm,rmsnorm --algorithm two_pass
expect 2 "there is no 'rms'; there are: " list --kernel rms
expect 2 "there is no 'rmsnormx'" verify --kernel rmsnorm,rmsnormx
expect 2 "there is no 'fast'; there are: default" list --algorithm fast
expect 2 "there is no 'f64'; there are: f32" list --dtype f64
expect 2 "there is no 'sse2'; there are: scalar, avx2, avx512, neon" list --isa sse2
expect 2 'an empty name' list --kernel rmsnorm,
expect 2 "there is no 'gpt-9'; \`normbench list --models\` shows" verify --model gpt-9
expect 2 'the filters leave no kernel' list --kernel rmsnorm --algorithm two_pass
expect 2 '--level: list has no use for it' list --level L1
expect 2 '--rows: list has no use for it' list --rows 4
expect 3 "$absent cannot run here" verify --isa "$absent"
expect 2 'leave them out' list --models --isa scalar
expect 0 'llama-3.1-405b' list --models
[ "$(tail -n +2 "$work/output" | wc -l)" -ge 30 ] || fail 'thirty models are known'
[ -z "$(tail -n +2 "$work/output" | awk '{print $1}' | sort | uniq -d)" ] || fail 'no model twice'
expect 0 "$absent" list --isa "$absent" # the list shows what is absent, and why

# ---- Numbers
for number in abc -1 1e400 '' ' 1' 0x10 1.5 +2 18446744073709551616; do
    expect 2 'no whole number' verify --hidden "$number"
done
expect 2 '--hidden: 0 leaves nothing to do' verify --hidden 0
expect 2 '--rows: 0 leaves nothing to do' verify --rows 0
expect 2 'too large' verify --rows 4294967296 --hidden 4294967296 --isa scalar
expect 3 'exceed the memory' verify --rows 65536 --hidden 1073741824 --isa scalar --kernel rmsnorm
expect 2 'no whole number' verify --seed x

# ---- NORMKERNELS_ISA
NORMKERNELS_ISA=sse2
export NORMKERNELS_ISA
expect 2 'sse2' list
expect 2 'scalar' verify
NORMKERNELS_ISA=$absent expect 2 "$absent" verify
NORMKERNELS_ISA=scalar
expect 0 'scalar' verify --kernel rmsnorm --dtype f32 --hidden 5 --rows 3
for isa in avx2 avx512 neon; do
    expect_no "f32   $isa"
    expect 3 "$isa cannot run here" verify --isa $isa
done
unset NORMKERNELS_ISA
# The CPU's conversion to bf16 gives the bits that code gives, subnormals included.
bits="--dtype bf16 --kernel rmsnorm,add_rmsnorm,rmsnorm_add --hidden 70 --rows 3"
expect 0 ' 0 broken' verify $bits --dump "$work/with"
NORMKERNELS_WITHOUT=avx512_bf16 expect 0 ' 0 broken' verify $bits --dump "$work/without"
diff -r "$work/with" "$work/without" >"$work/output" || fail 'avx512_bf16 has other bits'
expect 0 ' 0 broken' verify $bits --seed 2 --dump "$work/other"
! diff -r "$work/with" "$work/other" >"$work/output" || fail 'the dumps do not depend on the rows'
NORMKERNELS_WITHOUT=avx512f expect 2 'there is avx512_bf16 and overlap' list
# Rows read beside others, on Intel, give the bits of rows read before them.
bits='--dtype f32 --kernel rmsnorm,layernorm,add_rmsnorm,deepnorm --hidden 421,1600 --rows 4'
expect 0 ' 0 broken' verify $bits --dump "$work/beside"
NORMKERNELS_WITHOUT=overlap expect 0 ' 0 broken' verify $bits --dump "$work/before"
diff -r "$work/beside" "$work/before" >"$work/output" || fail 'overlap has other bits'

# ---- verify against the oracle
expect 0 ' 0 broken' verify --hidden 1,5 # all kernels, on rows of every kind
expect 0 'rmsnorm' verify --kernel rmsnorm --dtype f32 --hidden 5,64 --rows 3 --seed 7
expect 0 ' 0 broken' verify --kernel rmsnorm --model gpt2-xl --isa scalar
"$normbench" verify --rows 1000 --hidden 4096 >"$work/output" 2>&1 &
sleep 1
kill -INT $!
wait $!
[ $? -eq 130 ] || fail 'Ctrl-C is status 130'
if [ -w /dev/full ]; then
    checks=$((checks + 1))
    "$normbench" list >/dev/full 2>"$work/output"
    [ $? -eq 3 ] || fail 'a full disk is status 3'
fi

# ---- Providers
expect 2 'No such file' list --provider "$work/none.so"
expect 2 "there is no 'onednn'" list --provider onednn
echo 'no shared object' >"$work/text.so"
expect 1 'text.so' list --provider "$work/text.so"
expect 1 'does not export nk_provider_v1' list --provider "$twins/twin_entry.so"
expect 1 'abi 2' list --provider "$twins/twin_abi.so"
expect 1 'its nk_kernel has 40 bytes' list --provider "$twins/twin_kernel_bytes.so"
expect 1 'has no name' list --provider "$twins/twin_name.so"
expect 1 'kernel 0 has no op' list --provider "$twins/twin_op.so"
expect 2 'twin wants more' list --provider "$twins/twin_error.so"
expect 2 'this program has no softmax in f32' list --provider "$twins/twin_stranger.so"
NORMBENCH_PATIENCE=0 expect 2 'no number of seconds' list --provider "$twins/twin_right.so"

# What crashes, hangs or ends the process is named, and the rest goes on.
NORMBENCH_PATIENCE=1
export NORMBENCH_PATIENCE
for bad in text:'text.so' twin_abi:'abi 2' twin_load_crash:'crashed: Segmentation fault' \
    twin_load_hang:'hung' twin_load_leave:'ended the process'; do
    file=$twins/${bad%%:*}.so
    [ -e "$file" ] || file=$work/text.so
    expect 1 "$file" list --provider "$file,$twins/twin_right.so"
    grep -q 'right *yes' "$work/output" || fail "$file: the other provider is listed"
    grep -qF "${bad#*:}" "$work/output" || fail "$file: does not say '${bad#*:}'"
done
expect 1 '1 kernels, 0 broken' verify --provider "$twins/twin_load_crash.so,$twins/twin_right.so" --hidden 64
for bad in twin_crash:'crashed: Segmentation fault' twin_illegal:'crashed: Illegal instruction' \
    twin_hang:'hung: no answer within 1 s' twin_leave:'ended the process'; do
    file=$twins/${bad%%:*}.so
    expect 1 "${bad#*:} ($file)" verify --provider "$file,$twins/twin_right.so" --hidden 64
    grep -q '2 kernels, 1 broken' "$work/output" || fail "$file: the other provider is checked"
done
unset NORMBENCH_PATIENCE

# Equal symbol names, different results: each is seen, in either order.
right=$twins/twin_right.so double=$twins/twin_double.so
expect 0 'right' verify --provider "$right" --hidden 64
expect 1 'double' verify --provider "$double" --hidden 64
for both in "$right,$double" "$double,$right"; do
    expect 0 'right' list --provider "$both"
    grep -q double "$work/output" || fail 'both twins are listed'
    expect 1 '2 kernels, 1 broken' verify --provider "$both" --hidden 64
    grep -q "repeat:.* --provider $double" "$work/output" || fail 'the wrong twin is named'
done
expect 0 'normkernels' list --provider "$right" --provider normkernels
cp "$right" "$work/copy.so"
expect 0 "$work/copy.so" list --provider "$right,$work/copy.so" # one name: told apart by path

# ---- Cases in a folder
# npy FILE VERSION TYPE SHAPE DATA: an array, its data as printf escapes.
npy() {
    {
        if [ "$2" -eq 1 ]; then printf '\223NUMPY\001\000v\000'; else printf '\223NUMPY\002\000t\000\000\000'; fi
        printf "%-$((119 - 2 * $2))s\n" "{'descr': '$3', 'fortran_order': False, 'shape': $4, }"
        # shellcheck disable=SC2059 # the data is meant to be a format
        printf "$5"
    } >"$1"
}

# A case: rms of [3, 4] with eps 0 is [0.8485281, 1.1313708]; $2 is its end.
case_3_4() {
    mkdir -p "$1"
    printf '{"op": "rmsnorm", "dtype": "f32", "eps": 0, "rows": 1, "hidden": 2,
        "inputs": {"x": "x.npy"%s' "$2" >"$1/case.json"
    npy "$1/x.npy" 1 '<f4' '(1, 2)' '\000\000\100\100\000\000\200\100'
    npy "$1/y.npy" 2 '<f8' '(1, 2)' '\217\024\377\172\044\047\353\077\013\143\377\121\030\032\362\077'
}
expected='}, "expected": {"y": {"file": "y.npy", "atol": 2e-7, "rtol": 0}}}'

cases=$work/cases
case_3_4 "$cases/rms" "$expected"
case_3_4 "$cases/unknown_role" '}, "expected": {"y": {"file": "y.npy", "atol": 2e-7, "rtol": 0},
    "z": {"file": "y.npy", "atol": 0, "rtol": 0}}}'
case_3_4 "$cases/bf16" "$expected"
sed 's/f32/bf16/; s/2e-7/4e-3/' "$cases/bf16/case.json" >"$work/json" && mv "$work/json" "$cases/bf16/case.json"
npy "$cases/bf16/x.npy" 1 '<u2' '(2,)' '\100\100\200\100'
case_3_4 "$cases/outside" "$expected" # four 1e-3, eps 1e-6: 0.999001 with eps outside the root
sed 's/"eps": 0/"eps": 1e-6, "eps_outside": true/; s/"hidden": 2/"hidden": 1/' "$cases/outside/case.json" >"$work/json" &&
    mv "$work/json" "$cases/outside/case.json"
npy "$cases/outside/x.npy" 1 '<f4' '(1, 1)' '\157\022\203\072'
npy "$cases/outside/y.npy" 1 '<f4' '(1, 1)' '\207\276\177\077'
case_3_4 "$cases/unknown_op" "$expected"
sed 's/rmsnorm/groupnorm/' "$cases/rms/case.json" >"$cases/unknown_op/case.json"
case_3_4 "$cases/unknown_option" ', "gamma": "x.npy"}, "groups": 2, "expected": {}}'
case_3_4 "$cases/add" ', "residual": "x.npy"}, "expected": {"h": {"file": "y.npy", "atol": 0, "rtol": 0}}}'
sed 's/rmsnorm/residual_add/' "$cases/add/case.json" >"$work/json" && mv "$work/json" "$cases/add/case.json"
npy "$cases/add/y.npy" 1 '<f4' '(1, 1, 2)' '\000\000\300\100\000\000\000\101'
case_3_4 "$work/nothing/c" "$expected" # rows of no element
sed 's/"rows": 1, "hidden": 2/"rows": 2, "hidden": 0/' "$work/nothing/c/case.json" >"$work/json" &&
    mv "$work/json" "$work/nothing/c/case.json"
npy "$work/nothing/c/x.npy" 1 '<f4' '(2, 0)' ''
npy "$work/nothing/c/y.npy" 1 '<f4' '(2, 0)' ''
expect 0 'rmsnorm scalar f32: 1 cases, 0 failed' verify --vectors "$work/nothing"
expect 0 'rmsnorm scalar f32: 3 cases, 0 failed' verify --vectors "$cases"
expect_no 'failed:'
grep -qF 'skipped: 3 (groupnorm 1, rmsnorm with groups 1, z of rmsnorm 1)' "$work/output" ||
    fail 'three things are skipped'
expect 1 'failed: rms: rmsnorm/algorithm:default/dtype:f32/isa:scalar crashed: Segmentation fault' \
    verify --vectors "$cases" --provider "$twins/twin_crash.so"
expect 0 'left out by the filters: 5' verify --vectors "$cases" --hidden 1
expect 2 'nothing was checked' verify --vectors "$cases" --hidden 3
expect 2 '--seed: the cases of --vectors are not random' verify --vectors "$cases" --seed 2
expect 2 'No such file' verify --vectors "$work/none"

# --dump: [6, 8] as they came, in a folder that was not there
expect 0 'rmsnorm' verify --vectors "$cases" --isa scalar --dump "$work/dump/new"
tail -c 8 "$work/dump/new/add/scalar/h.npy" >"$work/got"
printf '\000\000\300\100\000\000\000\101' | cmp -s - "$work/got" || fail 'the dump holds the results'
expect 2 'is not empty' verify --vectors "$cases" --dump "$work/dump/new"
expect 0 'rmsnorm' verify --vectors "$cases" --dump "$work/dump/new" --force
expect 2 'cannot' verify --vectors "$cases" --dump "$work/text.so"
expect 2 '--force' verify --force

# A wrong expectation is a failure, whatever else is there.
case_3_4 "$cases/wrong" "$expected"
npy "$cases/wrong/y.npy" 1 '<f4' '(1, 2)' '\043\071\131\077\000\000\200\077'
expect 1 'failed: wrong: y[0, 1] is 1.13137' verify --vectors "$cases"
grep -q 'rmsnorm scalar f32: 4 cases, 1 failed' "$work/output" || fail 'one of four failed'
rm -r "$cases/wrong"

# What cannot be read is named; the other cases still run.
bad() { # bad NAME TEXT: after the case $cases/bad was made
    expect 2 "$2" verify --vectors "$cases"
    grep -q 'rmsnorm scalar f32: 3 cases, 0 failed' "$work/output" || fail "$1: others still run"
    rm -r "$cases/bad"
}
case_3_4 "$cases/bad" '}, "expected": '
bad json 'bad/case.json:2: this is no JSON'
case_3_4 "$cases/bad" "$expected} {"
bad trailing 'this is no JSON'
case_3_4 "$cases/bad" "$expected" && rm "$cases/bad/case.json"
bad none 'bad/case.json: No such file'
case_3_4 "$cases/bad" "$expected" && rm "$cases/bad/y.npy"
bad expected 'bad/y.npy: No such file'
case_3_4 "$cases/bad" '}, "expected": {"y": {"file": "y.npy"}}}'
bad tolerance 'expected y needs atol and rtol'
case_3_4 "$cases/bad" "$expected" && echo text >"$cases/bad/x.npy"
bad magic 'bad/x.npy: it is no .npy file'
case_3_4 "$cases/bad" "$expected" && npy "$cases/bad/x.npy" 1 '<f4' '(1, 2)' '\000\000\100'
bad short 'bad/x.npy: it is shorter'
case_3_4 "$cases/bad" "$expected" && npy "$cases/bad/x.npy" 1 '<f4' '(1, 1)' '\000\000\100\100'
bad count 'bad/x.npy: has 1 elements'
case_3_4 "$cases/bad" "$expected" && npy "$cases/bad/x.npy" 1 '>f4' '(1, 2)' '\000\000\100\100\000\000\200\100'
bad endian 'bad/x.npy: its type is none of'
case_3_4 "$cases/bad" "$expected" && npy "$cases/bad/x.npy" 1 '<f4' '(4294967296, 4294967296, 4294967296)' ''
bad overflow 'bad/x.npy: its shape overflows'
case_3_4 "$cases/bad" "$expected" && sed 's/"hidden": 2/"hidden": -2/' "$cases/rms/case.json" >"$cases/bad/case.json"
bad negative 'rows and hidden must be whole numbers'
case_3_4 "$cases/bad" "$expected" && sed 's/"x"/"gamma"/' "$cases/rms/case.json" >"$cases/bad/case.json"
bad required 'rmsnorm needs the input x'

conclude
