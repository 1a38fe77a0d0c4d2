#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the intervals of `normbench claim` honest? Runs it many times on one LayerNorm under two
names: nothing is saved between them, so an interval that does not hold 0 is wrong, and a wide
one says little. Writes a row a cell of each claim to results/intervals/MACHINE.csv and the table
to MACHINE.md. A CSV that is there is continued: several short runs count as one long one."""
import argparse
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from reporting import claims, reader

TOP = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["commit", "started_utc", "hidden", "level", "rows", "processes", "quick",
           "saved", "low", "high"]
LEVELS = ("L1", "L2", "L3", "memory")


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="claims of each cell")
    parser.add_argument("--build", default=TOP / "build", type=pathlib.Path)
    parser.add_argument("--out", default=TOP / "results/intervals", type=pathlib.Path)
    parser.add_argument("--levels", default="L1,L2,memory")
    parser.add_argument("--hidden", default="768,4096")
    parser.add_argument("--full", action="store_true", help="not --quick, three times as long")
    return parser.parse_args()


def build_twin(arguments, folder):
    """The provider, and the environment in which it finds the library."""
    twin = folder / "twin.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", f"-I{TOP}/kernels",
                    str(TOP / "scripts/intervals_twin.c"), "-ldl", "-o", str(twin)], check=True)
    library = (arguments.build / "kernels/libnormkernels.so").resolve()
    return twin, dict(os.environ, INTERVALS_LIBRARY=str(library))


def claim(arguments, twin, environment, seed):
    """The cells of one claim: place, and what the twin seems to save."""
    out = twin.with_name("claim.csv")
    quick = [] if arguments.full else ["--quick"]
    done = subprocess.run([arguments.build / "bench/normbench", "claim", "--provider", twin,
                           "--algorithm", "default,twin", f"--hidden={arguments.hidden}",
                           f"--level={arguments.levels}", f"--seed={seed}", "--out", out,
                           "--force", *quick],
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"normbench claim ended with {done.returncode}: {done.stderr}")
    result = reader.read(out)
    for place, cell in claims.cells(result).items():
        saving = cell.saving_of(claims.RIVALS, claims.LAYER)
        yield {"commit": result.commit, "started_utc": result.started_utc, "hidden": place.hidden,
               "level": place.level, "rows": place.rows, "processes": len(cell.pairs),
               "quick": "no" if arguments.full else "yes", "saved": f"{saving.median:.6f}",
               "low": f"{saving.low:.6f}", "high": f"{saving.high:.6f}"}


def table(rows):
    yield ("| hidden | level | claims | hold 0 | half-width, median points | widest | "
           "largest saving seen |")
    yield "|--:|---|--:|--:|--:|--:|--:|"
    groups = {}
    for row in rows:
        groups.setdefault((LEVELS.index(row["level"]), int(row["hidden"])), []).append(row)
    for (level, hidden), group in sorted(groups.items()):
        holds = sum(float(row["low"]) <= 0 <= float(row["high"]) for row in group)
        halves = [50 * (float(row["high"]) - float(row["low"])) for row in group]
        saved = max((100 * float(row["saved"]) for row in group), key=abs)
        yield (f"| {hidden} | {LEVELS[level]} | {len(group)} | {holds} | "
               f"{statistics.median(halves):.2f} | {max(halves):.2f} | {saved:+.2f} % |")


def main():
    arguments = options()
    machine = subprocess.run([arguments.build / "bench/normbench", "info", "--machine"],
                             capture_output=True, text=True, check=True).stdout.strip()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{machine}.csv"
    new = not path.exists()
    with tempfile.TemporaryDirectory() as folder, open(path, "a", newline="",
                                                       encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        twin, environment = build_twin(arguments, pathlib.Path(folder))
        for i in range(arguments.count):
            print(f"claim {i + 1}/{arguments.count}", file=sys.stderr)
            writer.writerows(claim(arguments, twin, environment, seed=i + 1))
            file.flush()
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(table(csv.DictReader(file)))
    text = "\n".join([f"# The intervals of claim on {machine}", "",
                      f"Made by `scripts/prove_intervals.py` from {path.name}: one LayerNorm under "
                      "two names, interleaved as", "`normbench claim` does, so that 0 is the truth.",
                      "", *lines, ""])
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
