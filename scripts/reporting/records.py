# SPDX-License-Identifier: Apache-2.0
"""The sections of a report: what each shows, as flat records that charts, tables
and downloads share."""
import collections
import dataclasses

from reporting import reader, savings

LEVELS = ("L1", "L2", "L3", "memory", "")
ISAS = ("scalar", "neon", "avx2", "avx512")
DTYPES = ("f32", "bf16", "f16")

# What a reader may choose from. Of the first several at a time: charts keep them
# apart by colour or give each its own panel. Of the others one at a time.
CHOICES = {"result": "machine and commit", "kernel": "kernel", "level": "working set in",
           "isa": "ISA", "dtype": "type"}
SINGLE_CHOICES = {"against": "LayerNorm", "provider": "provider", "params": "gamma and beta",
                  "threads": "threads", "mode": "operands", "rows_choice": "rows"}
FIELDS = {**CHOICES, **SINGLE_CHOICES}
MOST_ROWS = "the most measured"
AS_ROWS = "as the rows"


# Which to begin with; without one of these, the first.
PREFERRED = {"dtype": "f32", "against": "default", "provider": "normkernels", "params": AS_ROWS,
             "threads": "1", "mode": "hot", "rows_choice": MOST_ROWS}
MAIN_KERNELS = ("layernorm", "rmsnorm", "add_layernorm", "add_rmsnorm")
MANY = 6  # kernels are more than one wants to see at first


@dataclasses.dataclass
class Column:
    field: str
    title: str
    digits: int = None  # of a number; None: as it is


@dataclasses.dataclass
class Section:
    """A chart with its table."""
    name: str  # of its figure files
    title: str
    text: str
    records: list
    colour: str  # field
    value: str  # field
    value_title: str
    columns: list
    low: str = ""  # fields of the interval
    high: str = ""
    log: bool = False
    band: tuple = ()  # values that are marked
    ignores: tuple = ()  # choices that do not bear on it


def position(order, value):
    return order.index(value) if value in order else len(order)


def sort_key(record):
    """Results as given, then kernels, types, ISAs and levels in their usual order."""
    return (record["result_index"], record["kernel"], record["algorithm"] != "default",
            record["algorithm"], position(DTYPES, record["dtype"]), record["dtype"],
            position(ISAS, record["isa"]), record["isa"], position(LEVELS, record["level"]),
            record["hidden"], record["rows"], record["threads"])


def best_isa(isas):
    return max(isas, key=lambda isa: ISAS.index(isa) if isa in ISAS else -1)


def kernel_name(row):
    return row.kernel if row.algorithm == "default" else f"{row.kernel} {row.algorithm}"


def _base(result_index, label, row):
    """What every record says."""
    return {"result": label, "result_index": result_index, "provider": row.provider,
            "kernel": row.kernel, "algorithm": row.algorithm, "dtype": row.dtype,
            "param_dtype": row.param_dtype, "isa": row.isa, "level": row.level,
            "hidden": row.hidden, "rows": row.rows, "threads": row.threads, "mode": row.mode}


def _percent(record, name, estimate):
    record.update({f"{name}_percent": 100 * estimate.median, "low_percent": 100 * estimate.low,
                   "high_percent": 100 * estimate.high, "coverage": estimate.coverage})


def _mark(records):
    """Where several numbers of rows were measured, the reader chooses: the most
    at each place, or one number. So with the type of gamma and beta: that of the
    rows, or one. In the usual order."""
    most, types = collections.defaultdict(int), collections.defaultdict(set)

    def place(record):
        return tuple(value for name, value in record.items() if name in
                     ("series", "against", *CHOICES, "hidden", "threads", "mode", "provider",
                      "param_dtype"))
    for record in records:
        most[place(record)] = max(most[place(record)], record["rows"])
        types[record["dtype"]].add(record["param_dtype"])
    fewer = {record["rows"] for record in records if record["rows"] < most[place(record)]}
    for record in records:
        own = record["param_dtype"]
        as_rows = own == record["dtype"] or len(types[record["dtype"]]) == 1
        record["params"] = [AS_ROWS] * as_rows + [own]
        record["rows_choice"] = [MOST_ROWS] * (record["rows"] == most[place(record)]) + [
            str(record["rows"])] * (record["rows"] in fewer)
    return sorted(records, key=sort_key)


WHERE = [Column("hidden", "hidden"), Column("level", "level"), Column("isa", "ISA"),
         Column("dtype", "type"), Column("rows", "rows"), Column("threads", "threads"),
         Column("mode", "operands"), Column("result", "machine, commit")]


# ---- The sections ----------------------------------------------------------

def against_name(saving):
    provider = saving.layer.provider
    return saving.layer.algorithm + (f" of {provider}" if provider != saving.rms.provider else "")


def _saving_records(results):
    records = []
    for index, (label, result) in enumerate(results):
        for found in savings.savings(result):
            record = _base(index, label, found.rms)
            record["against"] = against_name(found)
            _percent(record, "saved", found.saving)
            record.update(verdict=found.verdict, processes=found.processes)
            for name, beside in (("rmsnorm", found.rms_copy), ("layernorm", found.layer_copy)):
                record[f"{name}_over_copy"] = beside.median if beside else None
            records.append(record)
    return _mark(records)


SAVED = [Column("kernel", "kernel"), Column("against", "LayerNorm"), *WHERE[:2],
         Column("saved_percent", "saved, %", 1), Column("low_percent", "from, %", 1),
         Column("high_percent", "to, %", 1), Column("verdict", "do 15-20 % hold?"),
         Column("rmsnorm_over_copy", "RMSNorm / copy", 2),
         Column("layernorm_over_copy", "LayerNorm / copy", 2), *WHERE[2:]]


def saving_sections(results):
    records = _saving_records(results)
    yield Section(
        "saving", "What RMSNorm saves",
        "One minus RMSNorm's time over LayerNorm's, interleaved on the same operands. Bars are "
        "intervals of the median over fresh processes; the grey band is the 15-20 % that RMSNorm "
        "is said to save.", records, "isa", "saved_percent", "time saved (%)", SAVED,
        "low_percent", "high_percent", band=tuple(100 * c for c in savings.CLAIM))
    yield Section(
        "against", "Which LayerNorm it is held against",
        "The same saving against each LayerNorm that was measured: a slow rival is easily beaten.",
        records if len({record["against"] for record in records}) > 1 else [], "against",
        "saved_percent", "time saved (%)", SAVED, "low_percent", "high_percent",
        band=tuple(100 * c for c in savings.CLAIM), ignores=("against",))
    yield Section(
        "machines_saving", "The saving, side by side",
        "What RMSNorm saves in each of the results.",
        records if len(results) > 1 else [], "result", "saved_percent", "time saved (%)", SAVED,
        "low_percent", "high_percent", band=tuple(100 * c for c in savings.CLAIM))


def time_records(results):
    """Of a kernel that several files of one result hold, the first counts."""
    records = []
    seen = set()
    for index, (label, result) in enumerate(results):
        for time in savings.times(result):
            row = time.row
            key = (label, reader.key_of(row))
            if row.kernel == "copy" or row.algorithm == "unfused" or key in seen:
                continue
            seen.add(key)
            record = _base(index, label, row)
            record.update(
                series=kernel_name(row), time_ns=time.time.median, low_ns=time.time.low,
                high_ns=time.time.high, ns_per_row=time.time.median / row.rows,
                gigabytes_per_s=row.bytes / time.time.median if row.bytes else None,
                error_ulp=time.error_ulp)
            for name in ("median", "low", "high") if time.against_copy else ():
                record[f"copies_{name}"] = getattr(time.against_copy, name)
            records.append(record)
    return _mark(records)


def time_section(results):
    columns = [Column("series", "kernel"), *WHERE[:4],
               Column("ns_per_row", "ns/row", 1), Column("copies_median", "time / copy", 2),
               Column("copies_low", "from", 2), Column("copies_high", "to", 2),
               Column("gigabytes_per_s", "GB/s", 1), Column("error_ulp", "error, u", 1), *WHERE[4:]]
    return Section(
        "time", "How close each kernel comes to a copy",
        "Time over that of a copy of the same rows, interleaved with it: 1 would be a norm for the "
        "price of moving its operands.", [r for r in time_records(results) if "copies_median" in r],
        "series", "copies_median", "time / copy's time", columns, "copies_low",
        "copies_high", log=True, band=())


def fusion_section(results):
    records = []
    for index, (label, result) in enumerate(results):
        for found in savings.fusions(result):
            record = _base(index, label, found.row)
            record["series"] = kernel_name(found.row)
            _percent(record, "saved", found.saving)
            records.append(record)
    return Section(
        "fusion", "What fusion saves",
        "One minus the fused kernel's time over that of the plain kernels that do the same, "
        "interleaved on the same operands.", _mark(records), "series", "saved_percent",
        "time saved (%)", [Column("series", "kernel"), *WHERE[:4],
                           Column("saved_percent", "saved, %", 1),
                           Column("low_percent", "from, %", 1), Column("high_percent", "to, %", 1),
                           *WHERE[4:]], "low_percent", "high_percent")


GAINS = {
    "isa": ("isa", ISAS, "What each ISA gains", "ISA"),
    "dtype": ("dtype", DTYPES, "What each type gains", "type"),
    "threads": ("threads", (1,), "What threads gain", "number of threads"),
    "result": ("machines_time", (), "Machines and commits, side by side", "result"),
}


def gain_section(axis, results):
    """How many times faster a row is done than with the first of an axis."""
    name, order, title, word = GAINS[axis]
    times = time_records(results)
    values = list(dict.fromkeys(record[axis] for record in times))
    values.sort(key=lambda value: position(order, value))
    base = values[0] if values else None
    records = gain_records(times, axis, base) if len(values) > 1 else []
    return Section(
        name, title, f"How many times as fast a row is done as with {word} {base}. These times "
        "were not interleaved: a few per cent tell nothing.",
        records, axis, "times_as_fast", "times as fast",
        [Column("series", "kernel"), *WHERE[:4], Column("times_as_fast", "times as fast", 2),
         Column("ns_per_row", "ns/row", 1), *WHERE[4:]], log=True, ignores=(axis,))


def gain_records(records, axis, base):
    """By the same rows where there are such, else by the only ones at that
    level: the rows that fill it differ by type and by threads."""
    def rest(record):
        same = ("result", "series", "provider", "dtype", "isa", "hidden", "threads", "level", "mode")
        return tuple(record[name] for name in same if name != axis)
    bases = collections.defaultdict(list)
    for record in records:
        if record[axis] == base:
            bases[rest(record)].append(record)
    found = []
    for record in records:
        here = bases[rest(record)] if record[axis] != base else []
        same = [other for other in here if other["rows"] == record["rows"]]
        if len(same or here) == 1:
            gain = (same or here)[0]["ns_per_row"] / record["ns_per_row"]
            found.append({**record, "times_as_fast": gain})
    return found


def choices(found):
    """{field: its texts}, of the fields with a choice in these sections."""
    texts = {}
    records = sorted((record for section in found for record in section.records),
                     key=lambda record: record["result_index"])
    for field in FIELDS:
        values = [record[field] for record in records if field in record]
        if all(isinstance(value, list) and value[0] == PREFERRED[field] for value in values):
            continue  # the usual is all there is
        values = [v for value in values for v in (value if isinstance(value, list) else [value])]
        order = {"dtype": DTYPES, "isa": ISAS, "level": LEVELS, "rows_choice": (MOST_ROWS,),
                 "params": (AS_ROWS,)}
        distinct = sorted(dict.fromkeys(values), key=lambda v: position(order.get(field, ()), v))
        if len(distinct) > 1:
            texts[field] = [str(value) for value in distinct]
    return texts


def first_choice(field, texts):
    """What is chosen to begin with."""
    if field in PREFERRED:
        return [PREFERRED[field] if PREFERRED[field] in texts else texts[0]]
    if field == "kernel" and len(texts) > MANY:
        return [text for text in texts if text in MAIN_KERNELS] or texts
    return texts


def passes(record, chosen, ignored=()):
    """Is the record left by what is chosen? page.js does the same."""
    for field, texts in chosen.items():
        if field in ignored or field not in record:
            continue
        own = record[field]
        if not set(own if isinstance(own, list) else [str(own)]) & set(texts):
            return False
    return True


def sections(results):
    """Those that the results have something for. `results`: (label, Result)."""
    found = [*saving_sections(results), time_section(results), gain_section("isa", results),
             gain_section("dtype", results), gain_section("threads", results),
             fusion_section(results), gain_section("result", results)]
    return [section for section in found if section.records]
