# SPDX-License-Identifier: Apache-2.0
"""scripts/contribute.py: what it takes in, and each thing for which it does not."""
import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

from made_results import MACHINE, claim_rows, observation, store
import contribute
from reporting import reader

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
COMMIT = "0123456789ab"
BUILD = {"commit": COMMIT, "compiler": "gcc", "options": "buildtype=release sanitize=none"}


class Contribute(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.into = os.path.join(self.folder, "results")
        self.path = os.path.join(self.folder, "mine.csv")

    def rows(self, **other):
        return claim_rows([0.1], **{"commit": COMMIT, **other})

    def store(self, rows=None, path=None, **machine):
        rows = rows or self.rows()
        cells = [{"name": reader.cell_name(row)} for row in map(
            reader.Row._make, [self.as_read(row) for row in rows[:4]])]
        return store(path or self.path, rows, **{
            "command": "claim", "arguments": [], "machine": MACHINE, "build": BUILD,
            "started_utc": "2026-01-01T00:00:00Z", "cells": cells, **machine})

    @staticmethod
    def as_read(row):
        return [row.get(name) for name in reader.Row._fields]

    def contribute(self, *arguments):
        said = io.StringIO()
        with mock.patch("sys.argv", ["contribute.py", "--into", self.into, *arguments]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = contribute.main()
            except SystemExit as end:
                status = end.code
        return status, said.getvalue()

    def expect(self, status, text, *arguments):
        got, said = self.contribute(*(arguments or [self.path]))
        self.assertEqual((got, text in said), (status, True), said)

    def test_a_good_result_gets_its_place(self):
        self.store()
        self.expect(0, "aaaaaaaa), 72 rows, commit 0123456789ab: good")
        place = os.path.join(self.into, "aaaaaaaa", "2026-01-01-0123456")
        for end in (".csv", ".json"):
            with open(place + end, "rb") as there, open(self.path[:-4] + end, "rb") as here:
                self.assertEqual(there.read(), here.read())
        self.expect(0, "good", place + ".csv")
        self.assertEqual(len(os.listdir(os.path.dirname(place))), 2)

    def test_a_check_copies_nothing(self):
        self.store()
        self.expect(0, "good", "--check", self.path)
        self.assertFalse(os.path.exists(self.into))

    def test_without_files_all_that_lie_there_are_checked(self):
        self.assertEqual(self.contribute(), (2, f"contribute.py: {self.into}: there are no results\n"))
        self.store()
        self.expect(0, "good")
        place = os.path.join(self.into, "aaaaaaaa", "bad.csv")
        self.store(self.rows(processes=5, run_id="run1"), path=place)
        with open(os.path.join(self.into, "aaaaaaaa", "counts.csv"), "w", encoding="utf-8") as file:
            file.write("what,count\r\n")
        said = self.contribute("--check")
        self.assertEqual((said[0], said[1].count("good"), "a claim of 5 processes" in said[1]),
                         (1, 1, True), said)

    def test_the_same_run_is_not_taken_twice(self):
        self.store()
        self.expect(0, "good")
        self.expect(2, "is the same run")

    def test_another_run_of_the_day_needs_a_name(self):
        self.store()
        self.expect(0, "good")
        self.store(self.rows(run_id="run1"))
        self.expect(2, "is there already")
        self.expect(0, "2026-01-01-0123456-again.csv", "--name", "again", self.path)
        self.expect(2, "--name", "--name", "../x", self.path)

    def test_what_does_not_hold(self):
        good = self.rows()

        def last(**other):
            return good + [observation("dyt", 5, **{"commit": COMMIT, "error_ulp": 1, **other})]
        for rows, machine, problem in (
                (last(error_ulp=""), {}, "dyt default f32 avx2 of normkernels was timed and not checked"),
                (last(error_ulp=8.1), {}, "is off by more than 8 u (1 rows)"),
                (last(error_ulp="inf"), {}, "is off by more than 8 u"),
                (last(error_ulp=65, algorithm="fast"), {}, "is off by more than 64 u"),
                (last(error_ulp=65, provider="mine"), {}, "is off by more than 64 u"),
                (last(time_ns="", status="y[0, 0] is off"), {}, "failed its check: y[0, 0] is off"),
                (None, {"cells": [{"name": "dyt/lost"}]}, "dyt/lost has no row"),
                (None, {"cells": []}, "lists no cells"),
                (None, {"command": "ab"}, "results are those of claim and run"),
                (self.rows(processes=5), {}, "a claim of 5 processes"),
                (None, {"machine": {**MACHINE, "hash": "bbbbbbbb"}}, "'bbbbbbbb' in the machine file"),
                (None, {"machine": {**MACHINE, "cpu": None}}, "CPU: 'A CPU' in the CSV"),
                (self.rows(machine="my-host"), {}, "'my-host' is no hash of a machine"),
                (None, {"build": {**BUILD, "commit": "ffffffffffff"}}, "commit: '0123456789ab' in the"),
                (None, {"build": {**BUILD, "options": "buildtype=debug sanitize=none"}},
                 "'buildtype=debug sanitize=none': measure with"),
                (self.rows(commit=COMMIT + "-dirty"), {}, "measure an unchanged commit"),
                (self.rows(started_utc="../../x"), {}, "is no time of its start")):
            self.store(rows, **machine)
            self.expect(1, problem)
        self.assertFalse(os.path.exists(self.into))

    def test_cells_that_stayed_empty_need_no_row(self):
        self.store(cells=[{"name": "rmsnorm/x", "skipped": "a row takes 64K"},
                          {"name": "rmsnorm/algorithm:default/dtype:f32/isa:avx2/rows:32/hidden:768"}])
        self.expect(0, "good")

    def test_what_is_no_whole_result(self):
        self.store(complete=False)
        self.expect(2, "incomplete")
        self.store()
        os.remove(reader.machine_path(self.path))
        self.expect(2, "is no machine file")
        self.store()
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("1,cut")
        self.expect(2, f"{self.path}:74: ")

    def test_every_stored_result_holds(self):
        checked = 0
        for path in contribute.stored(os.path.join(SOURCE, "results")):
            result = reader.read(path)
            self.assertEqual(contribute.problems(result), [], path)
            self.assertEqual(os.path.basename(os.path.dirname(path)), result.machine)
            checked += 1
        self.assertTrue(checked)


if __name__ == "__main__":
    unittest.main()
