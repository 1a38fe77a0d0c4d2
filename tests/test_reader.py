# SPDX-License-Identifier: Apache-2.0
"""scripts/reporting/reader.py on files that are whole, old, new, cut or broken."""
import csv
import os
import tempfile
import unittest

from made_results import HEADER, observation, store, write_csv, write_machine_file
from reporting import reader


class Reader(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "result.csv")

    def refuse(self, message, kind=reader.InputError, **told):
        with self.assertRaises(kind) as caught:
            reader.read(self.path, **told)
        self.assertIn(message, str(caught.exception))

    def refuse_field(self, name, text):
        store(self.path, [observation("rmsnorm", 1000),
                          observation("rmsnorm", 1000, **{name: text})])
        self.refuse(f"{self.path}:3: column {HEADER.index(name) + 1} ({name}): '{text}' ")

    def test_all_fields(self):
        store(self.path, [observation("rmsnorm", 12.5, pair=3, slot=1, bytes=4096, error_ulp="inf",
                                      working_set_bytes=8192)], machine={"cores": 2})
        result = reader.read(self.path)
        row = result.rows[0]
        self.assertEqual((row.kernel, row.rows, row.hidden, row.time_ns, row.pair, row.slot,
                          row.bytes, row.error_ulp, row.flops, row.line),
                         ("rmsnorm", 32, 768, 12.5, 3, 1, 4096, float("inf"), None, 2))
        self.assertEqual((result.cpu, result.commit, result.notes), ("A CPU", "c0", []))
        self.assertEqual(result.machine_file["machine"]["cores"], 2)

    def test_texts_with_commas_quotes_and_newlines(self):
        cpu = 'Fast "CPU", 3.0 GHz\nsecond line\u2028end'
        store(self.path, [observation("rmsnorm", 1, cpu=cpu), observation("rmsnorm", 2, cpu=cpu)])
        result = reader.read(self.path)
        self.assertEqual(result.cpu, cpu)
        self.assertEqual([row.line for row in result.rows], [2, 4])

    def test_older_results_lack_later_columns(self):
        older = [name for name in HEADER if name in reader.NEEDED]
        store(self.path, [observation("rmsnorm", 5)], header=older)
        row = reader.read(self.path).rows[0]
        self.assertEqual((row.time_ns, row.bytes, row.slot, row.repetition), (5, None, None, None))

    def test_columns_of_tomorrow_are_kept_aside(self):
        store(self.path, [dict(observation("rmsnorm", 5), colour="blue")], HEADER + ["colour"])
        self.assertEqual(reader.read(self.path).rows[0].extra, {"colour": "blue"})

    def test_a_schema_of_tomorrow_is_refused(self):
        store(self.path, [observation("rmsnorm", 5, schema=reader.SCHEMA + 1)])
        self.refuse(f"{self.path}:2: column 1 (schema): '2' is newer")

    def test_a_cut_last_line_is_refused_unless_told(self):
        store(self.path, [observation("rmsnorm", 1000), observation("rmsnorm", 1234)])
        with open(self.path, "rb") as file:
            whole = file.read()
        for cut in (1, 2, 20, 100):
            with open(self.path, "wb") as file:
                file.write(whole[:-cut])
            self.refuse(f"{self.path}:3: ")
            result = reader.read(self.path, allow_incomplete=True)
            self.assertEqual([row.time_ns for row in result.rows], [1000])
            self.assertIn("cut off", result.notes[0])

    def test_incomplete_results_are_refused_unless_told(self):
        write_csv(self.path, [observation("rmsnorm", 5)])
        self.refuse("is no machine file", reader.Incomplete)
        self.assertEqual(len(reader.read(self.path, allow_incomplete=True).notes), 1)
        write_machine_file(self.path, complete=False)
        self.refuse("incomplete", reader.Incomplete)
        self.assertEqual(len(reader.read(self.path, allow_incomplete=True).notes), 1)

    def test_a_wrong_machine_file_is_refused_even_if_told(self):
        write_csv(self.path, [observation("rmsnorm", 5)])
        write_machine_file(self.path, run_id="another")
        self.refuse("is of another run", allow_incomplete=True)
        for text in ("", "{", "[]", '{"complete": true}', *(
                '{"complete": true, "run_id": "run0", ' + field + "}" for field in (
                    '"cells": {}', '"cells": [1]', '"cells": [{"level": "L1"}]', '"machine": []',
                    '"cells": [{"name": "x", "limit_ns": "fast"}]', '"arguments": "--axes"'))):
            with open(reader.machine_path(self.path), "w", encoding="utf-8") as file:
                file.write(text)
            self.refuse("is no machine file", allow_incomplete=True)

    def test_numbers_that_are_none(self):
        for text in ("0", "-5", "nan", "", "abc", "1e400", "inf", "1_0", " 7", "0x1p3", "1,5", "+"):
            self.refuse_field("time_ns", text)
        for text in ("0", "-1", "1.5", "1e3", "", "\u0663"):
            self.refuse_field("hidden", text)
        for text in ("-1", "x", "0.5"):
            self.refuse_field("pair", text)
        for text in ("-1", "x", "nan", "inf"):
            self.refuse_field("bytes", text)
        self.refuse_field("error_ulp", "nan")

    def test_a_failed_row_needs_no_time(self):
        store(self.path, [observation("rmsnorm", "", status="y[0, 0] is wrong")])
        self.assertEqual(reader.read(self.path).rows[0].status, "y[0, 0] is wrong")

    def test_a_file_of_two_runs_is_refused(self):
        for name in reader.RUN + reader.RUN_LATER:
            self.refuse_field(name, "another")

    def test_broken_files(self):
        store(self.path, [observation("rmsnorm", 5)])
        with open(self.path, newline="", encoding="utf-8") as file:
            whole = file.read()
        header, row = whole.splitlines(keepends=True)
        for text, message in (
                ("", ":1: the file is empty"),
                (header, ":2: a header and no rows"),
                ("a,b\r\n1,2\r\n", ":1: there is no column 'provider'"),
                (header.replace("slot", "pair"), ":1: column 'pair' stands there 2 times"),
                (whole + "1,2\r\n", ":3: 2 fields, the header has 29"),
                (whole + "\r\n", ":3: 0 fields"),
                (whole + '1,"run', ":3: "),
                (whole + row.replace("A CPU", '"A" CPU'), ":3: "),
                (whole.encode() + b"\xff\r\n", "cannot read"),
                (whole.encode() + b"\0\r\n", ":3: ")):
            with open(self.path, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
            self.refuse(message)
        os.remove(self.path)
        self.refuse("cannot read")

    def test_pairs_are_told_by_their_place_in_the_file(self):
        """The copy has its own ISA: two pairs may hold copies with equal keys."""
        rows = []
        for isa, copy in (("scalar", 10), ("avx2", 20)):
            rows += [observation("rmsnorm", 100, isa=isa, pair=0, slot=0),
                     observation("copy", copy, isa="avx512", pair=0, slot=1)]
        rows.insert(2, observation("dyt", 1))  # timed alone
        rows.append(observation("dyt", "", pair=0, slot=0, status="wrong"))
        store(self.path, rows)
        self.assertEqual([[(row.isa, row.time_ns) for row in group]
                          for group in reader.read(self.path).groups()],
                         [[("scalar", 100), ("avx512", 10)], [("avx2", 100), ("avx512", 20)]])

    def test_100000_rows(self):
        write_machine_file(self.path)
        row = observation("rmsnorm", 5)
        with open(self.path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            writer.writerows([list(row.values())] * 100000)
        self.assertEqual(len(reader.read(self.path).rows), 100000)


if __name__ == "__main__":
    unittest.main()
