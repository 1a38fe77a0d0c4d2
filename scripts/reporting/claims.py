# SPDX-License-Identifier: Apache-2.0
"""The cells of `normbench claim` by what they compare and where: what the program
prints, computed anew from its CSV and the limits of its machine file."""
import collections
import statistics

from reporting import reader, savings
from reporting.reader import InputError
from reporting.savings import CLAIM, Estimate

# `kernels`: LayerNorm's and RMSNorm's names; `training`: each with its gradient.
Place = collections.namedtuple(
    "Place", "provider kernels training algorithm dtype isa hidden level rows mode threads")
LAYER, RMS, COPY, RIVALS = range(4)  # slots of a pair


def word(low, high):
    """The verdict on a saving between these."""
    if high < CLAIM[0]:
        return "below"
    if low > CLAIM[1]:
        return "above"
    return "within" if low >= CLAIM[0] and high <= CLAIM[1] else "cannot tell"


class Cell(savings.Cell):
    """All observations of one place; in a training step a kernel's time is that of both."""

    def __init__(self, place, rows, source):
        limits = source.limits()
        super().__init__(rows[:RIVALS] if place.training else rows,
                         savings.limits_of(rows, limits))
        self.place, self.source = place, source
        rms = limits.get((reader.cell_name(rows[RMS]), rows[RMS].level), {})
        self.limited_by = rms.get("limited_by")

    def add(self, group):
        times = [row.time_ns for row in group]
        if self.place.training:
            for side, gradient in enumerate(times[RIVALS:]):
                times[side] += gradient
        self.pairs[group[0].process].append(times[:len(self.rows)])

    def saving(self, against=LAYER):
        """What RMSNorm saves of LayerNorm's time, or of a rival's."""
        return self.saving_of(RMS, against)

    def saving_of(self, one, other):
        """1 - the time of one side over that of another."""
        ratio = self.ratio(one, other)
        return Estimate(1 - ratio.median, 1 - ratio.high, 1 - ratio.low, ratio.coverage)

    def verdict(self):
        return savings.verdict(self, RMS, LAYER, self.saving())

    def saved_ns(self):
        """By one call: the median of the processes."""
        return statistics.median(
            statistics.median(times[LAYER] - times[RMS] for times in pairs)
            for pairs in self.pairs.values())


def _place(result, group):
    layer, rms, copy = group[:RIVALS]
    if [row.slot for row in group[:RIVALS]] != [LAYER, RMS, COPY] or copy.kernel != "copy":
        raise InputError(f"{result.path}:{layer.line}: not LayerNorm, RMSNorm and a copy: not made "
                         "by normbench claim")
    return Place(layer.provider, (layer.kernel, rms.kernel), group[-1].kernel.endswith("_bwd"),
                 layer.algorithm, layer.dtype, rms.isa, layer.hidden, layer.level, layer.rows,
                 layer.mode, layer.threads)


def cells(result):
    """{place: Cell} of a result of `normbench claim`."""
    for row in result.rows:
        if row.status != "ok":
            raise InputError(f"{result.path}:{row.line}: {row.kernel}, {row.algorithm}: "
                             f"{row.status}: mend it, and measure again")
    found = {}
    for group in result.groups():
        if len(group) < RIVALS:
            raise InputError(f"{result.path}:{group[0].line}: a pair of {len(group)} rows: not "
                             "made by normbench claim")
        place = _place(result, group)
        found.setdefault(place, Cell(place, group, result)).add(group)
    return found
