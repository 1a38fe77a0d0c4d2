# SPDX-License-Identifier: Apache-2.0
"""What was found, as flat records that charts, tables and downloads share, and what a
reader may choose from."""
import collections
import math

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
HOLDS = ("saves more", "15-20 % holds", "saves less", "cannot tell")
MAIN_KERNELS = ("layernorm", "rmsnorm", "add_layernorm", "add_rmsnorm")
MANY = 6  # kernels are more than one wants to see at first


def position(order, value):
    return order.index(value) if value in order else len(order)


def by_series(record):
    """Kernels in their usual order, shapes within them."""
    return (position(MAIN_KERNELS, record["kernel"]), record["kernel"],
            record["algorithm"] != "default", record["algorithm"], *by_panel(record))


def by_panel(record):
    return (record["result_index"], position(DTYPES, record["dtype"]), record["dtype"],
            position(ISAS, record["isa"]), record["isa"], position(LEVELS, record["level"]),
            record["threads"], record["hidden"], record["rows"])


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
    return sorted(records, key=by_series)


def against_name(saving):
    provider = saving.layer.provider
    return saving.layer.algorithm + (f" of {provider}" if provider != saving.rms.provider else "")


def saving_records(results):
    """Where two cells answer the same, the one in which that LayerNorm comes first."""
    records, seen = [], set()
    for index, (label, result) in enumerate(results):
        for found in sorted(savings.savings(result), key=lambda found: found.layer.slot or 0):
            key = (label, reader.key_of(found.rms), reader.key_of(found.layer))
            if key in seen:
                continue
            seen.add(key)
            record = _base(index, label, found.rms)
            record["against"] = against_name(found)
            _percent(record, "saved", found.saving)
            record.update(verdict=found.verdict, processes=found.processes)
            for name, beside, share in (("rmsnorm", found.rms_copy, found.rms_share),
                                        ("layernorm", found.layer_copy, found.layer_share)):
                record[f"{name}_over_copy"] = beside.median if beside else None
                record[f"{name}_share"] = None if math.isnan(share) else share
            records.append(record)
    return _mark(records)


def time_records(results):
    """Of a kernel that several files of one result hold, the first counts."""
    records = []
    seen = set()
    for index, (label, result) in enumerate(results):
        limits = result.limits()
        for time in savings.times(result):
            row = time.row
            key = (label, reader.key_of(row))
            if row.kernel == "copy" or row.algorithm == "unfused" or key in seen:
                continue
            seen.add(key)
            record = _base(index, label, row)
            limit = limits.get((reader.cell_name(row), row.level))
            if limit:
                record.update(limit_ns=limit["limit_ns"], limited_by=limit["limited_by"],
                              share_of_limit=limit["limit_ns"] / time.time.median)
            record.update(
                series=kernel_name(row), time_ns=time.time.median, low_ns=time.time.low,
                high_ns=time.time.high, ns_per_row=time.time.median / row.rows,
                gigabytes_per_s=row.bytes / time.time.median if row.bytes else None,
                error_ulp=time.error_ulp)
            for name in ("median", "low", "high") if time.against_copy else ():
                record[f"copies_{name}"] = getattr(time.against_copy, name)
            records.append(record)
    return _mark(records)


def _times_as_fast(record, base, axis):
    """ISAs share the copy that is interleaved with each: by way of it the state of
    the machine cancels."""
    if axis == "isa" and "copies_median" in base and "copies_median" in record and \
            base["rows"] == record["rows"]:
        return base["copies_median"] / record["copies_median"]
    return base["ns_per_row"] / record["ns_per_row"]


def gain_records(records, axis, base):
    """By the same rows where there are such, else by the only ones at that
    level: the rows that fill it differ by type and by threads."""
    def rest(record):
        return tuple(record[name] for name in (
            "result", "series", "provider", "dtype", "isa", "hidden", "threads", "level", "mode")
            if name != axis)
    bases = collections.defaultdict(list)
    for record in records:
        if record[axis] == base:
            bases[rest(record)].append(record)
    found = []
    for record in records:
        here = bases[rest(record)] if record[axis] != base else []
        same = [other for other in here if other["rows"] == record["rows"]]
        if len(same or here) == 1:
            gain = _times_as_fast(record, (same or here)[0], axis)
            found.append({**record, "times_as_fast": gain})
    return found


def fusion_records(results):
    records = []
    for index, (label, result) in enumerate(results):
        for found in savings.fusions(result):
            record = _base(index, label, found.row)
            record["series"] = kernel_name(found.row)
            _percent(record, "saved", found.saving)
            records.append(record)
    return _mark(records)


# ---- Choices ---------------------------------------------------------------

def distinct(field, records):
    """The values of a field in their usual order; a list holds several."""
    values = [value for record in records if field in record for value in (
        record[field] if isinstance(record[field], list) else [record[field]])]
    if field == "threads":
        return sorted(set(values))
    order = {"dtype": DTYPES, "isa": ISAS, "level": LEVELS, "rows_choice": (MOST_ROWS,),
             "params": (AS_ROWS,), "kernel": MAIN_KERNELS, "holds": HOLDS}.get(field, ())
    return sorted(dict.fromkeys(values), key=lambda value: position(order, value))


def choices(sections):
    """{field: its texts}, of the fields with a choice in these sections."""
    texts = {}
    records = sorted((record for section in sections for record in section.records),
                     key=lambda record: record["result_index"])
    for field in FIELDS:
        own = [record[field] for record in records if field in record]
        if all(isinstance(value, list) and value[0] == PREFERRED[field] for value in own):
            continue  # the usual is all there is
        values = distinct(field, records)
        if len(values) > 1:
            texts[field] = [str(value) for value in values]
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
