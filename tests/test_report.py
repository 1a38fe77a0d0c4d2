# SPDX-License-Identifier: Apache-2.0
"""scripts/report.py: the numbers on the page are those of the CSV, the words follow
from them, and what is no result is refused. test_page.py looks at it in a browser."""
import contextlib
import csv
import glob
import html
import html.parser
import io
import json
import os
import re
import statistics
import tempfile
import unittest
import urllib.parse
from unittest import mock
from xml.etree import ElementTree


from made_results import claim_rows, observation, store, store_claim
import report
from reporting import page, reader, records, savings, sections

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
try:
    import vl_convert  # charts.py says where it may lie
except ImportError:
    vl_convert = None
draws = unittest.skipUnless(vl_convert, "vl-convert-python is not installed")


PLACE = ("hidden", "level", "isa", "dtype", "rows", "provider", "param_dtype", "threads", "mode")


def savings_of(path):
    """{PLACE and LayerNorm's algorithm: (median, low, high)} per cent, from the CSV alone, as
    results/README.md describes it; for six processes, of the kernels of one provider. What
    several cells of a file hold is left out: a key does not tell which is meant."""
    pairs = []  # the rows of each, which begin with slot 0
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["pair"] and row["status"] == "ok":
                if row["slot"] == "0":
                    pairs.append([])
                pairs[-1].append(row)
    times = {}
    for pair in pairs:
        rms = [row for row in pair if row["kernel"] == "rmsnorm"]
        cell = tuple((row["kernel"], row["algorithm"]) for row in pair)
        for row in pair:
            if row["kernel"] == "layernorm" and rms:
                key = tuple(row[name] for name in PLACE) + (row["algorithm"],)
                times.setdefault(key, {}).setdefault(cell, {}).setdefault(
                    row["process"], []).append(float(rms[0]["time_ns"]) / float(row["time_ns"]))
    found = {}
    for key, cells in times.items():
        if len(cells) == 1:
            medians = [statistics.median(ratios) for ratios in next(iter(cells.values())).values()]
            found[key] = tuple(100 * (1 - ratio) for ratio in (
                statistics.median(medians), max(medians), min(medians)))
    return found


class Tables(html.parser.HTMLParser):
    """The tables of the page by section: rows of {column: number or text}."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.section, self.titles, self.cells = {}, None, [], None
        self.data = self.value = None
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "section":
            self.section = attributes.get("id")
        elif tag == "a":
            self.links.append(attributes["href"])
        elif tag == "thead":
            self.titles = []
        elif tag == "tr":
            self.cells = []
        elif tag in ("td", "th"):
            self.data, self.value = "", attributes.get("data-value")

    def handle_data(self, data):
        if self.data is not None:
            self.data += data

    def handle_endtag(self, tag):
        if tag == "th" and self.data is not None:
            self.titles.append(self.data)
        elif tag == "td":
            self.cells.append(self.data if self.value is None else float(self.value))
        elif tag == "tr" and self.section and self.cells:
            self.tables.setdefault(self.section, []).append(dict(zip(self.titles, self.cells)))
        if tag in ("td", "th"):
            self.data = None


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = self.file("result.csv")
        self.out = self.file("page.html")

    def file(self, name):
        return os.path.join(self.folder, name)

    def report(self, *arguments):
        said = io.StringIO()
        with mock.patch("sys.argv", ["report.py", *arguments]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = report.main()
            except SystemExit as end:
                status = end.code
        return status, said.getvalue()

    def refuse(self, status, text, *arguments):
        got, said = self.report(*arguments)
        self.assertEqual((got, text in said), (status, True), said)

    def render(self, *paths):
        """The page without the charts' library."""
        results = report.read(paths or [self.path], False)
        return page.render(results, sections.sections(results), "")

    def saving_rows(self, text):
        """As savings_of() has them, from the page's table, for store_claim()."""
        return {(str(int(row["hidden"])), row["level"], row["ISA"], row["type"],
                 str(int(row["rows"])), "normkernels", row["type"], "1", "hot", row["LayerNorm"]):
                (row["saved, %"], row["from, %"], row["to, %"])
                for row in Tables(text).tables["saving"]}

    def assert_same_numbers(self, on_page, computed):
        self.assertEqual(set(on_page), set(computed))
        for place, numbers in computed.items():
            for a, b in zip(on_page[place], numbers):
                self.assertAlmostEqual(a, b, 9, place)

    # ---- Numbers

    def test_numbers_on_the_page_are_those_of_the_csv(self):
        store_claim(self.path)
        computed = savings_of(self.path)
        self.assertEqual(len(computed), 32)
        self.assert_same_numbers(self.saving_rows(self.render()), computed)

    def test_so_they_are_for_every_stored_claim(self):
        compared = 0
        for path in glob.glob(os.path.join(SOURCE, "results", "*", "*.csv")):
            machine = reader.machine_path(path)
            if not os.path.exists(machine):
                continue
            with open(machine, encoding="utf-8") as file:
                if json.load(file)["command"] != "claim":
                    continue
            plain = [s for s in savings.savings(reader.read(path)) if s.rms.kernel == "rmsnorm" and
                     s.rms.provider == s.layer.provider and s.processes == 6]
            computed = savings_of(path)
            for s in plain:
                place = tuple(str(getattr(s.rms, name)) for name in PLACE) + (s.layer.algorithm,)
                for a, b in zip(s.saving, computed.get(place, ())):
                    self.assertAlmostEqual(100 * a, b, 9, (path, place))
                    compared += 1
        self.assertTrue(compared)

    def test_each_table_can_be_taken_along(self):
        store_claim(self.path)
        text = self.render()
        tables = Tables(text)
        files = [urllib.parse.unquote(link.partition(",")[2]) for link in tables.links]
        rows = list(csv.DictReader(io.StringIO(files[0])))
        self.assertEqual([float(row["saved_percent"]) for row in rows],
                         [row["saved, %"] for row in tables.tables["saving"]])
        self.assertEqual(len(files), len(tables.tables))

    def test_intervals_are_order_statistics(self):
        for values, low, high, coverage in ((6, 0, 5, 0.96875), (3, 0, 2, 0.75), (1, 0, 0, 0),
                                            (9, 1, 7, 0.9609375), (20, 5, 14, 0.9586105346679688)):
            found = savings.estimate(range(values))
            self.assertEqual((found.low, found.high, found.coverage), (low, high, coverage))

    def test_times_and_ratios_to_the_copy(self):
        store(self.path, [observation("dyt", 640, rows=32, bytes=6400), observation(
            "dyt", 900, rows=32, pair=0, slot=0), observation("copy", 600, pair=0, slot=1)])
        time, = records.time_records([("a", reader.read(self.path))])
        self.assertEqual((time["ns_per_row"], time["copies_median"], time["gigabytes_per_s"]),
                         (20, 1.5, 10))

    def test_shares_of_limits_are_those_of_the_machine_file(self):
        name = "/dtype:f32/isa:avx2/rows:32/hidden:768"
        store(self.path, [observation("dyt", 500), observation("dyt", 600, threads=2),
                          observation("dyt_bwd", 500)], cells=[
            {"name": "dyt/algorithm:default" + name, "level": "L2", "limit_ns": 400.0,
             "limited_by": "lines"},
            {"name": f"dyt/algorithm:default{name}/threads:2", "level": "L2", "limit_ns": 300.0,
             "limited_by": "bytes"},
            {"name": "dyt_bwd/algorithm:default" + name, "level": "L2", "limit_ns": None}])
        rows = Tables(self.render()).tables["limit"]
        self.assertEqual([(row["threads"], row["share of limit"], row["limited by"])
                          for row in rows], [(1, 0.8, "lines"), (2, 0.5, "bytes")])

    def test_gains_are_by_row(self):
        """The rows that fill a level differ by type and threads."""
        rows = []
        for dtype, count, threads, time in (("f32", 10, 1, 1000), ("bf16", 20, 1, 1000),
                                            ("f32", 20, 2, 1250)):
            common = {"dtype": dtype, "rows": count, "threads": threads, "pair": 0}
            rows += [observation("dyt", time, slot=0, **common),
                     observation("copy", 100, slot=1, **common)]
        store(self.path, rows)
        found = {section.name: section for section in
                 sections.sections([("a", reader.read(self.path))])}
        self.assertEqual([r["times_as_fast"] for r in found["dtype"].records], [2])
        self.assertEqual([r["times_as_fast"] for r in found["threads"].records], [1.6])
        self.assertNotIn("isa", found)

    def test_what_an_isa_gains_is_told_by_the_copy(self):
        """The machine was half as fast while scalar was measured."""
        rows = []
        for isa, time, copy in (("scalar", 8000, 200), ("avx2", 1000, 100)):
            rows += [observation("dyt", time, isa=isa, pair=0, slot=0),
                     observation("copy", copy, isa="avx512", pair=0, slot=1)]
        store(self.path, rows)
        row, = Tables(self.render()).tables["isa"]
        self.assertEqual((row["ISA"], row["times as fast"]), ("avx2", 4))

    def test_a_training_step_is_the_sum_of_both_kernels(self):
        rows = [observation(kernel, time, pair=0, slot=slot) for slot, (kernel, time) in enumerate((
            ("layernorm", 100), ("rmsnorm", 90), ("copy", 50), ("layernorm_bwd", 300),
            ("rmsnorm_bwd", 210)))]
        store(self.path, rows)
        row, = Tables(self.render()).tables["saving"]
        self.assertEqual((row["kernel"], row["saved, %"]), ("rmsnorm + gradient", 25))

    def test_fusion(self):
        rows = []
        for repetition, time in enumerate((75, 50, 150)):
            common = {"repetition": repetition, "pair": repetition}
            rows += [observation("add_rmsnorm", time, slot=0, **common),
                     observation("copy", 40, slot=1, **common),
                     observation("add_rmsnorm", 100, slot=2, algorithm="unfused", **common)]
        store(self.path, rows)
        row, = Tables(self.render()).tables["fusion"]
        self.assertEqual([row[name] for name in ("saved, %", "from, %", "to, %")], [25, -50, 50])

    def test_one_axis_at_a_time(self):
        cells = [{}, {"rows": 1}, {"hidden": 64}, {"hidden": 256}, {"hidden": 64, "level": "L1"},
                 {"level": "L3", "rows": 900}, {"level": "L3", "rows": 300}, {"isa": "scalar"},
                 {"dtype": "bf16", "param_dtype": "bf16", "rows": 64}, {"threads": 2, "rows": 64},
                 {"mode": "rotate", "level": "memory"}, {"isa": "scalar", "hidden": 64},
                 {"isa": "native", "provider": "plain"}]
        store(self.path, [row for cell in cells for row in claim_rows([0.1], **cell)],
              command="claim", arguments=["--axes"])
        rows = Tables(self.render()).tables["axes"]
        self.assertEqual([row["changed"] for row in rows], [
            "hidden 768 in L2, avx2, f32", "in L3", "1 row", "300 rows (L3)", "hidden 64",
            "hidden 256", "scalar", "bf16", "operands: rotate", "2 threads", "against two_pass",
            "plain, default", "plain, two_pass"])

    # ---- Words

    def verdict(self, low, high, **other):
        store(self.path, [row for row in claim_rows([low, high], **other)])
        return [found.verdict for found in savings.savings(reader.read(self.path))
                if found.layer.algorithm == "default"]

    def test_verdicts(self):
        for low, high, verdict in ((0.16, 0.19, "within"), (0.05, 0.14, "below"),
                                   (0.21, 0.24, "above"), (0.14, 0.16, "cannot tell"),
                                   (0.19, 0.21, "cannot tell"), (-0.3, -0.2, "below")):
            self.assertEqual(self.verdict(low, high), [verdict])

    def test_a_slow_layernorm_is_suspected(self):
        self.assertEqual(self.verdict(0.3, 0.3, copy=0.3), ["above"])
        self.assertEqual(self.verdict(0.3, 0.3, copy=0.6), ["cannot tell: shares"])
        two_pass = [found for found in savings.savings(reader.read(self.path))
                    if found.layer.algorithm == "two_pass"]
        self.assertEqual(two_pass[0].verdict, "cannot tell: rival")

    def test_limits_stand_before_the_copy(self):
        where = "/algorithm:default/dtype:f32/isa:avx2/rows:32/hidden:768"
        for layer_ns, verdict in ((840.0, "above"), (810.0, "cannot tell: shares")):  # of 1500
            cells = [{"name": name + where, "level": "L2", "limit_ns": ns, "limited_by": "slots"}
                     for name, ns in (("layernorm", layer_ns), ("rmsnorm", 735.0))]  # of 1050
            store(self.path, claim_rows([0.3, 0.3], copy=0.6), cells=cells)
            found = savings.savings(reader.read(self.path))
            self.assertEqual([f.verdict for f in found if f.layer.algorithm == "default"],
                             [verdict])

    def answer(self, *paths):
        body = self.render(*paths).partition("<body>")[2].partition("<details")[0]
        return html.unescape(re.sub(r"<[^>]*>", "", body)).replace("\u00a0", " ")

    def test_the_answer_in_words(self):
        store(self.path, claim_rows([0.1], level="L1") + claim_rows([0.17], level="L2") +
              claim_rows([0.12], level="L1", hidden=1024))
        self.assertIn("With avx2 RMSNorm saves, of LayerNorm's time, 10.0 to 12.0 % in L1 and 17.0 "
                      "% in L2. 15-20 % holds in 1 of 3 shapes; it saves less in 2.", self.answer())

    def test_slower_is_said_plainly(self):
        store(self.path, claim_rows([-0.1], level="L1"))
        self.assertIn("RMSNorm is slower than LayerNorm at hidden 768 in L1.", self.answer())

    def test_without_a_claim_it_says_what_to_do(self):
        store(self.path, [observation("dyt", 900, pair=0, slot=0),
                          observation("copy", 600, pair=0, slot=1)])
        self.assertIn("normbench claim --out FILE.csv", self.answer())

    def test_machine_build_and_commit_stand_on_top(self):
        store_claim(self.path)
        top = self.answer()
        for text in ("A CPU", "L1d 48K, L2 unknown", "aaaaaaaa c0", "gcc", "2026-01-01"):
            self.assertIn(text, top)

    def test_a_failed_check_is_not_overlooked(self):
        store(self.path, claim_rows([0.1]) + [observation("dyt", "", status="y[1, 2] is off")])
        self.assertIn("dyt f32 avx2 failed its check and was not timed: y[1, 2] is off",
                      self.answer())

    # ---- The page

    def test_texts_cannot_break_the_page(self):
        store_claim(self.path, cpu='</script><b>"CPU", & more', commit="<i>'")
        text = self.render()
        self.assertNotIn("<b>\"", text)
        self.assertNotIn("<i>", text)
        self.assertEqual(text.count("</script>"), 3)
        data = re.search(r'id="page-data">(.*?)</script>', text).group(1)
        self.assertIn("<i>'", json.loads(data)["sections"][0]["records"][0]["result"])

    def test_it_needs_no_network(self):
        store_claim(self.path)
        found = re.findall(r'(?:src|href)="(?!data:)[^"]*"|@import|url\(', self.render())
        self.assertEqual(found, [])

    def test_unknown_caches_and_cpu(self):
        store(self.path, claim_rows([0.1], level="", cpu="") +
              claim_rows([0.1], level="L1", cpu=""))
        text = self.render()
        self.assertIn('value="" checked>caches unknown</label>', text)
        self.assertIn("unknown CPU", text)
        self.assertIn("10.0 % in L1 and 10.0 % where the caches are unknown.", self.answer())

    def test_several_results_stand_side_by_side(self):
        store_claim(self.path)
        store_claim(self.file("b.csv"), 0.05, commit="c1", run_id="run1")
        tables = Tables(self.render(self.path, self.file("b.csv"))).tables
        self.assertEqual({row["machine, commit"] for row in tables["machines_saving"]},
                         {"aaaaaaaa c0", "aaaaaaaa c1"})
        self.assertEqual(len(tables["machines_time"]), 48)

    def test_files_of_one_commit_are_one_result(self):
        store_claim(self.path)
        store(self.file("b.csv"), [observation("dyt", 5, run_id="run1")], command="run",
              arguments=[])
        store_claim(self.file("c.csv"), run_id="run2", started_utc="later")
        labels = [label for label, _ in report.read(
            [self.path, self.file("b.csv"), self.file("c.csv")], False)]
        self.assertEqual(labels, ["aaaaaaaa c0", "aaaaaaaa c0", "aaaaaaaa c0 later"])

    def test_filters_have_what_varies(self):
        store_claim(self.path)
        results = report.read([self.path], False)
        self.assertEqual(records.choices(sections.sections(results)), {
            "kernel": ["layernorm", "rmsnorm"], "level": ["L1", "memory"],
            "isa": ["scalar", "avx2"], "dtype": ["f32", "bf16"],
            "against": ["default", "two_pass"]})

    def test_several_rows_and_types_of_gamma_are_a_choice(self):
        store(self.path, [row for rows, dtype, params in (
            (1, "f32", "f32"), (8, "f32", "f32"), (8, "bf16", "bf16"), (8, "bf16", "f32"))
            for row in claim_rows([0.1], rows=rows, dtype=dtype, param_dtype=params)])
        results = report.read([self.path], False)
        found = sections.sections(results)
        choices = records.choices(found)
        self.assertEqual((choices["rows_choice"], choices["params"]), (
            [records.MOST_ROWS, "1"], [records.AS_ROWS, "f32", "bf16"]))
        for rows, params, left in ((records.MOST_ROWS, records.AS_ROWS, [8, 8]), ("1", "f32", [1]),
                                   (records.MOST_ROWS, "f32", [8, 8])):
            chosen = {"rows_choice": [rows], "params": [params], "against": ["default"]}
            self.assertEqual([r["rows"] for r in found[0].records
                              if records.passes(r, chosen)], left)

    # ---- What is refused

    def test_usage(self):
        store_claim(self.path)
        self.refuse(2, "-o PAGE.html or --figures", self.path)
        self.refuse(2, "cannot read", self.path + "x", "-o", self.out)
        self.refuse(2, "no chart 'savings' of these results; there are: saving, against, time",
                    self.path, "-o", self.out, "--only", "saving,savings")

    def test_what_is_no_result(self):
        store_claim(self.path)
        self.refuse(2, "the run of another of the files", self.path, self.path, "-o", self.out)
        store(self.path, claim_rows([0.1]), command="ab")
        self.refuse(2, "scripts/compare.py reads those", self.path, "-o", self.out)
        store(self.path, [observation("dyt", 5)])
        self.refuse(2, "no kernel that was timed beside another", self.path, "-o", self.out)
        store(self.path, claim_rows([0.1]), complete=False)
        self.refuse(2, "incomplete; --allow-incomplete", self.path, "-o", self.out)
        store(self.path, claim_rows([0.1]) + [observation("dyt", "abc")])
        self.refuse(2, f"{self.path}:74: column 23 (time_ns): 'abc'", self.path, "-o", self.out)
        self.assertFalse(os.path.exists(self.out))

    def test_a_missing_library_is_named(self):
        store_claim(self.path)
        with mock.patch.dict("sys.modules", vl_convert=None):
            self.refuse(3, "vl-convert-python", self.path, "-o", self.out)

    # ---- The library

    @draws
    def test_incomplete_results_are_taken_if_told(self):
        store(self.path, claim_rows([0.1]), complete=False)
        self.refuse(0, "the run is incomplete", self.path, "-o", self.out, "--allow-incomplete")
        with open(self.out, encoding="utf-8") as file:
            self.assertIn("the run is incomplete", file.read())

    @draws
    def test_figures(self):
        store_claim(self.path)
        self.refuse(0, "", self.path, "--figures", self.file("figures"))
        names = sorted(os.listdir(self.file("figures")))
        self.assertEqual(names, [f"{name}.{kind}" for name in (
            "against", "dtype", "isa", "saving", "time") for kind in ("png", "svg")])
        text = " ".join(ElementTree.parse(self.file("figures/saving.svg")).getroot().itertext())
        for said in ("What RMSNorm saves", "scalar", "avx2", "hidden size (elements, log2)", "4096",
                     "time saved (%)", "memory", "A CPU (aaaaaaaa c0), gcc", "f32, 1 thread(s), hot operands, bars: inter"):
            self.assertIn(said, text)
        with open(self.file("figures/saving.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    @draws
    def test_some_figures(self):
        store_claim(self.path)
        self.refuse(0, "", self.path, "--figures", self.file("figures"), "--only", "isa,saving")
        self.assertEqual(sorted(os.listdir(self.file("figures"))),
                         ["isa.png", "isa.svg", "saving.png", "saving.svg"])

    def test_the_figure_in_readme_is_of_the_result_there(self):
        """If not: scripts/report.py THAT.csv --figures results/figures --only saving"""
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        figure = re.search(r"\]\((results/figures/\S+\.svg)\)", readme).group(1)
        path = os.path.join(SOURCE, re.search(r"\]\((results/\S+\.csv)\)", readme).group(1))
        text = " ".join(ElementTree.parse(os.path.join(SOURCE, figure)).getroot().itertext())
        (label, result), = report.read([path], False)
        self.assertIn(report.machines([(label, result)]), text)

    @draws
    def test_an_unwritable_output(self):
        store_claim(self.path)
        self.refuse(2, "nowhere", self.path, "-o", self.file("nowhere/page.html"))


if __name__ == "__main__":
    unittest.main()
