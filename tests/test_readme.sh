#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: test_readme.sh SOURCE WERROR
# Every line of README's sh blocks is run, in order, in a copy of the tree. What
# would take minutes or change the system is run in the form that `instead` gives;
# an entry there that README no longer has is a failure. Prints TAP.
set -euo pipefail
export LC_ALL=C
source=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

declare -A instead=(
    # the whole way, on the smallest question
    ['scripts/bench.sh']='NORMKERNELS_ISA=scalar scripts/bench.sh --hidden 768 --level L1'
    ['build/bench/normbench claim --model gpt2-xl']='build/bench/normbench claim --model gpt2-xl --quick --rows 1'
    ['build/bench/normbench claim --axes --quick']='build/bench/normbench claim --axes --quick --processes 1 --hidden 64 --isa scalar'
    # the tests verify every kernel at length, and count more of them
    ['build/bench/normbench verify']='build/bench/normbench verify --hidden 33'
    ['build/bench/normbench count --kernel rmsnorm --hidden 768']='build/bench/normbench count --kernel rmsnorm --hidden 64 --rows 1'
    # this test is a part of it
    ['scripts/test.sh']='scripts/test.sh --help'
    # this copy has no revisions; test_ab_script.sh does it
    ['scripts/ab.sh origin/main']='scripts/ab.sh --help'
    # into a folder of this test
    ['meson setup build']="meson setup --reconfigure build --prefix=$root/prefix --libdir=lib"
    ['meson install -C build && ldconfig']='meson install -C build'
)
. "$(dirname "$0")/small_caches.sh"
# Where it is not installed (scripts/packages.sh), only the report cannot be made.
export PYTHONPATH=$source/build-python
python3 -c 'import vl_convert' 2>/dev/null ||
    instead['scripts/report.py rmsnorm.csv unfused.csv -o report.html']='scripts/report.py --help'
export PKG_CONFIG_PATH=$root/prefix/lib/pkgconfig LD_LIBRARY_PATH=$root/prefix/lib

mkdir "$root/copy"
tar -C "$source" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$root/copy" -xf -
cd "$root/copy"
meson setup build -Dwerror="$2" >/dev/null # like the build that is tested, for ccache

number=0
failures=0
result() { # result STATUS NAME OUTPUT
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        failures=$((failures + 1))
        tail -n 20 <<<"$3" | sed 's/^/# /'
    fi
}

mapfile -t commands < <(awk '/^```$/ { on = 0 } on && NF; /^```sh$/ { on = 1 }' README.md)
for command in "${commands[@]}"; do
    status=0
    said=$(bash -o pipefail -c "${instead[$command]:-$command}" 2>&1 </dev/null) || status=$?
    result $status "$command" "$said"
done
for command in "${!instead[@]}"; do
    status=0
    printf '%s\n' "${commands[@]}" | grep -qxF -e "$command" || status=1
    result $status "README still says: $command" 'take it out of the table of this test'
done
echo "1..$number"
[ $failures -eq 0 ]
