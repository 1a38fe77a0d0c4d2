# SPDX-License-Identifier: Apache-2.0
"""`claim --axes`: the records that differ from its base cell in one thing."""
import collections

from reporting.records import HOLDS, MOST_ROWS, PREFERRED, best_isa, by_panel

# What an axis changes, and how a line of the chart says so.
AXES = {"hidden": "hidden {}", "isa": "{}", "dtype": "{}", "mode": "operands: {}",
        "threads": "{} threads", "kernel": "{}", "against": "against {}",
        "provider": "{0[provider]}, {0[against]}"}
WORDS = dict(zip(("above", "within", "below"), HOLDS))


def _most_frequent(values):
    return collections.Counter(values).most_common(1)[0][0]


def _base_cell(records):
    """The usual cell with the size of most levels and the level of most sizes."""
    usual = [record for record in records if record["kernel"] == "rmsnorm" and all(
        str(record[field]) == text for field, text in PREFERRED.items() if field in AXES)]
    if not usual:
        return None
    best = best_isa({record["isa"] for record in usual})
    usual = [record for record in usual if record["isa"] == best]
    hidden = _most_frequent(record["hidden"] for record in usual)
    level = _most_frequent(record["level"] for record in usual)
    return max((record for record in usual if (record["hidden"], record["level"]) ==
                (hidden, level)), key=lambda record: record["rows"], default=None)


def _changed(record, base):
    """What tells a record from the base, as (place of the axis, text); None if
    that is more than one thing. Rows follow the rest, and the level the mode."""
    fields = [field for field in AXES if record[field] != base[field]]
    if "provider" in fields:
        fields = ["provider"] + [field for field in fields if field not in (
            "provider", "isa", "against")]
    same_level = record["level"] == base["level"]
    if not fields and record["rows"] == base["rows"]:
        return -1, f"hidden {base['hidden']} in {base['level']}, {base['isa']}, {base['dtype']}"
    if not fields and MOST_ROWS in record["rows_choice"] and not same_level:
        return 0, f"in {record['level']}"
    if not fields:
        return 1, f"{record['rows']} row{'s' * (record['rows'] > 1)}" + (
            "" if same_level else f" ({record['level']})")
    follows = MOST_ROWS in record["rows_choice"] and (same_level or fields == ["mode"])
    if len(fields) > 1 or not follows:
        return None
    field = fields[0]
    return 2 + list(AXES).index(field), AXES[field].format(
        record if field == "provider" else record[field])


def axis_records(results, records):
    """The base cell, then each axis alone, of the results that hold such."""
    found = []
    for label in dict.fromkeys(label for label, result in results if
                               "--axes" in result.machine_file.get("arguments", [])):
        here = [record for record in records if record["result"] == label]
        base = _base_cell(here)
        lines = [(_changed(record, base), record) for record in here] if base else []
        found += [(line[0], {**record, "axis": line[1], "holds": WORDS.get(
            record["verdict"], HOLDS[-1])}) for line, record in lines if line]
    found.sort(key=lambda line: (line[1]["result_index"], line[0], by_panel(line[1]),
                                 line[1]["provider"], line[1]["against"]))
    return [record for _, record in found]
