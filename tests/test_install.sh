#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: test_install.sh SOURCE BUILD
# What `meson install` leaves is all that a user of the library needs: README's
# example, compiled by pkg-config's flags against the shared and then the static
# library, prints what it should. Prints TAP.
set -euo pipefail
export LC_ALL=C
source=$1
build=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
CC=${CC:-cc}
CXX=${CXX:-c++}

number=0
failures=0
# check NAME COMMAND...: a test case.
check() {
    local name=$1 said
    shift
    number=$((number + 1))
    if said=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        failures=$((failures + 1))
        # shellcheck disable=SC2001  # every line gets its mark
        sed 's/^/# /' <<<"$said"
    fi
}

no_peers() {
    [ -z "$(find "$root" -name 'peer_*')" ]
}

# refused ISAS TEXT: no build of these alone, and what says so.
refused() {
    local said
    ! said=$(meson setup "$root/isas" "$source" -Disas="$1" 2>&1) && grep -qF -e "$2" <<<"$said"
}

readme_example() {
    diff <(awk '/^```$/ { on = 0 } on; /^```c$/ { on = 1 }' "$source/README.md") \
        <(sed 1d "$source/examples/rmsnorm.c") # all but the license line
}

flags() {
    pkg-config "$@" normkernels
}

example() { # example NAME PKG_CONFIG_OPTION...
    local program=$root/$1
    shift
    # shellcheck disable=SC2046  # flags are words
    $CC -Wall -Wextra -Wconversion -Werror "$source/examples/rmsnorm.c" \
        $(flags "$@" --cflags --libs) -o "$program" &&
        LD_LIBRARY_PATH=$libdir "$program" | diff "$source/examples/rmsnorm.expected" -
}

soname() {
    readelf --dynamic "$libdir/libnormkernels.so" | grep 'SONAME.*\[libnormkernels\.so\.0\]'
}

symbolic() {
    readelf --dynamic "$libdir/libnormkernels.so" | grep -w SYMBOLIC
}

includes() { # includes COMPILER LANGUAGE STANDARD
    # shellcheck disable=SC2046,SC2086
    echo '#include <normkernels.h>' |
        $1 -x "$2" -std="$3" -Wall -Wextra -pedantic -Werror -fsyntax-only $(flags --cflags) -
}

meson install -C "$build" --no-rebuild --quiet --destdir "$root" >"$root/log" 2>&1 ||
    { cat "$root/log" && exit 1; }
pc=$(find "$root" -name normkernels.pc)
[ -n "$pc" ] || { echo 'Bail out! no normkernels.pc was installed' && exit 1; }
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_LIBDIR=$libdir/pkgconfig:$(pkg-config --variable=pc_path pkg-config)
export PKG_CONFIG_LIBDIR
export PKG_CONFIG_SYSROOT_DIR=$root

check 'the example in README is examples/rmsnorm.c' readme_example
check 'the header is C99' includes "$CC" c c99
check 'the header is C++11' includes "$CXX" c++ c++11
check 'the soname is libnormkernels.so.0' soname
check 'the shared library is linked -Bsymbolic' symbolic
check 'the installed program finds the installed library' \
    env NORMKERNELS_ISA=scalar "$(find "$root" -path '*/bin/normbench')" list
check 'what is compiled for this very machine is not installed' no_peers
check 'the example runs with the shared library' example shared
rm "$libdir"/libnormkernels.so*
check 'the example runs with the static library alone' example static --static
check 'a build without scalar is refused' refused avx2 'scalar must be among them'
check 'a build of what takes the place of nothing is refused' refused scalar,avx512_bf16 \
    'avx512, which must be among them'
echo "1..$number"
[ $failures -eq 0 ]
