#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
. scripts/packages.sh

usage() {
    cat <<'END'
usage: scripts/bench.sh [OPTION...]

Answers on this machine: what does RMSNorm save against LayerNorm? In this order:

  1. installs what is missing (apt-get, as root or by sudo; elsewhere it names the
     packages and stops)
  2. builds normbench in build/
  3. checks every kernel that this CPU can run (normbench verify)
  4. times both norms (normbench claim --quick): observations go to
     results/MACHINE/DATE-COMMIT.csv, what is known of the machine to the .json beside it
  5. prints the answer as a table

Options are passed on to `normbench claim` (see build/bench/normbench claim --help):
--hidden, --isa, --level and so on narrow it. --full leaves out --quick.

With --page, which takes no others but --full and --out, it also measures what explains the
answer (normbench claim --meanings, --axes, --model), into files of their own beside the first,
and scripts/answer.py makes a page of it all, FILE.md: some minutes more.

With --report it makes FILE.html of what it measured: charts, filters and tables. They are drawn
by vl-convert-python from PyPI, which is put into build-python/.
END
}

out=''
page=false
report=false
quick=(--quick)
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage && exit 0 ;;
        --full) quick=() ;;
        --page) page=true ;;
        --report) report=true ;;
        --out=*) out=${1#--out=} ;;
        --out)
            [ $# -gt 1 ] || { echo 'scripts/bench.sh: --out needs a file' >&2 && exit 2; }
            out=$2
            shift
            ;;
        *) arguments+=("$1") ;;
    esac
    shift
done

if $page && [ ${#arguments[@]} -gt 0 ]; then
    echo "scripts/bench.sh: --page measures what it needs; leave ${arguments[*]} out" >&2
    exit 2
fi

need_packages "${NEEDS_BUILD[@]}"
! $report || need_packages "${NEEDS_REPORT[@]}"

echo 'Building in build/'
mkdir -p build
again=()
[ ! -f build/meson-private/coredata.dat ] || again=(--reconfigure)
{ meson setup "${again[@]}" build --buildtype=release && ninja -C build; } >build/build.log 2>&1 || {
    tail -n 30 build/build.log >&2
    echo 'scripts/bench.sh: the build failed; all of its output is in build/build.log' >&2
    exit 3
}
normbench=build/bench/normbench

echo 'Checking every kernel against the oracle'
$normbench verify >build/verify.log || {
    status=$?
    cat build/verify.log
    echo 'scripts/bench.sh: a kernel is not what it promises; nothing was timed' >&2
    exit $status
}
tail -n 1 build/verify.log

if [ -z "$out" ]; then
    commit=$(git describe --always --dirty --abbrev=10 --exclude='*' 2>/dev/null || echo unknown)
    machine=$($normbench info --machine)
    out=results/$machine/$(date -u +%Y-%m-%dT%H%M%S)-$commit.csv
    mkdir -p "$(dirname "$out")"
else
    case $out in
        /*) ;;
        *) out=$here/$out ;;
    esac
fi

echo 'Timing LayerNorm against RMSNorm'
$normbench claim "${quick[@]}" --out "$out" "${arguments[@]}"
printf '\nObservations: %s\nMachine:      %s\n' "$out" "${out%.csv}.json"
base=${out%.csv}
files=("$out")

if $page; then
    models=bert-base,gpt2-xl,llama-2-7b,llama-3.1-70b
    for part in "meanings --meanings" "axes --axes" "models --model=$models"; do
        echo "Measuring: claim ${part#* }"
        files+=("$base-${part%% *}.csv")
        $normbench claim "${quick[@]}" "${part#* }" --out "${files[-1]}" >/dev/null
    done
    scripts/answer.py "${files[@]}" -o "$base.md"
    printf 'Page:         %s\n' "$base.md"
fi
if $report; then
    scripts/report.py "${files[@]}" -o "$base.html"
    printf 'Report:       %s\n' "$base.html"
fi
