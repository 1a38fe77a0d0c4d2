# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the tests that run programs from outside: a folder of their own in $work, checks
# that are counted, and what they ask of a program and of a CSV.
export LC_ALL=C
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset NORMKERNELS_ISA NORMKERNELS_WITHOUT
: >"$work/output"
program=''
failures=0
checks=0

fail() {
    echo "FAIL: $*" >&2
    sed 's/^/    /' "$work/output" >&2
    failures=$((failures + 1))
}

# expect STATUS TEXT COMMAND...: how the command ends, and a text that it prints. Where
# $program is set, it stands before the command.
expect() {
    wanted=$1 text=$2
    shift 2
    checks=$((checks + 1))
    ${program:+"$program"} "$@" >"$work/output" 2>&1 </dev/null
    status=$?
    [ "$status" -eq "$wanted" ] || { fail "$*: status $status, not $wanted"; return; }
    grep -qF -e "$text" "$work/output" || fail "$*: does not say '$text'"
}

# holds WHAT TEST...
holds() {
    what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "not so: $what"
}

is() { [ "$1" = "$2" ]; }
# of what the last command printed
says() { grep -qE -e "$1" "$work/output"; }
says_not() { ! says "$1"; }
narrow() { ! grep -q '.\{101\}' "$work/output"; }
# of a machine file
complete() { grep -q "\"complete\":[[:space:]]*$2" "$1"; }
# column NUMBER FILE: of a CSV
column() { tail -n +2 "$2" | tr -d '"\r' | cut -d, -f"$1"; }
# value COLUMN ROW FILE: a field of a CSV, the first row behind the header is 1.
value() {
    tr -d '"\r' <"$3" | awk -F, -v name="$1" -v row="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        NR == row + 1 { print $column }'
}

# The last line of each test.
conclude() {
    echo "$checks checks, $failures failures"
    [ "$failures" -eq 0 ]
}
