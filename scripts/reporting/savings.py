# SPDX-License-Identifier: Apache-2.0
"""From observations to estimates: what is saved, what is gained, and how surely.

Ratios are taken within a pair only, as results/README.md says; the verdicts are
those of `normbench claim`.
"""
import collections
import math
import statistics

from reporting import reader

CLAIM = (0.15, 0.20)  # what RMSNorm is said to save
# Shares of the limits, or of the copy's speed, that may differ before LayerNorm is
# suspected, and the factor that another LayerNorm may be faster by.
SHARE_MARGIN, RIVAL_MARGIN = 0.15, 0.015
VERDICTS = {
    "within": "the whole interval lies in 15-20 %",
    "below": "the whole interval lies below 15 %",
    "above": "the whole interval lies above 20 %",
    "cannot tell": "the interval crosses 15 or 20 %",
    "cannot tell: shares": "LayerNorm is more than 15 points further from its limit (where that "
                           "is unknown, from the speed of a copy): what is saved may be a slow "
                           "LayerNorm",
    "cannot tell: rival": "another LayerNorm is faster than the one compared",
}

Estimate = collections.namedtuple("Estimate", "median low high coverage")


def estimate(values):
    """The median, and the narrowest symmetric interval of at least 95 % by
    order statistics, or smallest to largest where that needs more values."""
    values = sorted(values)
    n = len(values)

    def coverage(k):  # from the k-th smallest to the k-th largest
        return max(0.0, 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2 ** n)
    k = 1
    while k < n // 2 and coverage(k + 1) >= 0.95:
        k += 1
    return Estimate(statistics.median(values), values[k - 1], values[n - k], coverage(k))


def units(processes):
    """What repeats independently: processes, or the observations of a single one."""
    if len(processes) == 1:
        return next(iter(processes.values()))
    return [statistics.median(values) for values in processes.values()]


class Cell:
    """Kernels that were interleaved with one another, in all their pairs."""

    def __init__(self, rows, limits_ns):
        self.rows = rows  # of its first pair
        self.limits_ns = limits_ns  # of each row's call, NAN if unknown
        self.pairs = collections.defaultdict(list)  # process -> [times by slot]

    def ratio(self, a, b):
        """The time of the row at place `a` over that at `b`."""
        return estimate(units({process: [times[a] / times[b] for times in pairs]
                               for process, pairs in self.pairs.items()}))

    def call_ns(self, side):
        return statistics.median(times[side] for pairs in self.pairs.values() for times in pairs)

    def share(self, side):
        """How much of its limit that side reaches, NAN if unknown."""
        return self.limits_ns[side] / self.call_ns(side)

    def places(self, test):
        return [i for i, row in enumerate(self.rows) if test(row)]

    def copy(self):
        """The place of the copy, None without one."""
        found = self.places(lambda row: row.kernel == "copy")
        return found[-1] if found else None


def limits_of(rows, limits):
    """The least time of a call of each row; unknown without a level, and in a training step."""
    if any(row.kernel.endswith("_bwd") for row in rows) or not rows[0].level:
        return [math.nan] * len(rows)
    cells = (limits.get((reader.cell_name(row), row.level), {}) for row in rows)
    return [cell.get("limit_ns", math.nan) for cell in cells]


def cells(result):
    found = {}
    limits = result.limits()
    for group in result.groups():
        key = tuple(reader.key_of(row) for row in group)
        cell = found.setdefault(key, Cell(group, limits_of(group, limits)))
        cell.pairs[group[0].process].append([row.time_ns for row in group])
    return list(found.values())


# ---- RMSNorm against LayerNorm ---------------------------------------------

TRAINING = " + gradient"  # after a kernel's name: the sum of both
Saving = collections.namedtuple(
    "Saving", "rms layer saving verdict rms_copy layer_copy rms_share layer_share processes")


def behind(cell, rms, layer):
    """How much further LayerNorm is from its limit than RMSNorm from its own; where they are
    unknown the speed of the copy stands for both."""
    points = cell.share(rms) - cell.share(layer)
    copy = cell.copy()
    if math.isnan(points) and copy is not None:
        return cell.ratio(copy, rms).median - cell.ratio(copy, layer).median
    return points


def verdict(cell, rms, layer, saving):
    if saving.high < CLAIM[0]:
        return "below"
    # A slow LayerNorm makes a saving that is none; one below the claim it can
    # only have made larger.
    kernel = cell.rows[layer].kernel
    for rival in cell.places(lambda row: row.kernel == kernel):
        if rival != layer and cell.ratio(rival, layer).high < 1 - RIVAL_MARGIN:
            return "cannot tell: rival"
    if behind(cell, rms, layer) > SHARE_MARGIN:
        return "cannot tell: shares"
    if saving.low > CLAIM[1]:
        return "above"
    return "within" if saving.low >= CLAIM[0] and saving.high <= CLAIM[1] else "cannot tell"


def _compared(cell):
    """(RMSNorm, LayerNorm) places: the first RMSNorm with every LayerNorm,
    others with those of their own provider."""
    places = cell.places(lambda row: "rmsnorm" in row.kernel)
    for rms in places:
        row = cell.rows[rms]
        for layer in cell.places(lambda other: other.kernel != row.kernel and
                                 other.kernel.replace("layernorm", "rmsnorm") == row.kernel):
            if rms == places[0] or cell.rows[layer].provider == row.provider:
                yield rms, layer


def _training(cell):
    """Of a training step: each norm's times with those of its gradient; None
    for other cells."""
    names = [row.kernel for row in cell.rows]
    pairs = [(i, names.index(f"{name}_bwd")) for i, name in enumerate(names)
             if f"{name}_bwd" in names]
    if len(pairs) != 2 or cell.copy() is None:
        return None
    step = Cell([cell.rows[i]._replace(kernel=f"{names[i]}{TRAINING}") for i, _ in pairs] +
                [cell.rows[cell.copy()]], [math.nan] * 3)
    for process, all_times in cell.pairs.items():
        step.pairs[process] = [[times[i] + times[j] for i, j in pairs] + [times[cell.copy()]]
                               for times in all_times]
    return step


def savings(result):
    """1 - time(RMSNorm) / time(LayerNorm) of every cell that holds both; in a
    training step of both with their gradients."""
    found = []
    for measured in cells(result):
        cell = _training(measured) or measured
        copy = cell.copy()
        for rms, layer in _compared(cell):
            ratio = cell.ratio(rms, layer)
            saving = Estimate(1 - ratio.median, 1 - ratio.high, 1 - ratio.low, ratio.coverage)
            beside = [cell.ratio(i, copy) if copy is not None else None for i in (rms, layer)]
            found.append(Saving(cell.rows[rms], cell.rows[layer], saving,
                                verdict(cell, rms, layer, saving), *beside, cell.share(rms),
                                cell.share(layer), len(cell.pairs)))
    return found


# ---- Fused against the chain of plain kernels ------------------------------

Fusion = collections.namedtuple("Fusion", "row saving")


def fusions(result):
    """1 - time(fused) / time(unfused) of `normbench run --unfused`."""
    found = []
    for cell in cells(result):
        for chain in cell.places(lambda row: row.algorithm == "unfused"):
            for fused in cell.places(lambda row: row.kernel == cell.rows[chain].kernel and
                                     row.algorithm != "unfused"):
                ratio = cell.ratio(fused, chain)
                found.append(Fusion(cell.rows[fused], Estimate(
                    1 - ratio.median, 1 - ratio.high, 1 - ratio.low, ratio.coverage)))
    return found


# ---- Times -----------------------------------------------------------------

Time = collections.namedtuple("Time", "row time against_copy error_ulp")


def _beside_copy(result):
    """{key: ratio to the copy that was interleaved with it}"""
    found = {}
    for cell in cells(result):
        copy = cell.copy()
        for i in cell.places(lambda row: row.kernel != "copy") if copy is not None else []:
            found.setdefault(reader.key_of(cell.rows[i]), cell.ratio(i, copy))
    return found


def times(result):
    """Of every kernel and shape: alone where it was timed so, else in pairs."""
    alone, paired, errors, rows = {}, {}, {}, {}
    for row in result.rows:
        if row.status != "ok":
            continue
        key = reader.key_of(row)
        rows.setdefault(key, row)
        where = alone if row.pair is None else paired
        where.setdefault(key, collections.defaultdict(list))[row.process].append(row.time_ns)
        if row.error_ulp is not None:
            errors[key] = max(row.error_ulp, errors.get(key, 0))
    beside = _beside_copy(result)
    found = []
    for key, row in rows.items():
        time = estimate(units(alone.get(key) or paired[key]))
        found.append(Time(row, time, beside.get(key), errors.get(key)))
    return found

