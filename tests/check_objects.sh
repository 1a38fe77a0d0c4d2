#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_objects.sh HEADER LIBRARY.so FOLDER...
#        check_objects.sh --self-test
#
# What runs before the CPU is known, or on every CPU, must be baseline code:
#   - an ISA unit (an object with a symbol n[bk]_unit_*) exports that symbol only: an
#     inline libc helper compiled there could be the copy that the linker keeps;
#   - no other object in the folders holds an instruction beyond x86-64's baseline;
#   - the library exports what the header declares, all of it and nothing else.
set -euo pipefail
export LC_ALL=C

CC=${CC:-cc}
faults=0
fault() {
    printf 'FAULT: %s\n' "$1"
    faults=$((faults + 1))
}

# VEX and EVEX mnemonics begin with v (verr, verw and vm* are older), the others
# are SSE3 to SSE4.2, POPCNT, BMI, MOVBE, ADX and the like.
# tzcnt is "rep bsf" to a CPU without it: compilers use it where both agree.
beyond_baseline() {
    objdump -d --no-show-raw-insn "$1" | awk -F '\t' '
        NF < 2 { next }
        { split($2, word, " "); m = word[1] }
        (m ~ /^v/ && m !~ /^(verr|verw|vm)/) || /%[yz]mm/ ||
        m ~ /^(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|(sa|sh)[lr]x|lzcnt|popcnt)[lqw]?$/ ||
        m ~ /^(movbe|crc32|adcx|adox|lddqu|fisttp|movs[lh]dup|movddup|addsubp|h(add|sub)p)/ ||
        m ~ /^(pabs|palignr|ph(add|sub|min)|pmaddubs|pmulhrs|pshufb|psign|p?blend|dpp|insertps)/ ||
        m ~ /^(extractps|movntdqa|mpsadbw|packusdw|pcmpeqq|pcmpgtq|pextr[bdq]|pinsr[bdq])/ ||
        m ~ /^(pm(ax|in)(s[bd]|u[wd])|pmov[sz]x|pmuldq|pmulld|ptest|round[ps][sd]|pcmp[ei]str|aes|sha|pclmul)/ {
            print $2; exit
        }'
}

check_object() {
    local object=$1 globals instruction
    globals=$(nm --defined-only --extern-only --format=posix "$object" | cut -d ' ' -f 1)
    case $globals in
        *n[bk]_unit_*)
            units=$((units + 1))
            [ "$(wc -l <<<"$globals")" -eq 1 ] ||
                fault "$object: an ISA unit exports more than its table: $(tr '\n' ' ' <<<"$globals")"
            case $globals in
                *avx*) return ;;
            esac
            ;;
    esac
    [ "$(uname -m)" = x86_64 ] || return 0
    instruction=$(beyond_baseline "$object")
    [ -z "$instruction" ] || fault "$object: beyond the baseline: $instruction"
}

declared_symbols() {
    printf '#include "%s"\n' "$1" | $CC -E -P -x c - | tr '\n' ' ' | tr ';' '\n' |
        sed -n 's/.*visibility *( *"default" *).*[ *]\(nk_[a-z0-9_]*\) *(.*/\1/p' | sort
}

check_exports() {
    local declared exported
    declared=$(declared_symbols "$1")
    exported=$(nm --dynamic --defined-only --format=posix "$2" | cut -d ' ' -f 1 | sort)
    [ -n "$declared" ] || fault "$1: no declaration found"
    [ "$declared" = "$exported" ] || fault "$2: exports differ from $1 (- declared, + exported):
$(diff -U 0 <(printf '%s\n' "$declared") <(printf '%s\n' "$exported") | sed 1,3d)"
}

check_all() {
    local header=$1 library=$2 objects object
    shift 2
    units=0
    mapfile -t objects < <(find "$@" -name '*.o' | sort)
    for object in "${objects[@]}"; do
        check_object "$object"
    done
    [ $units -gt 0 ] || fault "no ISA unit found in $*"
    check_exports "$header" "$library"
    printf '%d objects, %d of them ISA units, %d faults\n' ${#objects[@]} $units $faults
    [ $faults -eq 0 ]
}

# Each kind of fault, planted by itself, must be found, and the sound tree passed.
self_test() {
    local dir
    dir=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf '$dir'" EXIT
    cd "$dir"
    sound() {
        rm -rf objects && mkdir objects
        echo '__attribute__((visibility("default"))) int nk_find(int x);' >api.h
        echo 'int nk_find(int x); int nk_find(int x) { return x; }' >find.c
        echo 'extern const int nk_unit_avx2; const int nk_unit_avx2 = 1;' >unit.c
        $CC -O2 -fPIC -c find.c -o objects/find.o
        $CC -O2 -fPIC -mavx2 -c unit.c -o objects/unit.o
    }
    finds() { # finds TEXT: links what is planted and expects that complaint, or none for ''
        local said expected=${1:-, 0 faults}
        $CC -shared -o lib.so objects/find.o
        said=$(faults=0 && check_all "$dir/api.h" lib.so objects) || true
        grep -qF -e "$expected" <<<"$said" || {
            printf 'self-test: expected "%s", got:\n%s\n' "$expected" "$said"
            exit 1
        }
    }
    sound && finds ''
    echo 'int nk_helper(void); int nk_helper(void) { return 2; }' >>unit.c
    $CC -O2 -fPIC -mavx2 -c unit.c -o objects/unit.o && finds 'more than its table'
    sound
    echo '__attribute__((weak)) int nk_max(int a) { return a; }' >>unit.c
    $CC -O2 -fPIC -w -c unit.c -o objects/unit.o && finds 'more than its table'
    sound && rm objects/unit.o && finds 'no ISA unit'
    sound && echo 'int nk_extra(void); int nk_extra(void) { return 3; }' >>find.c
    $CC -O2 -fPIC -c find.c -o objects/find.o && finds '+nk_extra'
    sound && echo '__attribute__((visibility("default"))) int nk_absent(int x);' >>api.h
    finds '-nk_absent'
    if [ "$(uname -m)" = x86_64 ]; then
        sound && echo 'void nk_f(float *p); void nk_f(float *p) { for (int i = 0; i < 8; i++) p[i] += 1; }' >f.c
        $CC -O3 -fPIC -mavx2 -c f.c -o objects/f.o && finds 'f.o: beyond the baseline'
        $CC -O3 -fPIC -mavx512f -c f.c -o objects/f.o && finds 'f.o: beyond the baseline'
        echo 'int nk_p(long x); int nk_p(long x) { return __builtin_popcountl(x); }' >f.c
        $CC -O3 -fPIC -mpopcnt -c f.c -o objects/f.o && finds 'f.o: beyond the baseline'
        $CC -O3 -fPIC -c f.c -o objects/f.o && finds ''
    fi
    echo 'every planted fault was found'
}

if [ "${1:-}" = --self-test ]; then
    self_test
else
    check_all "$@"
fi
