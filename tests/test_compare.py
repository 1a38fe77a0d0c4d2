# SPDX-License-Identifier: Apache-2.0
"""scripts/compare.py on results that are made up: what is slower, missing, new,
creeping, broken, or cannot be compared."""
import contextlib
import io
import os
import random
import sys
import tempfile
import unittest
from unittest import mock

import made_results
from made_results import HEADER
import compare

SEED = 20


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.random = random.Random(SEED)
        self.runs = 0

    def observation(self, kernel, time, repetition, **other):
        return made_results.observation(kernel, time, **{
            "repetition": repetition, "commit": f"c{self.runs}", "run_id": f"run{self.runs}",
            **other})

    def store(self, rows, complete=True):
        """A CSV and its machine file; returns the path."""
        path = os.path.join(self.folder.name, f"{self.runs}.csv")
        self.runs += 1
        return made_results.store(path, rows, complete=complete)

    def run_of(self, factor=1.0, noise=0.001, kernels=("rmsnorm", "layernorm", "copy2"),
               repetitions=12, slow="rmsnorm", **other):
        """A run in which `slow` takes `factor` times as long."""
        return self.store([
            self.observation(kernel, 1000 * (factor if kernel == slow else 1) *
                             (1 + self.random.gauss(0, noise)), n, **other)
            for kernel in kernels for n in range(repetitions)])

    def compare(self, *arguments):
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["compare.py", *arguments]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = compare.main()
            except SystemExit as end:  # argparse
                status = end.code
        return status, said.getvalue()

    def expect(self, status, text, *arguments):
        got, said = self.compare(*arguments)
        self.assertEqual((got, text in said), (status, True), said)
        return said

    # ---- Two runs

    def test_equal_runs_pass(self):
        said = self.expect(0, "3 rows in both", self.run_of(), self.run_of())
        self.assertIn("0 slower, 0 faster", said)
        self.assertNotIn("repeat more", said)

    def test_a_slow_down_fails(self):
        old = self.run_of()
        said = self.expect(1, "SLOWER", old, self.run_of(1.10))
        self.assertRegex(said, r"rmsnorm f32 avx2 32x768 .*\+(9\.\d|10\.\d) % .*SLOWER")
        self.expect(0, "1 faster", self.run_of(1.10), old)

    def test_within_the_margin_it_passes(self):
        old, new = self.run_of(), self.run_of(1.05)
        self.expect(0, "0 slower", old, new, "--margin", "8")
        self.expect(1, "1 slower", old, new, "--margin", "2")

    def test_noise_is_not_cried(self):
        old, new = self.run_of(noise=0.2), self.run_of(1.10, noise=0.2)
        said = self.expect(0, "cannot tell", old, new)
        self.assertIn("that is more than the margin", said)

    def test_one_observation_tells_nothing(self):
        old, new = self.run_of(repetitions=1), self.run_of(2.0, repetitions=1)
        self.expect(0, "can tell a change of nothing", old, new)

    def test_processes_repeat_not_repetitions(self):
        """Six processes that differ by 10 % hide 5 %, however exact each is."""
        def biased(factor):
            return self.store([
                self.observation("rmsnorm", 1000 * factor * (1 + 0.02 * process), n, process=process)
                for process in range(6) for n in range(50)])
        self.expect(0, "cannot tell", biased(1), biased(1.05))

    def test_all_rows_slower_is_slower(self):
        """A machine that runs slowly is no excuse; --against-copy takes it out."""
        def paired(factor):
            rows = []
            for n in range(12):
                noise = 1 + self.random.gauss(0, 0.001)
                rows += [self.observation("rmsnorm", 2000 * factor, n, pair=n, slot=0),
                         self.observation("copy", 1000 * factor * noise, n, pair=n, slot=1)]
            return self.store(rows)
        old, new = paired(1), paired(1.2)
        self.expect(1, "1 slower", old, new)
        said = self.expect(0, "0 slower", old, new, "--against-copy", "--all")
        self.assertIn("old x copy", said)
        self.expect(2, "no observation is paired", self.run_of(), self.run_of(), "--against-copy")

    def test_missing_rows_fail_and_new_ones_are_listed(self):
        old = self.run_of(kernels=("rmsnorm", "layernorm"))
        new = self.run_of(kernels=("rmsnorm", "dyt"))
        said = self.expect(1, "missing from", old, new)
        self.assertRegex(said, r"missing from .*: layernorm f32 avx2 32x768")
        self.assertRegex(said, r"new in .*: dyt f32 avx2 32x768")

    def test_a_failed_row_is_missing_with_its_reason(self):
        old = self.run_of(kernels=("rmsnorm", "layernorm"))
        new = self.store([self.observation("rmsnorm", 1000, 0), self.observation("rmsnorm", 1001, 1),
                          self.observation("layernorm", "", 0, status="y[0, 0] is wrong")])
        self.expect(1, "layernorm f32 avx2 32x768: y[0, 0] is wrong", old, new)

    # ---- A series

    def test_a_creep_over_ten_commits_is_found(self):
        """0.6 % at a time: no step is seen by itself."""
        files = [self.run_of(1 + 0.006 * n, noise=0.002) for n in range(10)]
        for old, new in zip(files, files[1:]):
            self.expect(0, "0 slower", old, new, "--margin", "2")
        said = self.expect(1, "changed at", *files, "--margin", "2")
        self.assertRegex(said, r"rmsnorm f32 avx2 32x768 +c\d +\+\d\.\d % +SLOWER")
        self.assertNotRegex(said, r"layernorm.*SLOWER")

    def test_the_commit_of_a_step_is_named(self):
        files = [self.run_of(1.08 if n >= 6 else 1) for n in range(12)]
        said = self.expect(1, "changed at", *files)
        self.assertRegex(said, r"rmsnorm f32 avx2 32x768 +c6 +\+(7\.\d|8\.\d) % +SLOWER")

    def test_a_series_without_change_has_no_change_points(self):
        files = [self.run_of(noise=0.01) for _ in range(12)]
        self.expect(0, "0 change points", *files)

    def test_a_short_series_says_so(self):
        self.expect(0, "too few to find change points", *[self.run_of() for _ in range(4)])

    # ---- What cannot be compared

    def test_unlike_machines_are_refused(self):
        old, new = self.run_of(), self.run_of(machine="bbbbbbbb")
        self.expect(2, "unlike machines: aaaaaaaa", old, new)
        self.expect(0, "machine: aaaaaaaa -> bbbbbbbb", old, new, "--allow-machines")

    def test_incomplete_files_are_refused(self):
        rows = [self.observation("rmsnorm", 1000 + n, n) for n in range(5)]
        old = self.store(rows)
        new = self.store([dict(row, run_id="run1") for row in rows], complete=False)
        self.expect(2, "incomplete", old, new)
        self.expect(0, "1 rows in both", old, new, "--allow-incomplete")
        os.remove(new[:-3] + "json")
        self.expect(2, "is no machine file", old, new)
        self.expect(0, "1 rows in both", old, new, "--allow-incomplete")

    def test_the_machine_file_of_another_run_is_refused(self):
        old, new = self.run_of(), self.run_of()
        os.replace(old[:-3] + "json", new[:-3] + "json")
        self.expect(2, "is of another run", new, new)

    def test_no_common_rows(self):
        self.expect(2, "no rows in common", self.run_of(kernels=("rmsnorm",)),
                    self.run_of(kernels=("dyt",)))

    def test_usage(self):
        file = self.run_of()
        self.expect(2, "two files", file)
        self.expect(2, "no percentage", file, file, "--margin", "nan")
        self.expect(2, "no percentage", file, file, "--margin=-1")
        self.expect(2, "cannot read", file, file + ".nowhere")

    def test_broken_times_are_named_by_line_and_column(self):
        old = self.run_of()
        column = HEADER.index("time_ns") + 1
        for text in ("0", "-5", "nan", "", "abc", "1e400", "inf"):
            new = self.store([self.observation("rmsnorm", 1000, 0),
                              self.observation("rmsnorm", text, 1)])
            self.expect(2, f"{new}:3: column {column} (time_ns): '{text}'", old, new)

    def test_broken_files_are_named(self):
        old = self.run_of()
        with open(old, newline="") as file:
            whole = file.read()
        cases = (
            ("", ":1: the file is empty"),
            (whole.splitlines(keepends=True)[0], ":2: a header and no rows"),
            ("a,b\r\n1,2\r\n", ":1: there is no column 'provider'"),
            (whole[:-2], ": the line has no end"),
            (whole[:-40], " fields, the header has 29"),
            (whole + '1,"run', "unexpected end of data"),
            (whole.replace("run0", "run9", 1), ":3: column 2 (run_id): 'run0'"),
        )
        for text, message in cases:
            path = os.path.join(self.folder.name, "broken.csv")
            with open(path, "w", newline="") as file:
                file.write(text)
            self.expect(2, message, old, path)


if __name__ == "__main__":
    unittest.main()
