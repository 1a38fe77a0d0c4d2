#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares stored results of `normbench run`, `claim` or `ab`.

Two files: every kernel and shape, the first file against the second, with how
small a change the observations can tell. Three or more, in the order in which
they were measured: the first against the last, and where in between the times
changed for good (E-divisive), so that a slow creep is seen too.

Ends with 1 if a kernel got slower by more than the margin, or is missing from
the last file; with 2 for input that is broken or cannot be compared. To gate a
change use `normbench ab`: what two processes measured minutes apart differs by
more than what it can find.
"""
import argparse
import collections
import math
import sys

import numpy as np
from scipy import stats

from reporting import reader
from reporting.reader import KEY, InputError

CONFIDENCE = 0.95  # of a whole comparison, not of each row
SIGNIFICANCE = 0.01  # of a change point
PERMUTATIONS = 999
SEGMENT = 2  # runs on either side of a change point, at the least
SERIES = 8  # runs from which on a permutation test can reach SIGNIFICANCE


# ---- Files -----------------------------------------------------------------

class Compared:
    """The observations of one file that are compared, by row key and process."""

    def __init__(self, result):
        self.path, self.machine = result.path, result.machine
        self.commit, self.compiler = result.commit, result.compiler
        self.times = {}  # key -> {process: [time_ns]}
        self.failed = {reader.key_of(row): row.status for row in result.rows if row.status != "ok"}

    def add(self, row, value):
        times = self.times.setdefault(reader.key_of(row), collections.defaultdict(list))
        times[row.process].append(value)


def ratios_to_copy(result, compared):
    """Each interleaved observation over that of the copy of the same pair."""
    for group in result.groups():
        copies = [row for row in group if row.kernel == "copy"]
        for row in group:
            if copies and row.kernel != "copy":
                compared.add(row, row.time_ns / copies[-1].time_ns)
    if not compared.times:
        raise InputError(f"{result.path}: no observation is paired with a copy")


def times(result, compared):
    """Those of the kernel alone where there are such, else the paired ones."""
    good = [row for row in result.rows if row.status == "ok"]
    alone = {reader.key_of(row) for row in good if row.pair is None}
    for row in good:
        if row.pair is None or (row.kernel != "copy" and reader.key_of(row) not in alone):
            compared.add(row, row.time_ns)


def read(path, options):
    result = reader.read(path, options.allow_incomplete)
    for note in result.notes:
        print(f"compare.py: {note}", file=sys.stderr)
    compared = Compared(result)
    (ratios_to_copy if options.against_copy else times)(result, compared)
    return compared


def check_machines(results, allow_machines):
    machines = {}
    for result in results:
        machines.setdefault(result.machine, result.path)
    if len(machines) > 1 and not allow_machines:
        raise InputError("unlike machines: " + ", ".join(
            f"{machine} ({path})" for machine, path in machines.items()) +
            "; --allow-machines compares them all the same")


# ---- Two runs --------------------------------------------------------------

def units(processes):
    """What repeats independently, as logarithms: process medians, or, of one
    process, its repetitions."""
    values = list(processes.values())
    sample = [np.median(v) for v in values] if len(values) > 1 else values[0]
    return np.log(np.asarray(sample, dtype=float))


def half_width(sample, tail):
    """Of the interval about a sample's median; infinite for one observation."""
    if len(sample) < 2:
        return math.inf
    error = math.sqrt(math.pi / 2) * sample.std(ddof=1) / math.sqrt(len(sample))
    return stats.t.ppf(1 - tail, len(sample) - 1) * error


Change = collections.namedtuple("Change", "key old new change resolution")


def compare(old, new):
    """Changes of the rows in both, as logarithms. A row can tell what exceeds
    the scatter within the runs, and the scatter of all rows' changes: the bias
    that a process keeps for its life is in the second only."""
    common = [key for key in old.times if key in new.times]
    if not common:
        raise InputError(f"{old.path} and {new.path} have no rows in common")
    tail = (1 - CONFIDENCE) / 2 / len(common)
    samples = [(units(old.times[key]), units(new.times[key])) for key in common]
    shifts = np.array([np.median(b) - np.median(a) for a, b in samples])
    spread = 1.4826 * np.median(np.abs(shifts - np.median(shifts))) if len(common) >= 5 else 0.0
    scatter = stats.norm.ppf(1 - tail) * spread
    return [Change(key, math.exp(np.median(a)), math.exp(np.median(b)), shift,
                   max(math.hypot(half_width(a, tail), half_width(b, tail)), scatter))
            for key, (a, b), shift in zip(common, samples, shifts)]


# ---- A series --------------------------------------------------------------

def divergence(distances):
    """The energy statistic of Matteson and James (2014, alpha 1) of each split
    of each matrix [permutation, run, run]: how far the runs before it lie from
    those behind it. Columns are splits SEGMENT .. n - SEGMENT."""
    n = distances.shape[-1]
    sums = distances.cumsum(axis=1).cumsum(axis=2)
    split = np.arange(SEGMENT, n - SEGMENT + 1)
    before = sums[:, split - 1, split - 1]
    across = sums[:, split - 1, n - 1] - before
    behind = sums[:, n - 1, n - 1][:, None] - 2 * across - before
    left, right = split, n - split
    energy = (2 * across / (left * right) - before / (left * (left - 1)) -
              behind / (right * (right - 1)))
    return left * right / n * energy


def split_significantly(values, generator):
    """The split that divides best, if permutations seldom divide as well."""
    if len(values) < 2 * SEGMENT:
        return None
    found = divergence(np.abs(values[:, None] - values)[None])[0]
    best = int(np.argmax(found))
    shuffled = generator.permuted(np.tile(values, (PERMUTATIONS, 1)), axis=1)
    chance = divergence(np.abs(shuffled[:, :, None] - shuffled[:, None, :])).max(axis=1)
    p = (1 + np.count_nonzero(chance >= found[best] * (1 - 1e-12))) / (PERMUTATIONS + 1)
    return best + SEGMENT if p <= SIGNIFICANCE else None


def change_points(values, generator):
    """E-divisive: split, then split the parts, while that is significant."""
    split = split_significantly(values, generator)
    if split is None:
        return []
    return (change_points(values[:split], generator) + [split] +
            [split + later for later in change_points(values[split:], generator)])


def series_changes(results, key):
    """(result where it begins, change) of each change point of a row."""
    held = [result for result in results if key in result.times]
    values = np.array([np.median(units(result.times[key])) for result in held])
    # The same numbers every time, whatever other rows there are.
    points = change_points(values, np.random.default_rng(1))
    bounds = [0] + points + [len(values)]
    levels = [np.median(values[a:b]) for a, b in zip(bounds, bounds[1:])]
    return [(held[point], levels[i + 1] - levels[i]) for i, point in enumerate(points)]


# ---- The report ------------------------------------------------------------

def percent(logarithm):
    return f"{math.expm1(logarithm) * 100:+.1f} %" if math.isfinite(logarithm) else "unknown"


def resolution(logarithm):
    return f"{math.expm1(logarithm) * 100:.1f} %" if math.isfinite(logarithm) else "nothing"


def name_of(key, several):
    """The name without what all rows share."""
    row = dict(zip(KEY, key))
    name = row["kernel"]
    if row["algorithm"] != "default":
        name += "/" + row["algorithm"]
    name += f" {row['dtype']} {row['isa']} {row['rows']}x{row['hidden']}"
    for extra in ("provider", "param_dtype", "threads", "level", "mode"):
        if several[extra]:
            name += f" {row[extra]}"
    return name


def what_varies(keys):
    return {name: len({key[i] for key in keys}) > 1 for i, name in enumerate(KEY)}


def print_table(titles, rows):
    widths = [max(len(row[i]) for row in [titles] + rows) for i in range(len(titles))]
    for row in [titles] + rows:
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def verdict(change, margin):
    if abs(change.change) <= change.resolution:
        return "cannot tell" if abs(change.change) > margin else "~"
    if change.change > margin:
        return "SLOWER"
    return "faster" if change.change < -margin else "~"


def value_text(value, against_copy):
    return f"{value:.3f}" if against_copy else f"{value:.5g}"


def print_changes(changes, options, several):
    """Returns how many got slower."""
    verdicts = [verdict(change, options.margin) for change in changes]
    rows = [[name_of(c.key, several), value_text(c.old, options.against_copy),
             value_text(c.new, options.against_copy), percent(c.change), resolution(c.resolution),
             v] for c, v in zip(changes, verdicts) if v != "~" or options.all]
    unit = "x copy" if options.against_copy else "ns"
    if rows:
        print_table(["row", f"old {unit}", f"new {unit}", "change", "can tell", ""], rows)
    told = np.array([change.resolution for change in changes])
    mean = np.mean([change.change for change in changes])
    print(f"{len(changes)} rows in both, geometric mean {percent(mean)}: "
          f"{verdicts.count('SLOWER')} slower, {verdicts.count('faster')} faster by over "
          f"{resolution(options.margin)}")
    print(f"can tell a change of {resolution(np.median(told))} in the median row, "
          f"{resolution(told.max())} in the worst ({CONFIDENCE:.0%} for all rows together)")
    if np.median(told) > options.margin:
        print(f"that is more than the margin of {resolution(options.margin)}: repeat more, "
              "or use `normbench ab`")
    return verdicts.count("SLOWER")


def print_missing(results, several):
    """Returns how many rows an earlier file has and the last has not."""
    last, earlier = results[-1], {}
    for result in results[:-1]:
        for key in result.times:
            earlier[key] = result
    missing = [key for key in earlier if key not in last.times]
    for key in missing:
        why = f": {last.failed[key]}" if key in last.failed else ""
        print(f"missing from {last.path}: {name_of(key, several)}{why}")
    for key in last.times:
        if key not in earlier:
            print(f"new in {last.path}: {name_of(key, several)}")
    return len(missing)


def print_series(results, options, several):
    """Returns how many change points are slow-downs."""
    if len(results) < SERIES:
        print(f"{len(results)} runs are too few to find change points: {SERIES} at the least")
        return 0
    rows, slower = [], 0
    for key in results[-1].times:
        for result, change in series_changes(results, key):
            if abs(change) <= options.margin:
                continue
            slower += change > 0
            rows.append([name_of(key, several), result.commit, percent(change),
                         "SLOWER" if change > 0 else "faster"])
    if rows:
        print_table(["row", "changed at", "change", ""], rows)
    print(f"{len(rows)} change points over {resolution(options.margin)} in {len(results)} runs "
          f"(each p <= {SIGNIFICANCE})")
    return slower


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.csv", help="old to new")
    parser.add_argument("--margin", type=float, default=3.0, metavar="PERCENT",
                        help="slow-downs up to this are let pass (3)")
    parser.add_argument("--against-copy", action="store_true",
                        help="compare ratios to the copy that was measured in the same pair: "
                        "takes out how fast the machine was that day")
    parser.add_argument("--all", action="store_true", help="list unchanged rows too")
    parser.add_argument("--allow-machines", action="store_true",
                        help="compare results of unlike machines")
    parser.add_argument("--allow-incomplete", action="store_true",
                        help="take results of interrupted runs, or without a machine file")
    options = parser.parse_args()
    if len(options.files) < 2:
        parser.error("two files or more are needed")
    if not (math.isfinite(options.margin) and options.margin >= 0):
        parser.error(f"--margin: {options.margin} is no percentage from 0 on")
    options.margin = math.log1p(options.margin / 100)
    return options


def main():
    options = parse_arguments()
    try:
        results = [read(path, options) for path in options.files]
        check_machines(results, options.allow_machines)
        changes = compare(results[0], results[-1])
    except InputError as error:
        told = "; --allow-incomplete takes it all the same"
        print(f"compare.py: {error}{told if isinstance(error, reader.Incomplete) else ''}",
              file=sys.stderr)
        return 2
    for what in ("commit", "compiler", "machine"):
        old, new = getattr(results[0], what), getattr(results[-1], what)
        print(f"{what}: {old}" + (f" -> {new}" if new != old else ""))
    several = what_varies([key for result in results for key in result.times])
    slower = print_changes(changes, options, several)
    if len(results) > 2:
        slower += print_series(results, options, several)
    missing = print_missing(results, several)
    return 1 if slower or missing else 0


if __name__ == "__main__":
    sys.exit(main())
