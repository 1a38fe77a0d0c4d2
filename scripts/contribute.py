#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes results of other machines into results/, after checking them: whole, with their
machine files, of kernels that were verified, measured by an unchanged release build.

Each FILE.csv and the .json beside it are copied to results/MACHINE/DATE-COMMIT.csv and
.json, unless they lie under results/ already or --check is given. Whoever sends a result
runs the same check first. Without files, all that lie there are checked.

Ends with 1 if a result does not hold, with every reason; with 2 for wrong usage, broken
files, or a place that is taken.
"""
import argparse
import collections
import glob
import os
import re
import shutil
import sys

from reporting import reader

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "results")
PROCESSES = 6  # of a claim: fewer carry no interval of 95 %
# results/README.md: what a kernel promises, and what any may be timed with.
PROMISED_U, TIMED_U = 8, 64


# ---- What a result must hold -----------------------------------------------
# Each yields what is wrong.

def check_machine(result):
    machine, build = (result.machine_file.get(name, {}) for name in ("machine", "build"))
    if not re.fullmatch("[0-9a-f]{8}", result.machine):
        yield f"'{result.machine}' is no hash of a machine"
    for name, here, there in (("machine", result.machine, machine.get("hash")),
                              ("CPU", result.cpu, machine.get("cpu") or ""),
                              ("commit", result.commit, build.get("commit")),
                              ("compiler", result.compiler, build.get("compiler")),
                              ("start", result.started_utc,
                               result.machine_file.get("started_utc"))):
        if here != there:
            yield f"{name}: '{here}' in the CSV, '{there}' in the machine file"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result.started_utc):
        yield f"'{result.started_utc}' is no time of its start"


def check_build(result):
    options = (result.machine_file.get("build") or {}).get("options") or ""
    if "buildtype=release" not in options or "sanitize=none" not in options:
        yield f"the build's options are '{options}': measure with scripts/bench.sh"
    if not re.fullmatch("[0-9a-f]{7,40}", result.commit):
        yield f"commit '{result.commit}': measure an unchanged commit, so that it can be repeated"


def check_command(result):
    command = result.machine_file.get("command")
    if command not in ("claim", "run"):
        yield f"it is of `normbench {command}`: results are those of claim and run"
    processes = {row.process for row in result.rows}
    if command == "claim" and len(processes) < PROCESSES:
        yield f"a claim of {len(processes)} processes: {PROCESSES} or more carry an interval"


def check_kernels(result):
    """Every kernel but the copy was checked on the operands that it was timed on."""
    reasons = collections.Counter()
    for row in result.rows:
        name = f"{row.kernel} {row.algorithm} {row.dtype} {row.isa} of {row.provider}"
        promised = row.algorithm == "default" and row.provider == "normkernels"
        limit = PROMISED_U if promised else TIMED_U
        if row.status != "ok":
            reasons[f"{name} failed its check: {row.status}"] += 1
        elif row.kernel == "copy":
            continue
        elif row.error_ulp is None:
            reasons[f"{name} was timed and not checked"] += 1
        elif row.error_ulp > limit:
            reasons[f"{name} is off by more than {limit} u"] += 1
    for reason, count in reasons.items():
        yield f"{reason} ({count} rows)"


def check_cells(result):
    """The machine file lists what was measured: rows may not have got lost."""
    measured = {reader.cell_name(row) for row in result.rows}
    cells = {cell.get("name") for cell in result.machine_file.get("cells") or []
             if not cell.get("skipped")}
    if not cells:
        yield "the machine file lists no cells"
    for name in sorted(cells - measured):
        yield f"{name} has no row"


CHECKS = (check_machine, check_build, check_command, check_kernels, check_cells)


def problems(result):
    return [problem for check in CHECKS for problem in check(result)]


# ---- Its place -------------------------------------------------------------

def is_below(path, folder):
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def stored(folder):
    """The results in it: CSVs with a machine file."""
    return [path for path in sorted(glob.glob(os.path.join(folder, "*", "*.csv")))
            if os.path.exists(reader.machine_path(path))]


def find_same_run(result, folder):
    """Another file that holds the same run."""
    for path in stored(folder):
        if not os.path.samefile(path, result.path) and \
                reader.read_csv(path).run_id == result.run_id:
            return path
    return None


def destination(result, folder, name):
    stem = f"{result.started_utc[:10]}-{result.commit[:7]}" + (f"-{name}" if name else "")
    return os.path.join(folder, result.machine, stem + ".csv")


def take_in(result, folder, name):
    """Returns where it lies then."""
    same = find_same_run(result, folder)
    if same:
        raise reader.InputError(f"{result.path}: {os.path.normpath(same)} is the same run")
    if is_below(result.path, folder):
        return result.path
    to = destination(result, folder, name)
    if os.path.exists(to) or os.path.exists(reader.machine_path(to)):
        raise reader.InputError(f"{os.path.normpath(to)} is there already: tell them apart by "
                                "--name")
    os.makedirs(os.path.dirname(to), exist_ok=True)
    for source, target in ((result.path, to),
                           (reader.machine_path(result.path), reader.machine_path(to))):
        shutil.copyfile(source, target)
    return to


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE.csv")
    parser.add_argument("--check", action="store_true", help="check only, copy nothing")
    parser.add_argument("--name", metavar="WORD", help="goes into the file's name")
    parser.add_argument("--into", metavar="DIR", default=os.path.relpath(RESULTS),
                        help="instead of results/")
    options = parser.parse_args()
    if options.name is not None and not re.fullmatch("[A-Za-z0-9_-]+", options.name):
        parser.error(f"--name: '{options.name}' is more than letters, digits, _ and -")
    return options


def main():
    options = parse_arguments()
    status = 0
    try:
        paths = options.files or stored(options.into)
        if not paths:
            raise reader.InputError(f"{options.into}: there are no results")
        for path in paths:
            result = reader.read(path)
            found = problems(result)
            for problem in found:
                print(f"contribute.py: {path}: {problem}", file=sys.stderr)
            if found:
                status = 1
                continue
            checked_only = options.check or not options.files
            place = path if checked_only else take_in(result, options.into, options.name)
            print(f"{os.path.normpath(place)}: {result.cpu or 'CPU unknown'} ({result.machine}), "
                  f"{len(result.rows)} rows, commit {result.commit}: good")
    except (reader.InputError, OSError) as error:
        print(f"contribute.py: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
