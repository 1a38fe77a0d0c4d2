# SPDX-License-Identifier: Apache-2.0
"""The sections of a report: what each says, draws and lists."""
import dataclasses

from reporting import axes, savings
from reporting import records as recording


@dataclasses.dataclass
class Column:
    field: str
    title: str
    digits: int = None  # of a number; None: as it is


@dataclasses.dataclass
class Section:
    """A chart with its table. Values stand over hidden sizes, or, `across`, beside
    the texts of a field, a line each."""
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
    mark: float = 0  # a value that is marked
    band: tuple = ()  # and values between
    ignores: tuple = ()  # choices that do not bear on it
    across: str = ""


WHERE = [Column("hidden", "hidden"), Column("level", "level"), Column("isa", "ISA"),
         Column("dtype", "type"), Column("rows", "rows"), Column("threads", "threads"),
         Column("mode", "operands"), Column("provider", "provider"),
         Column("param_dtype", "gamma and beta"), Column("result", "machine, commit")]
SAVED = [Column("saved_percent", "saved, %", 1), Column("low_percent", "from, %", 1),
         Column("high_percent", "to, %", 1)]


def saving_section(name, title, text, records, colour, first=(), **other):
    return Section(
        name, title, text, records, colour, "saved_percent", "time saved (%)",
        [*first, Column("kernel", "kernel"), Column("against", "LayerNorm"), *WHERE[:2], *SAVED,
         Column("verdict", "do 15-20 % hold?"), Column("rmsnorm_over_copy", "RMSNorm / copy", 2),
         Column("layernorm_over_copy", "LayerNorm / copy", 2),
         Column("rmsnorm_share", "RMSNorm, share of limit", 2),
         Column("layernorm_share", "LayerNorm, share of limit", 2), *WHERE[2:]],
        "low_percent", "high_percent", band=tuple(100 * part for part in savings.CLAIM), **other)


def saving_sections(results):
    records = recording.saving_records(results)

    def varied(field):
        return records if len({record[field] for record in records}) > 1 else []
    yield saving_section(
        "saving", "What RMSNorm saves",
        "One minus RMSNorm's time over LayerNorm's, interleaved on the same operands. Bars are "
        "intervals of the median over fresh processes; the grey band is the 15-20 % that RMSNorm "
        "is said to save.", records, "isa")
    yield saving_section(
        "axes", "One thing changed at a time",
        "The saving where all is as in the first line but what the line names: size, level, ISA "
        "and so on, each alone.", axes.axis_records(results, records), "holds",
        [Column("axis", "changed")], across="axis", ignores=tuple(
            field for field in recording.FIELDS if field != "result"))
    yield saving_section(
        "against", "Which LayerNorm it is held against",
        "The same saving against each LayerNorm that was measured: a slow rival is easily beaten.",
        varied("against"), "against", ignores=("against",))
    yield saving_section(
        "machines_saving", "The saving, side by side", "What RMSNorm saves in each of the results.",
        varied("result"), "result")


TIMES = [Column("series", "kernel"), *WHERE[:4], Column("ns_per_row", "ns/row", 1)]


def time_sections(times):
    yield Section(
        "limit", "How close each kernel comes to the machine's limit",
        "The share of the least time that the machine allows: slots, operations, lines that enter "
        "L1, bytes that move or the latency of one row, all measured in the same run. 1 is the "
        "best that can be.",
        sorted((time for time in times if "share_of_limit" in time), key=recording.by_panel),
        "series", "share_of_limit", "share of the limit",
        [*TIMES, Column("share_of_limit", "share of limit", 2), Column("limited_by", "limited by"),
         Column("limit_ns", "limit, ns", 1), *WHERE[4:]], mark=1)
    yield Section(
        "time", "How close each kernel comes to a copy",
        "Time over that of a copy of the same rows, interleaved with it: 1 would be a norm for the "
        "price of moving its operands.",
        sorted((time for time in times if "copies_median" in time), key=recording.by_panel),
        "series", "copies_median", "time / copy's time",
        [*TIMES, Column("copies_median", "time / copy", 2), Column("copies_low", "from", 2),
         Column("copies_high", "to", 2), Column("gigabytes_per_s", "GB/s", 1),
         Column("error_ulp", "error, u", 1), *WHERE[4:]],
        "copies_low", "copies_high", log=True, mark=1)


def fusion_section(results):
    return Section(
        "fusion", "What fusion saves",
        "One minus the fused kernel's time over that of the plain kernels that do the same, "
        "interleaved on the same operands.",
        sorted(recording.fusion_records(results), key=recording.by_panel), "series",
        "saved_percent", "time saved (%)", [Column("series", "kernel"), *WHERE[:4], *SAVED,
                                            *WHERE[4:]], "low_percent", "high_percent")


GAINS = {
    "isa": ("isa", "What each ISA gains", "ISA {}", "By way of the copy, the same for all, that "
            "was interleaved with each."),
    "dtype": ("dtype", "What each type gains", "{}", ""),
    "threads": ("threads", "What threads gain", "{} thread(s)", ""),
    "result": ("machines_time", "Machines and commits, side by side", "{}", ""),
}
APART = "These times were not interleaved: a few per cent tell nothing."


def gain_section(axis, times):
    """How many times faster a row is done than with the first of an axis."""
    name, title, words, how = GAINS[axis]
    values = recording.distinct(axis, times)
    base = values[0] if values else None
    return Section(
        name, title, f"How many times as fast a row is done as with {words.format(base)}. "
        f"{how or APART}",
        recording.gain_records(times, axis, base), axis, "times_as_fast", "times as fast",
        [Column("series", "kernel"), *WHERE[:4], Column("times_as_fast", "times as fast", 2),
         Column("ns_per_row", "ns/row", 1), *WHERE[4:]], log=True, mark=1, ignores=(axis,))


def sections(results):
    """Those that the results have something for. `results`: (label, Result)."""
    times = recording.time_records(results)
    found = [*saving_sections(results), *time_sections(times), gain_section("isa", times),
             gain_section("dtype", times), gain_section("threads", times),
             fusion_section(results), gain_section("result", times)]
    return [section for section in found if section.records]
