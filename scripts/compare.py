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
import csv
import json
import math
import os
import sys

import numpy as np
from scipy import stats

KEY = ("provider", "kernel", "algorithm", "dtype", "param_dtype", "isa", "rows", "hidden",
       "threads", "level", "mode")
NEEDED = KEY + ("run_id", "machine", "commit", "compiler", "process", "time_ns", "pair", "status")
CONFIDENCE = 0.95  # of a whole comparison, not of each row
SIGNIFICANCE = 0.01  # of a change point
PERMUTATIONS = 999
SEGMENT = 2  # runs on either side of a change point, at the least
SERIES = 8  # runs from which on a permutation test can reach SIGNIFICANCE


class InputError(Exception):
    """Says file, line and column where there are any."""


# ---- Files -----------------------------------------------------------------

class Result:
    """One CSV: observations by row key and process."""

    def __init__(self, path):
        self.path = path
        self.machine = self.commit = self.compiler = self.run_id = None
        self.times = {}  # key -> {process: [time_ns]}
        self.failed = {}  # key -> status
        self.copy = {}  # (process, pair, shape) -> time_ns of the copy


def number(path, line, header, fields, name, positive=True):
    """A finite number, above 0 or from 0 on."""
    column = header.index(name)
    text = fields[column]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        what = "above 0" if positive else "from 0 on"
        raise InputError(f"{path}:{line}: column {column + 1} ({name}): "
                         f"'{text}' is no number {what}")
    return value


def records(path):
    """Line number and fields of each record, the header first."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not text:
        raise InputError(f"{path}:1: the file is empty")
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{line}: {error}") from error
    if not text.endswith("\n"):
        raise InputError(f"{path}:{line - 1}: the line has no end: the file was cut off")


def shape_of(row):
    return tuple(row[name] for name in ("dtype", "rows", "hidden", "level", "mode"))


def add(result, line, header, fields, against_copy):
    row = dict(zip(header, fields))
    key = tuple(row[name] for name in KEY)
    for name in ("rows", "hidden"):
        number(result.path, line, header, fields, name)
    process = number(result.path, line, header, fields, "process", positive=False)
    for name in ("machine", "commit", "compiler", "run_id"):
        if getattr(result, name) not in (None, row[name]):
            raise InputError(f"{result.path}:{line}: column {header.index(name) + 1} ({name}): "
                             f"'{row[name]}', the lines before have '{getattr(result, name)}'")
        setattr(result, name, row[name])
    if row["status"] != "ok":
        result.failed[key] = row["status"]
        return
    time = number(result.path, line, header, fields, "time_ns")
    paired = row["pair"] != ""
    place = (process, row["pair"], row.get("repetition"), shape_of(row))
    if row["kernel"] == "copy" and paired:
        result.copy[place] = time
        return
    result.times.setdefault((key, paired), []).append((process, place, time))


def settle(result, against_copy):
    """Of each row the paired observations, divided by the copy's of the same
    pair, or those of the kernel alone where there are such."""
    times, result.times = result.times, {}
    for (key, paired), observations in times.items():
        if against_copy:
            values = [(process, time / result.copy[place])
                      for process, place, time in observations if place in result.copy]
        elif paired and (key, False) in times:
            continue
        else:
            values = [(process, time) for process, _, time in observations]
        for process, value in values:
            result.times.setdefault(key, collections.defaultdict(list))[process].append(value)


def read_result(path, against_copy):
    result = Result(path)
    lines = records(path)
    _, header = next(lines)
    for name in NEEDED:
        if name not in header:
            raise InputError(f"{path}:1: there is no column '{name}'")
    for line, fields in lines:
        if len(fields) != len(header):
            raise InputError(f"{path}:{line}: {len(fields)} fields, the header has {len(header)}")
        add(result, line, header, fields, against_copy)
    if result.run_id is None:
        raise InputError(f"{path}:2: a header and no rows")
    settle(result, against_copy)
    if not result.times and against_copy:
        raise InputError(f"{path}: no observation is paired with a copy")
    return result


def check_machine_file(result, allow_incomplete):
    """A result without its machine file, or an interrupted one, is none."""
    path = os.path.splitext(result.path)[0] + ".json"
    try:
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
        complete = machine["complete"]
        if machine["run_id"] != result.run_id:
            raise InputError(f"{path}: is of another run than {result.path}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        if allow_incomplete and isinstance(error, OSError):
            return
        raise InputError(f"{path}: is no machine file ({error}): {result.path} is no result "
                         "without one; --allow-incomplete takes it all the same") from error
    if complete is not True and not allow_incomplete:
        raise InputError(f"{path}: says that the run is incomplete; --allow-incomplete takes it "
                         "all the same")


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
        results = [read_result(path, options.against_copy) for path in options.files]
        for result in results:
            check_machine_file(result, options.allow_incomplete)
        check_machines(results, options.allow_machines)
        changes = compare(results[0], results[-1])
    except InputError as error:
        print(f"compare.py: {error}", file=sys.stderr)
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
