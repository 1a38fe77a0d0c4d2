# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by tests that measure beyond the caches: where a machine has hundreds of MB of them,
# a GB of operands for each cell would lie there. They see 8 MB, and more cores than there are.
export HWLOC_SYNTHETIC='pack:1 l3:1(size=8MB) l2:1024(size=512KB) l1d:1(size=32KB) core:1 pu:1'
