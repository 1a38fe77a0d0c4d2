#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

usage() {
    cat <<'END'
usage: scripts/test.sh [--quick] [--werror] [CONFIGURATION...]

Installs what is missing (apt-get, as root or by sudo), builds and tests normbench
in each configuration, all of them unless some are named:

  gcc        gcc, release
  clang      clang, release
  sanitize   gcc with AddressSanitizer and UBSan, without AVX-512
  nehalem    the gcc build on an emulated x86-64 CPU without AVX
  max        the gcc build on an emulated x86-64 CPU with AVX2, without AVX-512
  aarch64    an AArch64 cross build, emulated
  format     clang-format finds nothing to change, yamllint and the schema of GitHub's
             workflows nothing to blame

On a CPU other than x86-64 the emulated ones are left out. Builds stay in build-*/.

  --quick    the same as naming gcc alone
  --werror   warnings are errors

The last line is "N passed, N failed", test cases summed over all configurations; a
configuration that does not build counts as one failed. Ends with 1 if any failed.
END
}

werror=false
chosen=()
for argument in "$@"; do
    case $argument in
        --help | -h) usage && exit 0 ;;
        --quick) chosen+=(gcc) ;;
        --werror) werror=true ;;
        gcc | clang | sanitize | nehalem | max | aarch64 | format) chosen+=("$argument") ;;
        *)
            printf 'scripts/test.sh: unknown argument "%s"; see --help\n' "$argument" >&2
            exit 2
            ;;
    esac
done
if [ ${#chosen[@]} -eq 0 ]; then
    chosen=(gcc clang sanitize format)
    [ "$(uname -m)" != x86_64 ] || chosen=(gcc clang sanitize nehalem max aarch64 format)
fi

needs=("${NEEDS_BUILD[@]}" "${NEEDS_TEST[@]}")
browser=false schema=false
for configuration in "${chosen[@]}"; do
    case $configuration in
        gcc) browser=true ;;
        clang) needs+=("${NEEDS_CLANG[@]}") ;;
        format) schema=true && needs+=("${NEEDS_CLANG[@]}" "${NEEDS_LINT[@]}") ;;
        nehalem | max) needs+=("${NEEDS_X86_EMULATION[@]}") ;;
        aarch64) needs+=("${NEEDS_AARCH64[@]}") ;;
    esac
done
need_packages "${needs[@]}"
! $browser || want_packages 'the tests of the report' "${NEEDS_REPORT[@]}" "${NEEDS_BROWSER[@]}"
! $schema || want_packages "the workflow's schema" "${NEEDS_SCHEMA[@]}"

export LC_ALL=C
export CMOCKA_MESSAGE_OUTPUT=TAP # a line a test case, which count() reads
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
unset NORMKERNELS_ISA CC CXX CFLAGS CXXFLAGS LDFLAGS

# build NAME [MESON OPTION...]: sets up (again) and compiles build-NAME.
# ccache, where it is, spares the tests that build the tree once more.
build() {
    local dir=build-$1 again=() ccache=''
    ! command -v ccache >/dev/null || ccache='ccache '
    local -x CC="${ccache}gcc" CXX="${ccache}g++"
    case $1 in
        clang) CC=clang CXX=clang++ ;;
        aarch64) unset CC CXX ;; # the cross file names them
    esac
    shift
    [ ! -f "$dir/meson-private/coredata.dat" ] || again=(--reconfigure)
    mkdir -p "$dir"
    meson setup "${again[@]}" "$dir" -Dwerror=$werror "$@" >"$dir/setup.log" 2>&1 ||
        { cat "$dir/setup.log" && return 1; }
    ninja -C "$dir" --quiet
}

# run_tests NAME [MESON TEST OPTION...]: runs the tests of build-NAME, one more at a time
# than there are cores: some wait for what hangs.
run_tests() {
    local dir=build-$1
    shift
    meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes $(($(nproc) + 1)) "$@"
}

# Tests that run other programs (suite `host`) would leave the emulated CPU. How rows
# and columns are walked was tested at length without emulation: tiny shapes will do.
emulated=(--no-suite host --timeout-multiplier 20)

configuration_gcc() { build gcc && run_tests gcc; }
# The larger sizes are gcc's, and the program from outside gcc's and the sanitizers': they
# take minutes. Scripts are the same whatever the compiler: gcc's too.
configuration_clang() {
    build clang &&
        NORMBENCH_TEST_SCALE=small run_tests clang --no-suite program --no-suite script
}
# -O1: at -O2 gcc takes minutes for the instrumented kernels. AVX-512 is left out, half of
# them: the same sources over other intrinsics, whose reads and writes the guard pages of
# gcc's tests watch to the byte.
configuration_sanitize() {
    local isas=''
    [ "$(uname -m)" != x86_64 ] || isas=scalar,avx2
    build sanitize -Db_sanitize=address,undefined -Doptimization=1 -Ddebug=false -Dc_args=-g1 \
        -Disas="$isas" &&
        NORMBENCH_TEST_SCALE=tiny run_tests sanitize --no-suite script --timeout-multiplier 5
}
configuration_nehalem() {
    build gcc && NORMBENCH_TEST_SCALE=sample NORMBENCH_TEST_ISAS='scalar' run_tests gcc \
        "${emulated[@]}" --logbase nehalem --wrapper 'qemu-x86_64-static -cpu Nehalem'
}
configuration_max() {
    build gcc && NORMBENCH_TEST_SCALE=sample NORMBENCH_TEST_ISAS='scalar avx2' run_tests gcc \
        "${emulated[@]}" --logbase max --wrapper 'qemu-x86_64-static -cpu max'
}
configuration_aarch64() {
    build aarch64 --cross-file scripts/aarch64.cross &&
        NORMBENCH_TEST_SCALE=tiny NORMBENCH_TEST_ISAS='scalar neon' run_tests aarch64 \
            "${emulated[@]}"
}
configuration_format() {
    git ls-files -z '*.c' '*.h' '*.cc' | xargs -0 clang-format-14 --dry-run --Werror &&
        yamllint --strict .github &&
        PYTHONPATH=build-python python3 -m check_jsonschema \
            --builtin-schema vendor.github-workflows .github/workflows/*.yml
}

# count LOG: prints "passed failed skipped" of a meson testlog.json. A program
# that lists its cases (TAP) counts by these, any other as one; one that ends
# badly without saying which case failed counts one failure more.
count() {
    python3 - "$1" <<'END'
import json, re, sys
passed = failed = skipped = 0
for line in open(sys.argv[1]):
    test = json.loads(line)
    cases = re.findall(r"^(not )?ok \d+(.*)$", test.get("stdout", ""), re.M)
    skips = sum("# SKIP" in rest for _, rest in cases)
    bad = sum(bool(no) and "# SKIP" not in rest for no, rest in cases)
    good = len(cases) - skips - bad
    if test["result"] == "SKIP":
        skips += not cases
    elif test["result"] not in ("OK", "EXPECTEDFAIL"):
        bad += not bad
    else:
        good += not cases
    passed, failed, skipped = passed + good, failed + bad, skipped + skips
print(passed, failed, skipped)
END
}

total_passed=0
total_failed=0
total_skipped=0
summary=''
for configuration in "${chosen[@]}"; do
    printf '\n== %s\n' "$configuration"
    case $configuration in
        nehalem | max) log=build-gcc/meson-logs/$configuration-qemu-x86_64-static.json ;;
        *) log=build-$configuration/meson-logs/testlog.json ;;
    esac
    rm -f "$log"
    started=$SECONDS
    status=0
    "configuration_$configuration" </dev/null || status=$?
    if [ -f "$log" ]; then
        read -r passed failed skipped < <(count "$log")
        [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
        [ $((passed + failed)) -gt 0 ] || failed=1
    elif [ "$configuration" = format ]; then
        passed=$((status == 0)) failed=$((status != 0)) skipped=0
    else
        passed=0 failed=1 skipped=0
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    summary+=$(printf '%-10s %7d %7d %7d %8d' "$configuration" "$passed" "$failed" "$skipped" \
        $((SECONDS - started)))$'\n'
done

printf '\n%-10s %7s %7s %7s %8s\n%s' configuration passed failed skipped seconds "$summary"
closing="$total_passed passed, $total_failed failed"
[ "$total_skipped" -eq 0 ] || closing+=", $total_skipped skipped"
printf '%s\n' "$closing"
[ "$total_failed" -eq 0 ]
