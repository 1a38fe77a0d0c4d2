# SPDX-License-Identifier: Apache-2.0
"""The answer in words: what RMSNorm saves, and whether 15-20 % holds."""
import collections

from reporting import records as recording


def _range(values):
    low, high = min(values), max(values)
    if f"{low:.1f}" == f"{high:.1f}":
        return f"{low:.1f} %"
    return f"{low:.1f} to {high:.1f} %"


def _level(level):
    return {"": "where the caches are unknown", "memory": "from memory"}.get(level, f"in {level}")


def _listed(texts):
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def asked(section, chosen):
    """The records that the question is about: what is chosen to begin with, of
    the first pair of kernels."""
    left = [record for record in section.records if recording.passes(record, chosen)]
    kernels = {record["kernel"] for record in left}
    kernel = "rmsnorm" if "rmsnorm" in kernels else min(kernels, default="")
    return [record for record in left if record["kernel"] == kernel]


def by_level(found):
    """[(level, what is saved there)] in the levels' order."""
    levels = collections.defaultdict(list)
    for record in found:
        levels[record["level"]].append(record["saved_percent"])
    return [(level, _range(levels[level])) for level in recording.LEVELS if level in levels]


ALONE = {"within": "15-20 % holds there", "above": "that is more than 15-20 %",
         "below": "that is less than 15-20 %",
         "cannot tell": "whether 15-20 % holds these observations cannot tell"}


def verdicts(found):
    """In how many shapes the claim holds."""
    count = collections.Counter(record["verdict"].split(":")[0] for record in found)
    if len(found) == 1:
        text = ALONE[next(iter(count))]
        return text[0].upper() + text[1:] + "."
    texts = [f"{word} in {count[key]}" for key, word in (
        ("above", "it saves more"), ("below", "it saves less"),
        ("cannot tell", "these observations cannot tell")) if count[key]]
    met = f"15-20 % holds in {count['within'] or 'none'} of {len(found)} shapes"
    return "; ".join([met, _listed(texts)] if texts else [met]) + "."


def slower(found):
    """Where RMSNorm is slower than LayerNorm, which is a result too."""
    places = [f"hidden {record['hidden']} {_level(record['level'])}" for record in found
              if record["high_percent"] < 0]
    return f"RMSNorm is slower than LayerNorm at {', '.join(places)}." if places else ""


def conditions(record):
    """What the answer holds for, beside ISA, level and hidden."""
    threads = "one thread" if record["threads"] == 1 else f"{record['threads']} threads"
    rotate = ", operands that rotate over a model's layers" if record["mode"] == "rotate" else ""
    against = record["against"].replace("default", "the fastest that keeps the accuracy promise")
    return (f"{record['kernel']} against {record['kernel'].replace('rmsnorm', 'layernorm')} "
            f"({against}), {record['dtype']}, {threads}{rotate}")


def sentences(found):
    """What is saved, a paragraph an ISA, the best first. `found`: records of one
    result."""
    isas = sorted({record["isa"] for record in found},
                  key=lambda isa: -recording.position(recording.ISAS, isa))
    for isa in isas:
        here = [record for record in found if record["isa"] == isa]
        saved = _listed([f"{text} {_level(level)}" for level, text in by_level(here)])
        first = f"With {isa} RMSNorm saves, of LayerNorm's time, {saved}."
        said = first if isa == isas[0] else f"With {isa} it saves {saved}."
        yield " ".join(filter(None, [said, verdicts(here), slower(here)]))


def matrix(found):
    """Head and lines of the table that supports it: hidden by level."""
    levels = [level for level in recording.LEVELS
              if any(record["level"] == level for record in found)]
    places = {(record["hidden"], record["level"]): record for record in found}
    lines = [(hidden, [places.get((hidden, level)) for level in levels])
             for hidden in sorted({record["hidden"] for record in found})]
    return levels, lines
