#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good is the gate? Runs `normbench ab` many times on identical code (two
copies of one file) and on planted slow-downs (real extra work in each call,
calibrated to 3 % and 5 %), alone and beside a busy core, and writes a row a
cell of each gate to results/gate/MACHINE.csv and the table to MACHINE.md. A CSV
that is there is continued: several short runs count as one long one."""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["plan", "neighbour", "kernel", "level", "rows", "hidden", "verdict", "ratio",
           "ratio_low", "ratio_high", "processes", "seconds"]
HOG = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
a = bytearray(64 << 20)
while os.getppid() == int(sys.argv[2]):
    b = bytes(a)
"""


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="gates of each kind, beside each neighbour")
    parser.add_argument("--build", default=TOP / "build", type=pathlib.Path)
    parser.add_argument("--out", default=TOP / "results/gate", type=pathlib.Path)
    parser.add_argument("--plans", default="same,3,5", help="same: A against A; else per cent")
    parser.add_argument("--neighbours", default="idle,busy")
    parser.add_argument("--kernels", default="layernorm,rmsnorm,add_layernorm,add_rmsnorm")
    parser.add_argument("--levels", default="L1,L2,memory")
    parser.add_argument("--hidden", default="768,4096")
    return parser.parse_args()


class Gate:
    def __init__(self, arguments, folder):
        self.normbench = arguments.build / "bench/normbench"
        library = (arguments.build / "kernels/libnormkernels.so").resolve()
        self.folder = folder
        for name in ("base.so", "head.so"):
            (folder / name).write_bytes(library.read_bytes())
        source = TOP / "scripts/gate_plant.c"
        for name, flags in (("plain.so", []), ("plant.so", ["-DPLANT"])):
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", *flags, f"-I{TOP}/kernels",
                            str(source), "-ldl", "-o", str(folder / name)], check=True)
        self.filters = [f"--kernel={arguments.kernels}", f"--level={arguments.levels}",
                        f"--hidden={arguments.hidden}"]

    def run(self, base, head, steps=None, extra=()):
        """The cells of one gate, and its seconds."""
        answer = self.folder / "answer.json"
        environment = dict(os.environ, GATE_LIBRARY=str(self.folder / "base.so"))
        if steps:
            environment["GATE_STEPS"] = ",".join(f"{k}={v}" for k, v in steps.items())
        start = time.monotonic()
        done = subprocess.run([self.normbench, "ab", self.folder / base, self.folder / head,
                               *self.filters, "--json", answer, "--force", *extra],
                              env=environment, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - start
        if done.returncode not in (0, 1):
            sys.exit(f"normbench ab ended with {done.returncode}: {done.stderr}")
        cells = [c for c in json.loads(answer.read_text())["cells"] if c["verdict"] != "empty"]
        broken = [c["why"] for c in cells if c["verdict"] == "broken"]
        if broken:
            sys.exit(f"broken: {broken}")
        return cells, seconds

    def calibrate(self, target):
        """Steps for each cell that make it slower by the fraction `target`. A margin that
        nothing exceeds keeps each measurement to one round."""
        cells, _ = self.run("plain.so", "plain.so", extra=["--margin=1000"])
        steps = {key(c): max(1, round(target * c["base_ns"])) for c in cells}
        for _ in range(3):
            cells, _ = self.run("plain.so", "plant.so", steps, ["--margin=1000"])
            for c in cells:
                effect = max(c["ratio"] - 1, target / 4)
                steps[key(c)] = max(1, round(steps[key(c)] * target / effect))
        return steps


def key(cell):
    return f"{cell['kernel']}/{cell['rows']}/{cell['hidden']}"


def measured_cpu(normbench):
    said = subprocess.run([normbench, "info"], capture_output=True, text=True, check=True).stdout
    line = next(l for l in said.splitlines() if l.startswith("measured on"))
    return int(line.split("CPU")[1].split()[0])


def start_hog(normbench):
    """A neighbour core that copies memory without end; None if there is no other core."""
    others = os.sched_getaffinity(0) - {measured_cpu(normbench)}
    if not others:
        return None
    return subprocess.Popen([sys.executable, "-c", HOG, str(min(others)), str(os.getpid())])


def gates(arguments, gate, writer, file):
    for neighbour in arguments.neighbours.split(","):
        hog = start_hog(gate.normbench) if neighbour == "busy" else None
        if neighbour == "busy" and not hog:
            print("one core only: no busy neighbour", file=sys.stderr)
            continue
        try:
            for plan in arguments.plans.split(","):
                files, steps = ("base.so", "head.so"), None
                if plan != "same":
                    files, steps = ("plain.so", "plant.so"), gate.calibrate(float(plan) / 100)
                for i in range(arguments.count):
                    print(f"{plan}, {neighbour}: {i + 1}/{arguments.count}", file=sys.stderr)
                    cells, seconds = gate.run(*files, steps)
                    for c in cells:
                        c.update(plan=plan, neighbour=neighbour, seconds=seconds / len(cells))
                        writer.writerow({name: c.get(name) for name in COLUMNS})
                    file.flush()
        finally:
            if hog:
                hog.kill()
                hog.wait()


def table(rows):
    """A line for each plan, neighbour, level: the class of a kernel in the issue's sense."""
    yield "| plan | neighbour | level | gates of a kernel | failed | cannot tell | median change |" \
          " largest | seconds a kernel |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|"
    groups = {}
    for row in rows:
        groups.setdefault((row["plan"], row["neighbour"], row["level"]), []).append(row)
    for (plan, neighbour, level), group in sorted(groups.items()):
        changes = [100 * (float(r["ratio"]) - 1) for r in group]
        verdicts = [r["verdict"] for r in group]
        name = "same code" if plan == "same" else f"{plan} % slower"
        yield (f"| {name} | {neighbour} | {level} | {len(group)} | {verdicts.count('slower')} |"
               f" {verdicts.count('cannot tell')} | {statistics.median(changes):+.2f} % |"
               f" {max(changes, key=abs):+.2f} % |"
               f" {statistics.mean(float(r['seconds']) for r in group):.1f} |")


def main():
    arguments = options()
    machine = subprocess.run([arguments.build / "bench/normbench", "info", "--machine"],
                             capture_output=True, text=True, check=True).stdout.strip()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{machine}.csv"
    new = not path.exists()
    with tempfile.TemporaryDirectory() as folder, open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        gates(arguments, Gate(arguments, pathlib.Path(folder)), writer, file)
    with open(path, newline="") as file:
        lines = list(table(csv.DictReader(file)))
    text = "\n".join([f"# The gate on {machine}", "",
                      f"Made by `scripts/prove_gate.py` from {path.name}: a gate is `normbench ab` "
                      "with its usual margin of 1.5 %. On the same code `failed` are false alarms,",
                      "on slower code what was found.", "", *lines, ""])
    path.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
