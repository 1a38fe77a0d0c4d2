#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The answer to "does RMSNorm save 15-20 % of LayerNorm's computation?" as a page, from the
CSVs of `normbench claim`: the sweep, and as far as there are any --axes, --meanings and --model,
of one machine. Every word follows from them."""
import argparse
import collections
import math
import os
import re
import statistics
import sys
import textwrap

from reporting import claims, reader
from reporting.questions import FUSED, ISAS, USUAL_ROWS, Answers, arguments
from reporting.reader import InputError
from reporting.savings import SHARE_MARGIN

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEVELS = ("L1", "L2", "L3", "memory")
CACHES = ("L1", "L2")
BEGIN, END = "<!-- answer: made by scripts/answer.py -->", "<!-- end of the answer -->"
NOTE = """f32, {isa}, one thread, forward, gamma and beta, as many rows as fill a quarter to
a half of the level (of L3 eight times L2 at the most, in memory three times the last cache). `?`:
cannot tell, either because the interval crosses a border, or because LayerNorm is further from the
machine's limit than RMSNorm by more than {margin:.0f} points, or another LayerNorm is faster, so that a slow LayerNorm could be
what is saved."""
PAPER = """Zhang & Sennrich (2019) report that RMSNorm cuts running time by 7 to 64 %: 6.9 to 40.8 % for
RMSNorm itself and up to 63.9 % for pRMSNorm, which looks at a part of each row only. That is the
time to train whole models, recurrent ones and Transformers, on GPUs, in the frameworks of that
year: how large a part of a step the norm was, into how many kernels it was split and how often
these moved the rows is in those figures. Here it is the norm alone, as one kernel on a CPU, against
a LayerNorm that is made with the same care: it can save no more than its own time. {compared}"""


# ---- Words -----------------------------------------------------------------

def percent(value):
    return f"{100 * value:.1f}"


def spread(values):
    """"3.1 to 8 %", "3.1 %"."""
    low, high = percent(min(values)), percent(max(values))
    return f"{low} %" if low == high else f"{low} to {high} %"


def listing(parts):
    """"a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def wrap(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def interval(saving):
    return f"{percent(saving.median)} [{percent(saving.low)}, {percent(saving.high)}]"


def cell_text(cell):
    verdict = cell.verdict()
    return f"{interval(cell.saving())} {'?' if verdict.startswith('cannot') else verdict}"


def where_sentence(answers):
    """What is saved, by where the rows lie."""
    places = collections.defaultdict(list)
    for (_, level), cell in answers.main.items():
        places["L1 and L2" if level in CACHES else level].append(cell.saving().median)
    words = {"L1 and L2": "while the rows lie in L1 or L2", "L3": "from L3", "memory": "from memory"}
    parts = [f"{spread(places[key])} {words[key]}" for key in words if places[key]]
    parts[0] = parts[0].replace(" %", " % of LayerNorm's time")
    cpu = article(answers.results[0].cpu or "CPU of unknown name")
    return f"On {cpu} with {isa_name(answers)}, RMSNorm saves {listing(parts)}."


def isa_name(answers):
    return ISAS.get(answers.isa, answers.isa)


def article(name):
    return f"{'an' if name[:1].upper() in 'AEIOU' else 'a'} {name}"


def verdict_counts(answers):
    counts = collections.Counter()
    for cell in answers.main.values():
        verdict = cell.verdict()
        counts["cannot tell" if verdict.startswith("cannot") else verdict] += 1
    return counts


def conclusion(counts, gap):
    """What the verdicts say together; `gap`: how much more is saved in L1 and L2 than beyond."""
    within, below, above = counts["within"], counts["below"], counts["above"]
    if not within + below + above:
        return "nothing can be told here"
    if not below and not above:
        return "the claim holds here"
    if below and not above:
        return "the claim promises too much here" if not within else \
            "the claim is the most that can be had here"
    if above and not below:
        return "the claim promises too little here" if not within else \
            "the claim is the least that can be had here"
    if gap > 0.05:
        return "it is a number on the way from the caches to memory, and no law"
    return "it is no law: some shapes save less, others more"


def verdict_sentence(answers):
    counts = verdict_counts(answers)
    savings = {key: cell.saving().median for key, cell in answers.main.items()}
    near = [v for (_, level), v in savings.items() if level in CACHES]
    far = [v for (_, level), v in savings.items() if level not in CACHES]
    gap = statistics.median(near) - statistics.median(far) if near and far else 0
    total = sum(counts.values())
    names = (("within", "holds"), ("below", "is too much"), ("above", "is too little"),
             ("cannot tell", "cannot be told"))
    parts = listing([f"{text} in {counts[name]}" for name, text in names if counts[name]])
    return f"Of {total} cells 15-20 % {parts}: {conclusion(counts, gap)}."


def shares_of_work(cell):
    """What RMSNorm saves of the formula's operations and of the bytes; None if unknown."""
    layer, rms = cell.rows[claims.LAYER], cell.rows[claims.RMS]
    both = ((layer.flops, rms.flops), (layer.bytes, rms.bytes))
    return [1 - r / l if r and l else None for l, r in both]


def meaning_sentence(answers):
    """The base cell: of operations, of bytes, and of time between them or not."""
    cell = answers.base
    flops, moved = shares_of_work(cell)
    time = cell.saving()
    if flops is None or moved is None:
        return f"At hidden {cell.place.hidden} in {cell.place.level} it saves {interval(time)} %."
    executed = answers.counts.saving(cell.place, "instructions")
    parts = [f"{percent(flops)} % of the formula's arithmetic"]
    if executed is not None:
        parts.append(f"{percent(executed)} % of the instructions executed")
    known = [v for v in (flops, moved, executed) if v is not None]
    low, high = min(known), max(known)
    where = ("below all of them" if time.high < low else "above all of them" if time.low > high else
             "between these" if low <= time.low and time.high <= high else "near one of them")
    parts.append(f"{percent(moved)} % of the bytes that must move")
    return (f"At hidden {cell.place.hidden} in {cell.place.level} it saves {listing(parts)}; the "
            f"time saved, {interval(time)} %, lies {where}.")


# ---- Tables ----------------------------------------------------------------

def grid(answers, text):
    """Hidden sizes by levels."""
    levels = [l for l in LEVELS if any(key[1] == l for key in answers.main)]
    yield f"| hidden | {' | '.join(levels)} |"
    yield "|--:|" + "---|" * len(levels)
    for hidden in sorted({key[0] for key in answers.main}):
        cells = [answers.main.get((hidden, level)) for level in levels]
        yield f"| {hidden} | {' | '.join(text(c) if c else '-' for c in cells)} |"


def near_text(cell):
    """LayerNorm's and RMSNorm's shares of their limits, and what sets RMSNorm's."""
    layer, rms = (cell.share(side) for side in (claims.LAYER, claims.RMS))
    if math.isnan(layer + rms):
        return "-"
    return f"{100 * layer:.0f}, {100 * rms:.0f} ({cell.limited_by})"


def near_lines(answers):
    """How far the compared kernels are from what the machine can do."""
    if all(math.isnan(cell.share(claims.RMS)) for cell in answers.main.values()):
        return
    yield "\n## How near to the limit both kernels are\n"
    yield wrap("LayerNorm's and RMSNorm's share of the least time that this machine allows for what "
               "they read, write and compute, per cent, measured in the same run, and what sets that "
               "time for RMSNorm (results/README.md, Limits).") + "\n"
    yield from grid(answers, near_text)


def exact_text(pair, elements):
    """What an element costs, the saving and the verdict."""
    if not pair or not all(pair):
        return "-"
    saving = 1 - pair[1] / pair[0]
    return (f"{pair[0] / elements:.2f}, {pair[1] / elements:.2f}: {percent(saving)} "
            f"{claims.word(saving, saving)}")


def layers_of(base, cells):
    """(algorithm, cell, side) of each LayerNorm at the base's shape: cells of their own, and
    rivals in the base's."""
    found = {p.algorithm: (c, 0) for p, c in cells.items()
             if p._replace(algorithm=base.place.algorithm) == base.place}
    for side, row in enumerate(base.rows[claims.RIVALS:], claims.RIVALS):
        found.setdefault(row.algorithm, (base, side))
    order = ("default", "shifted", "one_pass", "two_pass", "welford")
    return sorted(((a, c, s) for a, (c, s) in found.items()),
                  key=lambda acs: [*order, acs[0]].index(acs[0]))


def meaning_rows(answers, base, cells):
    """A LayerNorm a row."""
    for algorithm, cell, side in layers_of(base, cells):
        place = cell.place._replace(algorithm=algorithm)
        elements = place.rows * place.hidden
        layer, rms = cell.rows[side], cell.rows[claims.RMS]
        texts = [exact_text((layer.flops, rms.flops), elements)]
        texts += [exact_text(answers.counts.pair(place, what), elements)
                  for what in ("flops", "instructions")]
        texts.append(exact_text((layer.bytes, rms.bytes), elements))
        time = cell_text(cell) if side == 0 else interval(cell.saving(side))
        yield f"| {algorithm} | {' | '.join(texts)} | {time} |"


def meaning_lines(answers, folder):
    cells = answers.of.get("--meanings", answers.table)
    base = answers.base_of(cells)
    if not base:
        return
    place = base.place
    yield "\n## What explains it\n"
    yield wrap('"15-20 % of the computation" can mean four things. For each LayerNorm what an '
               "element costs it, what it costs RMSNorm, and what is saved, per cent: "
               f"{place.dtype}, {place.isa}, {place.rows} rows of {place.hidden} ({place.level}). "
               + source_text(base.source, folder)) + "\n"
    yield "| LayerNorm | operations of the formula | executed | instructions | bytes | time |"
    yield "|---|---|---|---|---|---|"
    yield from meaning_rows(answers, base, cells)
    if not answers.counts.path:
        yield "\nWhat is executed was not counted."


def differences(place, base):
    """The axes on which a place lies off the base; rows and level follow others."""
    names = [n for n in ("provider", "kernels", "training", "algorithm", "dtype", "isa", "hidden",
                         "mode", "threads") if getattr(place, n) != getattr(base, n)]
    if place.provider != base.provider:
        return ["provider"] if set(names) <= {"provider", "isa", "algorithm"} else names
    if place.training != base.training or place.kernels != base.kernels:
        return ["step"] if set(names) <= {"training", "kernels"} else names
    if not names and place.rows in USUAL_ROWS:
        return ["rows"]
    return names or ["level"]


AXES = (("hidden", lambda p: str(p.hidden)), ("level", lambda p: p.level),
        ("isa", lambda p: p.isa), ("dtype", lambda p: p.dtype), ("rows", lambda p: str(p.rows)),
        ("mode", lambda p: p.mode), ("threads", lambda p: str(p.threads)),
        ("step", lambda p: "forward + backward" if p.training else
         "fused with the addition" if p.kernels == FUSED else "forward"),
        ("algorithm", lambda p: p.algorithm),
        ("provider", lambda p: f"{p.provider}, {p.algorithm}"))


def axis_lines(answers, folder):
    """From the base each axis alone."""
    cells = answers.of.get("--axes", {})
    base = answers.base_of(cells)
    if not base:
        return
    place = base.place
    yield "\n## From one cell, each axis alone\n"
    yield wrap(f"The cell saves {interval(base.saving())} %: {place.dtype}, {place.isa}, "
               f"hidden {place.hidden}, {place.rows} rows ({place.level}), {place.mode}, one "
               f"thread, forward, algorithm default. {source_text(base.source, folder)} With one "
               "thing changed:") + "\n"
    yield "| | | saves, per cent |"
    yield "|---|---|---|"
    for name, value in AXES:
        found = [(p, c) for p, c in cells.items() if differences(p, place) == [name] and p != place]
        found.sort(key=lambda pc: (pc[0].hidden, [*LEVELS, pc[0].level].index(pc[0].level),
                                   pc[0].rows, value(pc[0])))
        for i, (other, cell) in enumerate(found):
            yield f"| {name if i == 0 else ''} | {value(other)} | {cell_text(cell)} |"


Model = collections.namedtuple("Model", "hidden calls parameters")


def read_models():
    """{name: its hidden size, norm calls a pass and parameters} of bench/models.def."""
    with open(os.path.join(TOP, "bench/models.def"), encoding="utf-8") as file:
        found = re.findall(r'^NB_MODEL\("(.*?)", (\d+), (\d+), (\d+), .*, ([0-9.e]+), "', file.read(),
                           re.M)
    return {name: Model(int(hidden), int(layers) * int(norms) + 1, float(parameters))
            for name, hidden, layers, norms, parameters in found}


def share_text(model, place, saved_ns, bytes_per_s):
    """Of the time that a token's parameters take to come from memory."""
    if place.rows != 1 or not bytes_per_s:
        return "-"
    size = {"f32": 4}.get(place.dtype, 2)
    pass_ns = model.parameters * size / bytes_per_s * 1e9
    return f"{100 * saved_ns * model.calls / pass_ns:.2g} %"


def model_lines(answers, folder):
    """What the norm of a model costs, and RMSNorm saves, per token."""
    cells = answers.of.get("--model", {})
    if not cells:
        return
    source = next(iter(cells.values())).source
    bytes_per_s = source.machine_file.get("memory_load_bytes_per_s")
    asked = next(a for a in arguments(source) if a.startswith("--model=")).split("=")[1].split(",")
    known = read_models()
    yield "\n## Of a model\n"
    yield wrap("Operands beyond the caches, as a model's weights leave them: one row is a token that "
               "is decoded, more are a prompt. A pass that decodes takes at least as long as the "
               "parameters take to come from memory, and of that what is saved is the share. "
               + source_text(source, folder)) + "\n"
    yield ("| model | rows | RMSNorm | LayerNorm, us | RMSNorm, us | saves, per cent | a token, us |"
           " of a pass, at most |")
    yield "|---|--:|---|--:|--:|---|--:|--:|"
    for name in asked:
        if name not in known:
            raise InputError(f"{source.path}: bench/models.def has no {name}")
        model = known[name]
        for place, cell in sorted(cells.items(), key=lambda pc: (pc[0].dtype != "f32", pc[0].dtype,
                                                                 pc[0].rows)):
            if place.hidden == model.hidden:
                layer, rms = (cell.call_ns(side) for side in (claims.LAYER, claims.RMS))
                yield (f"| {name} | {place.rows} | {place.kernels[1]}, {place.dtype}, {place.isa} | "
                       f"{layer / 1e3:.2f} | {rms / 1e3:.2f} | {cell_text(cell)} | "
                       f"{cell.saved_ns() * model.calls / place.rows / 1e3:.3g} | "
                       f"{share_text(model, place, cell.saved_ns(), bytes_per_s)} |")


def paper_lines(answers):
    best = max(answers.main.values(), key=lambda c: c.saving().median)
    text = PAPER.format(compared=f"The most that it saves so in the table above is "
                        f"{percent(best.saving().median)} % (hidden {best.place.hidden}, "
                        f"{best.place.level}).")
    yield f"\n## What the RMSNorm paper measured\n\n{wrap(text)}"


def source_text(result, folder):
    name = os.path.relpath(result.path, folder)
    return f"From [{os.path.basename(name)}]({name}), commit {result.commit}."


def source_lines(answers, folder):
    command = [os.path.relpath(result.path, TOP) for result in answers.results]
    yield "\n## Where the numbers come from\n"
    yield "| observations | commit | compiler | CPU | measured | normbench claim |"
    yield "|---|---|---|---|---|---|"
    for r in answers.results:
        name = os.path.relpath(r.path, folder)
        yield (f"| [{os.path.basename(name)}]({name}) | {r.commit} | {r.compiler} | "
               f"{r.cpu} ({r.machine}) | {r.started_utc} | `{' '.join(arguments(r))}` |")
    if answers.counts.path:
        name = os.path.relpath(answers.counts.path, folder)
        yield f"\nExecuted operations and instructions: [{os.path.basename(name)}]({name})."
    yield f"\nThis page was made by `scripts/answer.py {' '.join(command)}`."


# ---- Pages -----------------------------------------------------------------

def short_answer(answers):
    return wrap(" ".join((where_sentence(answers), verdict_sentence(answers),
                          meaning_sentence(answers))))


def table_lines(answers):
    coverage = answers.base.saving().coverage
    yield wrap("What RMSNorm saves, per cent of the fastest LayerNorm that keeps our accuracy "
               f"promise; in brackets the interval of {len(answers.base.pairs)} processes "
               f"({percent(coverage)} %); whether 15-20 % holds there:") + "\n"
    yield from grid(answers, cell_text)
    yield "\n" + wrap(NOTE.format(isa=isa_name(answers), margin=100 * SHARE_MARGIN))


def page(answers, out):
    """The whole of it."""
    folder = os.path.dirname(out) or "."
    lines = ["# Does RMSNorm save 15-20 % of LayerNorm?\n", short_answer(answers), "",
             *table_lines(answers), *near_lines(answers), *meaning_lines(answers, folder),
             *axis_lines(answers, folder),
             *model_lines(answers, folder), *paper_lines(answers), *source_lines(answers, folder)]
    return "\n".join(lines) + "\n"


def readme_block(answers, out, readme):
    folder = os.path.dirname(readme) or "."
    sweep = answers.base.source
    csv_name, page_name = os.path.relpath(sweep.path, folder), os.path.relpath(out, folder)
    source = wrap(f"From [{os.path.basename(csv_name)}]({csv_name}), commit {sweep.commit}, "
                  f"{sweep.compiler}. What explains it, other shapes, plain C, and what the RMSNorm "
                  f"paper measured: [{page_name}]({page_name}).")
    return "\n".join([BEGIN, short_answer(answers), "", *table_lines(answers), "", source, END])


def rewrite_readme(path, block):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise InputError(f"{path}: there are no lines '{BEGIN}' and '{END}' to put it between")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:begin] + block + text[end + len(END):])


def read_results(paths):
    results = [reader.read(path) for path in paths]
    for result in results:
        if result.machine_file.get("command") != "claim":
            raise InputError(f"{result.path}: is not of `normbench claim`")
        if result.machine != results[0].machine:
            raise InputError(f"{result.path}: is of machine {result.machine}, {results[0].path} of "
                             f"{results[0].machine}: one page is about one machine")
    return results


def main():
    """Ends with 0, or with 2 where an input or an output is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", nargs="+", metavar="FILE.csv", help="the machine file beside it")
    parser.add_argument("-o", metavar="FILE.md", dest="out", default="results/ANSWER.md",
                        help="the page (results/ANSWER.md)")
    parser.add_argument("--readme", metavar="FILE.md",
                        help="put the short answer and the table between its markers")
    options = parser.parse_args()
    try:
        answers = Answers(read_results(options.csv))
        text = page(answers, options.out)
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
        if options.readme:
            rewrite_readme(options.readme, readme_block(answers, options.out, options.readme))
    except (InputError, OSError, UnicodeDecodeError) as error:
        print(f"scripts/answer.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
