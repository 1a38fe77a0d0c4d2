#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What fusion saves, as a Markdown table: reads the CSV of `normbench run --unfused`."""

import argparse
import collections
import os
import statistics
import sys

from reporting import reader
from reporting.reader import InputError

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

REMEDY = "measure again by `normbench run --unfused --out FILE.csv`"


def read_result(path):
    """A whole run with --unfused."""
    result = reader.read(path)
    machine = result.machine_file
    if not isinstance(machine.get("cells"), list):
        raise InputError(f"{reader.machine_path(path)}: no machine file of normbench")
    if "--unfused" not in machine.get("arguments", []):
        raise InputError(f"{reader.machine_path(path)}: the run was made without --unfused")
    return result


def find_pairs(result):
    """{place: {pair: {algorithm: time}}} of the rows that were interleaved."""
    places = {}
    for row in result.rows:
        if row.kernel == "copy" or row.algorithm not in ("default", "unfused"):
            continue
        if row.status != "ok":
            raise InputError(f"{result.path}:{row.line}: {row.kernel}, {row.algorithm}: "
                             f"{row.status}: mend it")
        if row.pair is None:
            continue
        section = Section(row.provider, row.kernel, row.mode)
        place = Place(section, row.dtype, row.isa, row.hidden, row.level, row.rows)
        pair = (row.process, row.repetition, row.pair)
        places.setdefault(place, {}).setdefault(pair, {})[row.algorithm] = row.time_ns
    return places


def cell_name(place, algorithm):
    """As the machine file names it."""
    return (f"{place.section.kernel}/algorithm:{algorithm}/dtype:{place.dtype}"
            f"/isa:{place.isa}/rows:{place.rows}/hidden:{place.hidden}")


def find_savings(path, places, cells):
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
                                 f"{pair[1]}")
        savings[place] = [1 - t["default"] / t["unfused"] for t in pairs.values()]
    for name in sorted(set(chains) - seen):
        raise InputError(f"{path}: {name} has no row")
    if not savings:
        raise InputError(f"{path}: no fused kernel was timed")
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
    result = read_result(path)
    savings, left_out = find_savings(path, find_pairs(result), result.machine_file["cells"])
    counts = sorted({len(values) for values in savings.values()})
    name = os.path.relpath(path, os.path.dirname(out) or ".") if out else path
    lines = [HEAD.format(pairs=" to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))),
                         csv=f"[{name}]({name})", commit=result.commit,
                         compiler=result.compiler, cpu=result.cpu or "CPU unknown",
                         machine=result.machine, started=result.started_utc)]
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
    except InputError as error:
        print(f"scripts/fusion.py: {error}: {REMEDY}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"scripts/fusion.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
