#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one HTML page of results of `normbench run` and `claim`: the answer, charts
with filters, and the table behind each. It opens from disk, without a network.

Ends with 2 for input that is broken, incomplete or says nothing, with 3 where the
library that draws is missing.
"""
import argparse
import collections
import os
import sys

from reporting import charts, page, reader, sections
from reporting import records as recording

MISSING = ("the charts are drawn by vl-convert, which is not there: install it by\n"
           "  python3 -m pip install --target build-python vl-convert-python")


def drawing_library():
    try:
        import vl_convert
    except ImportError as error:
        print(f"report.py: {MISSING}\n({error})", file=sys.stderr)
        sys.exit(3)
    return vl_convert


def labelled(results):
    """(label, Result). Files of one machine and build are one result, unless they
    repeat what others of them measured."""
    builds = {(result.machine, result.commit, result.compiler) for result in results}
    compilers = collections.Counter((machine, commit) for machine, commit, _ in builds)
    labels, asked = [], set()
    for result in results:
        label = f"{result.machine} {result.commit[:7]}{'-dirty' * result.commit.endswith('-dirty')}"
        if compilers[result.machine, result.commit] > 1:
            label += f" {result.compiler}"
        question = (label, result.machine_file.get("command"),
                    str(result.machine_file.get("arguments")))
        if question in asked:
            label += f" {result.started_utc or result.run_id}"
        asked.add(question)
        labels.append((label, result))
    return labels


def read(paths, allow_incomplete):
    results = []
    for path in paths:
        result = reader.read(path, allow_incomplete)
        if result.machine_file.get("command") == "ab":
            raise reader.InputError(f"{path}: is of `normbench ab`; scripts/compare.py reads those")
        if any(result.run_id == other.run_id for other in results):
            raise reader.InputError(f"{path}: is the run of another of the files")
        for note in result.notes:
            print(f"report.py: {note}", file=sys.stderr)
        results.append(result)
    return labelled(results)


def machines(results):
    return "; ".join(dict.fromkeys(f"{result.cpu or 'unknown CPU'} ({label}), {result.compiler}"
                                   for label, result in results))


def conditions(section, here):
    """What all that is drawn has in common, and what the marks mean."""
    def only(field, form):
        values = {record[field] for record in here}
        return form.format(values.pop()) if len(values) == 1 else None
    said = [only("dtype", "{}"), only("threads", "{} thread(s)"), only("mode", "{} operands")]
    if section.low:
        said.append("bars: intervals of the median")
    if section.band:
        said.append("grey: 15-20 %")
    return ", ".join(filter(None, said))


def selected(found, only):
    """The sections that --only names; all without it."""
    names = [section.name for section in found]
    for name in only or ():
        if name not in names:
            raise reader.InputError(f"--only: there is no chart '{name}' of these results; there "
                                    f"are: {', '.join(names)}")
    return [section for section in found if not only or section.name in only]


def write_figures(folder, results, found, library):
    """The charts as they are to begin with: NAME.svg and NAME.png."""
    choices = recording.choices(found)
    chosen = {field: recording.first_choice(field, texts) for field, texts in choices.items()}
    os.makedirs(folder, exist_ok=True)
    for section in found:
        here = [record for record in section.records
                if recording.passes(record, chosen, section.ignores)]
        if not here:
            continue
        spec = charts.figure(section, here, [machines(results), conditions(section, here)])
        with open(os.path.join(folder, f"{section.name}.svg"), "w", encoding="utf-8") as file:
            file.write(library.vegalite_to_svg(spec))
        with open(os.path.join(folder, f"{section.name}.png"), "wb") as file:
            file.write(library.vegalite_to_png(spec, scale=2))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.csv",
                        help="results; their machine files must lie beside them")
    parser.add_argument("-o", metavar="PAGE.html", dest="out", help="write the page there")
    parser.add_argument("--figures", metavar="DIR", help="write each chart there, as SVG and PNG")
    parser.add_argument("--only", metavar="NAMES", type=lambda text: text.split(","),
                        help="these charts, separated by commas: saving, time ...")
    parser.add_argument("--allow-incomplete", action="store_true",
                        help="take results of interrupted runs, or without a machine file")
    options = parser.parse_args()
    if not (options.out or options.figures):
        parser.error("-o PAGE.html or --figures DIR is needed: where the report goes")
    return options


def main():
    options = parse_arguments()
    try:
        results = read(options.files, options.allow_incomplete)
        found = sections.sections(results)
        if not found:
            raise reader.InputError("these results hold no kernel that was timed beside another")
        found = selected(found, options.only)
        library = drawing_library()
        if options.figures:
            write_figures(options.figures, results, found, library)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(page.render(results, found, library.javascript_bundle()))
    except reader.InputError as error:
        told = "; --allow-incomplete takes it all the same"
        print(f"report.py: {error}{told if isinstance(error, reader.Incomplete) else ''}",
              file=sys.stderr)
        return 2
    except OSError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
