#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example as a test: its gradients are those of its forward pass, and show what they
# are known to show.
#   depth.sh DEPTH
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" --check
"$1" --hidden 33 --rows 5 --check
"$1" --csv "$work/depth.csv"
# A row a layer: 223 layers in eight networks, of four schemes, of two initialisations.
[ "$(wc -l <"$work/depth.csv")" -eq $((1 + 223 * 4 * 2)) ]
# Xiong et al. 2020: the last weights' gradient falls as the root of the depth with Pre-Norm
# and does not with Post-Norm; Wang et al. 2022: with its fourth root with DeepNorm.
awk -F, '$2 == "xavier" && $4 == $3 - 1 && ($3 == 1 || $3 == 64) { last[$1, $3] = $6 }
    function power(scheme) { return log(last[scheme, 64] / last[scheme, 1]) / log(64) }
    END {
        bad = power("pre_norm") > -0.4 || power("pre_norm") < -0.6
        bad = bad || power("post_norm") < -0.1 || power("post_norm") > 0.1
        bad = bad || power("deepnorm") > -0.15 || power("deepnorm") < -0.35
        exit bad
    }' "$work/depth.csv"
# Pre-Norm keeps the gradient of its stream through any depth.
awk -F, '$1 == "pre_norm" && $4 == 0 && ($5 < 0.5 || $5 > 2) { exit 1 }' "$work/depth.csv"
status=0
"$1" --csv "$work/depth.csv" >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ]
status=0
"$1" --hidden x >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ]
