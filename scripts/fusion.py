#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fusion saves, as a Markdown table: reads the CSV of `normbench run --unfused`."""

import argparse
import collections
import csv
import json
import math
import os
import statistics
import sys

LEVELS = ("L1", "L2", "L3", "memory", "")
HEAD = """# What fusion saves

One minus time(fused) / time(unfused): the median over {pairs} interleaved pairs of each cell
and, in brackets, their range. Below zero the fused kernel is slower than the chain of plain
kernels of the same provider, ISA and dtype (results/README.md names the chains). The levels are
those of the fused kernel's operands.

Made by `scripts/fusion.py` from {csv}: commit {commit}, {compiler}, {cpu}
(machine {machine}), {started}."""

# Where a table stands, and a cell of it.
Section = collections.namedtuple("Section", "provider kernel mode")
Place = collections.namedtuple("Place", "section dtype isa hidden level rows")


class InputError(Exception):
    """What is wrong with which file, and what to do about it."""


def read_machine(path, remedy):
    """The machine file beside the CSV, of a whole run with --unfused."""
    try:
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; a CSV is no result without its machine file: {remedy}")
    if not isinstance(machine, dict) or not isinstance(machine.get("cells"), list):
        raise InputError(f"{path}: no machine file of normbench: {remedy}")
    if machine.get("complete") is not True:
        raise InputError(f"{path}: the run is incomplete: {remedy}")
    if "--unfused" not in machine.get("arguments", []):
        raise InputError(f"{path}: the run was made without --unfused: {remedy}")
    return machine


def positive(text, where, remedy):
    """A time; what is none is an error of the file."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{where}, column time_ns: '{text}' is no time: {remedy}")
    return value


def read_pairs(path, run_id, remedy):
    """{place: {pair: {algorithm: time}}} of the rows that were interleaved, and the last row."""
    places, row = {}, None
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, strict=True)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            try:
                if row["run_id"] != run_id:
                    raise InputError(f"{where}: not of the run of the machine file: {remedy}")
                if row["kernel"] == "copy" or row["algorithm"] not in ("default", "unfused"):
                    continue
                if row["status"] != "ok":
                    raise InputError(f"{where}: {row['kernel']}, {row['algorithm']}: "
                                     f"{row['status']}: mend it, then {remedy}")
                if not row["pair"]:
                    continue
                section = Section(row["provider"], row["kernel"], row["mode"])
                place = Place(section, row["dtype"], row["isa"], int(row["hidden"]),
                              row["level"], int(row["rows"]))
                pair = (row["process"], row["repetition"], row["pair"])
                times = places.setdefault(place, {}).setdefault(pair, {})
                times[row["algorithm"]] = positive(row["time_ns"], where, remedy)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"{where}: not a row of normbench ({error}): {remedy}")
    return places, row


def cell_name(place, algorithm):
    """As the machine file names it."""
    return (f"{place.section.kernel}/algorithm:{algorithm}/dtype:{place.dtype}"
            f"/isa:{place.isa}/rows:{place.rows}/hidden:{place.hidden}")


def find_savings(path, places, cells, remedy):
    """{place: [saving of each pair]}, and {kernel: why it has none}."""
    chains = {c["name"]: c.get("skipped") for c in cells if "/algorithm:unfused/" in c["name"]}
    savings, left_out, seen = {}, {}, set()
    for place, pairs in places.items():
        name = cell_name(place, "unfused")
        seen.add(name)
        if name not in chains:  # no fused kernel
            continue
        if chains[name]:
            left_out[place.section.kernel] = chains[name]
            continue
        for pair, times in pairs.items():
            for algorithm in {"default", "unfused"} - set(times):
                raise InputError(f"{path}: {cell_name(place, algorithm)} has no row in repetition "
                                 f"{pair[1]}: {remedy}")
        savings[place] = [1 - t["default"] / t["unfused"] for t in pairs.values()]
    for name in sorted(set(chains) - seen):
        raise InputError(f"{path}: {name} has no row: {remedy}")
    if not savings:
        raise InputError(f"{path}: no fused kernel was timed: {remedy}")
    return savings, left_out


def cell_text(found, level):
    """The savings of the places at this level; with their rows where there are several."""
    here = sorted((place.rows, values) for place, values in found if place.level == level)
    texts = []
    for rows, values in here:
        low, middle, high = (100 * f(values) for f in (min, statistics.median, max))
        label = f"{rows} rows: " if len(here) > 1 else ""
        texts.append(f"{label}{middle:.1f} [{low:.1f}, {high:.1f}]")
    return "; ".join(texts) or "-"


def order(line):
    """Sorts by dtype as everywhere else, ISA, hidden."""
    dtype, isa, hidden = line
    return {"f32": 0, "bf16": 1, "f16": 2}.get(dtype, 3), dtype, isa, hidden


def section_lines(section, savings):
    """The table of one kernel."""
    found = [(place, values) for place, values in savings.items() if place.section == section]
    levels = [level for level in LEVELS if any(place.level == level for place, _ in found)]
    provider = "" if section.provider == "normkernels" else f" of {section.provider}"
    yield f"\n## {section.kernel}{provider}, {section.mode}, per cent\n"
    yield f"| dtype | ISA | hidden | {' | '.join(level or 'unknown' for level in levels)} |"
    yield "|---|---|--:|" + "--:|" * len(levels)
    for line in sorted({(p.dtype, p.isa, p.hidden) for p, _ in found}, key=order):
        here = [(p, v) for p, v in found if (p.dtype, p.isa, p.hidden) == line]
        texts = " | ".join(cell_text(here, level) for level in levels)
        yield f"| {line[0]} | {line[1]} | {line[2]} | {texts} |"


def report(path, out):
    """The whole text."""
    json_path = (path[:-4] if path.endswith(".csv") else path) + ".json"
    remedy = "measure again by `normbench run --unfused --out FILE.csv`"
    machine = read_machine(json_path, remedy)
    places, row = read_pairs(path, machine.get("run_id"), remedy)
    if not row:
        raise InputError(f"{path}: there are no rows: {remedy}")
    savings, left_out = find_savings(path, places, machine["cells"], remedy)
    counts = sorted({len(values) for values in savings.values()})
    name = os.path.relpath(path, os.path.dirname(out) or ".") if out else path
    lines = [HEAD.format(pairs=" to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))),
                         csv=f"[{name}]({name})", commit=row["commit"],
                         compiler=row["compiler"], cpu=row["cpu"] or "CPU unknown",
                         machine=row["machine"], started=row["started_utc"])]
    for kernel in sorted(left_out):
        lines.append(f"\n{kernel} has no chain: {left_out[kernel]}.")
    for section in sorted({place.section for place in savings}):
        lines += section_lines(section, savings)
    return "\n".join(lines) + "\n"


def main():
    """Ends with 0, or with 2 where an input or the output is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", metavar="FILE.csv", help="its machine file must lie beside it")
    parser.add_argument("-o", metavar="FILE.md", dest="out", help="write there, not to stdout")
    options = parser.parse_args()
    try:
        text = report(options.csv, options.out)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(text)
        else:
            sys.stdout.write(text)
    except (InputError, OSError, UnicodeDecodeError, csv.Error) as error:
        print(f"scripts/fusion.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
