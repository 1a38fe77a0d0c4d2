# SPDX-License-Identifier: Apache-2.0
"""What the page that answers is about: which cells of which results."""
import csv
import os

from reporting import claims
from reporting.reader import InputError

# isa.def, the best of a family last.
ISAS = {"scalar": "scalar code", "neon": "NEON", "avx2": "AVX2", "avx512": "AVX-512"}
USUAL_ROWS = (1, 8, 32)  # the axis of rows in bench/claim_axes.c
PLAIN, FUSED = ("layernorm", "rmsnorm"), ("add_layernorm", "add_rmsnorm")


class Answers:
    """The results by their kind, and the cells that the questions need of them. Each section
    of the page is of one result: no table mixes commits."""

    def __init__(self, results):
        self.results = results
        self.of = {}  # kind -> {place: cell}
        for result in results:
            asked = kind(result)
            if asked in self.of:
                raise InputError(f"{result.path}: another file answers `normbench claim {asked}` "
                                 "already: give one of each kind")
            self.of[asked] = claims.cells(result)
        self.counts = Counts(next((r for r in results if kind(r) == "--meanings"), None))
        self.table = self.of.get("", self.of.get("--axes"))
        if not self.table:
            raise InputError("no sweep among the files: measure by `normbench claim --out`")
        self.isa = self._best_isa()
        self.main = self._main()
        self.base = self.base_of(self.table)

    def _best_isa(self):
        isas = {p.isa for p in self.table if p.provider == "normkernels" and p.dtype == "f32"}
        if not isas:
            raise InputError("no cell of normkernels in f32")
        return max(isas, key=lambda isa: [*ISAS, isa].index(isa))

    def usual(self, place):
        """A cell of the table: the best of ours, in all but hidden size and level."""
        return (place.provider, place.kernels, place.training, place.algorithm, place.dtype,
                place.isa, place.mode, place.threads) == (
                    "normkernels", PLAIN, False, "default", "f32", self.isa, "hot", 1)

    def _main(self):
        """{(hidden, level): cell}, with the rows that fill the level."""
        found = {}
        for place, cell in self.table.items():
            key = (place.hidden, place.level)
            if self.usual(place) and place.level:
                found[key] = max(found.get(key, cell), cell, key=lambda c: fill(c.place))
        if not found:
            raise InputError(f"no cell of layernorm and rmsnorm, f32, {self.isa}, hot, one thread")
        return found

    def base_of(self, cells):
        """The base of the axes, else the cell that is most like it; None if there is none."""
        def unlike(place):
            return place.level != "L2", abs(place.hidden - 4096), not fill(place)[0], -place.rows
        places = sorted(filter(self.usual, cells), key=unlike)
        return cells[places[0]] if places else None


def kind(result):
    """The option that chooses the question; empty for the sweep."""
    options = [argument.split("=")[0] for argument in arguments(result)]
    return next((k for k in ("--axes", "--meanings", "--model") if k in options), "")


def fill(place):
    """Orders cells of one level by how they fill it; those of the axis of rows come last."""
    return place.rows not in USUAL_ROWS, place.rows


def arguments(result):
    return result.machine_file.get("arguments", [])


class Counts:
    """What `normbench claim --meanings` counted, in a file beside its CSV."""

    def __init__(self, result):
        path = result and os.path.splitext(result.path)[0] + "-counts.csv"
        self.path, self.rows = path, {}
        if path:
            self._read(path)

    def _read(self, path):
        try:
            with open(path, newline="", encoding="utf-8") as file:
                for line, row in enumerate(csv.DictReader(file, strict=True), 2):
                    key = (row["provider"], row["kernel"], row["algorithm"], row["dtype"],
                           row["isa"], int(row["rows"]), int(row["hidden"]))
                    self.rows[key] = {name: int(row[name]) for name in ("instructions", "flops")}
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}:{line}: is no row of counts ({error})") from error

    def pair(self, place, what):
        """LayerNorm's and RMSNorm's; None where one was not counted."""
        tail = (place.dtype, place.isa, place.rows, place.hidden)
        layer = self.rows.get((place.provider, place.kernels[0], place.algorithm) + tail)
        rms = self.rows.get((place.provider, place.kernels[1], "default") + tail)
        return (layer[what], rms[what]) if layer and rms else None

    def saving(self, place, what):
        both = self.pair(place, what)
        return 1 - both[1] / both[0] if both else None
