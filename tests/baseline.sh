#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The noise-free half of the gate: no kernel executes more instructions than stored.
#   baseline.sh NORMBENCH FILE
# Where this machine's caches are not the file's, the order of work differs and
# nothing can be compared: skipped, and said. It differs by the CPU's vendor too, which the
# caches stand for: those of the file are one vendor's alone, as far as is known.
set -u
export LC_ALL=C NORMKERNELS_WITHOUT=avx512_bf16
unset NORMKERNELS_ISA
said=$("$1" count --baseline "$2" --dtype f32,bf16 --isa avx2,avx512 --rows 2 --hidden 768 2>&1)
status=$?
printf '%s\n' "$said"
case $status:$said in
    0:*) exit 0 ;;
    1:*)
        echo "If that is meant, store the new counts:"
        echo "  NORMKERNELS_WITHOUT=avx512_bf16 $1 count --dtype f32,bf16 --isa avx2,avx512" \
            "--rows 2 --hidden 768 --csv $2 --force"
        exit 1
        ;;
    *'the caches'* | *'cannot run here'* | *'ptrace'*) exit 77 ;;
    *) exit 1 ;;
esac
