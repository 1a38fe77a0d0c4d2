# SPDX-License-Identifier: Apache-2.0
"""Reads a result of normbench: the CSV and the machine file beside it, as
results/README.md describes them.

What is broken is refused with file, line and column. Columns that came later
may be missing, and unknown ones are kept aside (`Row.extra`), so that older and
newer results can be read alike.
"""
import collections
import csv
import io
import json
import math
import os
import re

SCHEMA = 1  # the newest that is understood

# What tells one row's kernel and shape from another's.
KEY = ("provider", "kernel", "algorithm", "dtype", "param_dtype", "isa", "rows", "hidden",
       "threads", "level", "mode")
# The same in every row of a file.
RUN = ("run_id", "machine", "commit", "compiler")
RUN_LATER = ("started_utc", "cpu")
NEEDED = KEY + RUN + ("process", "time_ns", "pair", "status")
COUNTS = ("rows", "hidden", "threads")
INDICES = ("process", "repetition", "pair", "slot")
AMOUNTS = ("working_set_bytes", "iterations", "bytes", "flops", "error_ulp")
OBSERVED = ("process", "repetition", "pair", "slot", "time_ns", "status") + AMOUNTS

Row = collections.namedtuple("Row", ("line",) + KEY + OBSERVED + ("extra",))
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


class InputError(Exception):
    """Says file, line and column where there are any."""


class Incomplete(InputError):
    """What `allow_incomplete` lets pass."""


class Result:
    """One run. `machine_file` is empty if there is none (only when told)."""

    def __init__(self, path):
        self.path = path
        self.rows = []
        self.run_id = self.machine = self.commit = self.compiler = None
        self.started_utc = self.cpu = ""
        self.machine_file = {}
        self.notes = []  # what was overlooked because the caller said so

    def limits(self):
        """{(name of a cell, level): the cell in the machine file}, of those with a limit."""
        return {(cell["name"], cell.get("level") or ""): cell
                for cell in self.machine_file.get("cells", []) if cell.get("limit_ns")}

    def groups(self):
        """Rows that were interleaved with one another: only those may be
        divided by one another. They stand together in the file, slot by slot;
        their keys do not tell, since copies of several pairs may be alike."""
        group = []
        for row in self.rows:
            if row.pair is None or row.status != "ok":
                continue
            if group and not _continues(group[-1], row):
                yield group
                group = []
            group.append(row)
        if group:
            yield group


def _place(row):
    return (row.process, row.pair, row.repetition, row.rows, row.hidden, row.threads, row.level,
            row.mode)


def _continues(last, row):
    rising = None in (last.slot, row.slot) or row.slot > last.slot
    return rising and _place(last) == _place(row)


def key_of(row):
    """The part of a row that KEY names."""
    return row[1:1 + len(KEY)]


def cell_name(row):
    """As the machine file has it."""
    return (f"{row.kernel}/algorithm:{row.algorithm}/dtype:{row.dtype}/isa:{row.isa}"
            f"/rows:{row.rows}/hidden:{row.hidden}" +
            (f"/threads:{row.threads}" if row.threads > 1 else ""))


# ---- The CSV ---------------------------------------------------------------

class _Columns:
    """Parses the fields of a line by their names in the header."""

    def __init__(self, path, header):
        self.path, self.header = path, header
        for name in NEEDED:
            if name not in header:
                raise InputError(f"{path}:1: there is no column '{name}'")
        for name, count in collections.Counter(header).items():
            if count > 1:
                raise InputError(f"{path}:1: column '{name}' stands there {count} times")
        self.index = {name: i for i, name in enumerate(header)}
        known = set(Row._fields) | set(RUN) | set(RUN_LATER) | {"schema"}
        self.extra = [name for name in header if name not in known]
        self.texts = {}  # one copy of each text

    def blame(self, line, name, text, what):
        column = self.index[name] + 1
        raise InputError(f"{self.path}:{line}: column {column} ({name}): '{text}' {what}")

    def text(self, fields, name):
        """Empty where the column came later than the file."""
        i = self.index.get(name)
        return self.texts.setdefault(fields[i], fields[i]) if i is not None else ""

    def number(self, line, fields, name, positive):
        """A finite number, above 0 or from 0 on."""
        text = fields[self.index[name]]
        value = float(text) if NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            self.blame(line, name, text, f"is no number {'above 0' if positive else 'from 0 on'}")
        return value

    def whole(self, line, fields, name, positive):
        text = fields[self.index[name]]
        value = int(text) if text.isascii() and text.isdigit() else -1
        if value < 0 or (positive and value == 0):
            self.blame(line, name, text,
                       f"is no whole number {'above 0' if positive else 'from 0 on'}")
        return value

    def row(self, line, fields):
        """None for what is absent."""
        if len(fields) != len(self.header):
            raise InputError(f"{self.path}:{line}: {len(fields)} fields, the header has "
                             f"{len(self.header)}")
        values = {"line": line, "extra": {name: self.text(fields, name) for name in self.extra},
                  "status": self.text(fields, "status"), "time_ns": None}
        for name in KEY:
            values[name] = (self.whole(line, fields, name, True) if name in COUNTS else
                            self.text(fields, name))
        for name in INDICES:
            absent = name != "process" and self.text(fields, name) == ""
            values[name] = None if absent else self.whole(line, fields, name, False)
        for name in AMOUNTS:
            text = self.text(fields, name)
            values[name] = (None if text == "" else
                            math.inf if name == "error_ulp" and text == "inf" else
                            self.number(line, fields, name, False))
        if values["status"] == "ok":
            values["time_ns"] = self.number(line, fields, "time_ns", True)
        return Row(**values)


def _records(path, allow_incomplete, notes):
    """Line number and fields of each record, the header first."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not text:
        raise InputError(f"{path}:1: the file is empty")
    if not text.endswith("\n") and allow_incomplete:
        text = text[:text.rfind("\n") + 1]
        notes.append(f"{path}: the last line was cut off and is left out")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{line}: {error}") from error
    if not text.endswith("\n"):
        raise Incomplete(f"{path}:{line - 1}: the line has no end: the file was cut off")


def _check_schema(columns, line, fields):
    if "schema" not in columns.index:
        return
    if columns.whole(line, fields, "schema", True) > SCHEMA:
        columns.blame(line, "schema", columns.text(fields, "schema"),
                      f"is newer than {SCHEMA}, the newest that this script understands: take "
                      "that of the commit that measured")


def _take_run(result, columns, line, fields):
    """What the rows of a file share."""
    for name in RUN + RUN_LATER:
        text = columns.text(fields, name)
        if result.rows and getattr(result, name) != text:
            columns.blame(line, name, text, f"the lines before have '{getattr(result, name)}'")
        setattr(result, name, text)


def read_csv(path, allow_incomplete=False):
    """The observations, without a look at the machine file."""
    result = Result(path)
    records = _records(path, allow_incomplete, result.notes)
    _, header = next(records, (1, []))
    columns = _Columns(path, header)
    for line, fields in records:
        row = columns.row(line, fields)
        _check_schema(columns, line, fields)
        _take_run(result, columns, line, fields)
        result.rows.append(row)
    if not result.rows:
        raise InputError(f"{path}:2: a header and no rows")
    return result


# ---- The machine file ------------------------------------------------------

def machine_path(path):
    return os.path.splitext(path)[0] + ".json"


FIELDS = {"command": str, "arguments": list, "machine": dict, "build": dict, "providers": list,
          "cells": list}


def _check_fields(machine):
    """What readers go through has the form that results/README.md gives it."""
    for name, kind in FIELDS.items():
        if not isinstance(machine.get(name, kind()), kind):
            raise ValueError(f"'{name}' is no {kind.__name__}")
    for cell in machine.get("cells", []):
        limit = cell.get("limit_ns") if isinstance(cell, dict) else None
        if not isinstance(cell, dict) or not isinstance(cell.get("name"), str) or \
                not (limit is None or isinstance(limit, (int, float)) and limit > 0):
            raise ValueError(f"a cell is {json.dumps(cell)}")


def _read_machine_file(result, allow_incomplete):
    """A result without its machine file, or an interrupted one, is none."""
    path = machine_path(result.path)
    try:
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
        complete, run_id = machine["complete"], machine["run_id"]
        _check_fields(machine)
    except (OSError, ValueError, KeyError, TypeError) as error:
        missing = isinstance(error, FileNotFoundError)
        if allow_incomplete and missing:
            result.notes.append(f"{path}: is missing: what machine this is of is not known")
            return
        raise (Incomplete if missing else InputError)(
            f"{path}: is no machine file ({getattr(error, 'strerror', None) or error}): "
            f"{result.path} is no result without one"
        ) from error
    if run_id != result.run_id:
        raise InputError(f"{path}: is of another run than {result.path}")
    if complete is not True and not allow_incomplete:
        raise Incomplete(f"{path}: says that the run is incomplete")
    if complete is not True:
        result.notes.append(f"{path}: the run is incomplete")
    result.machine_file = machine


def read(path, allow_incomplete=False):
    """A result, whole: the CSV and its machine file. `allow_incomplete` lets an
    interrupted run pass, a cut last line and a missing machine file."""
    result = read_csv(path, allow_incomplete)
    _read_machine_file(result, allow_incomplete)
    return result
