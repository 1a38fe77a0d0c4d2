# SPDX-License-Identifier: Apache-2.0
"""scripts/answer.py: its words follow from the CSV."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from made_results import observation, store
from reporting import claims, reader

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
SCRIPT = os.path.join(TOP, "scripts", "answer.py")
LAYER_NS, COPY_NS = 1000.0, 300.0


def pairs(saving, spread=0.0, processes=6, **where):
    """A cell: in each process one pair, its saving within +-spread of `saving`."""
    kernels = where.pop("kernels", ("layernorm", "rmsnorm"))
    rival = where.pop("rival", None)
    gradients = where.pop("gradients", None)
    for process in range(processes):
        here = saving + spread * (2 * process / max(1, processes - 1) - 1)
        times = [(kernels[0], LAYER_NS), (kernels[1], LAYER_NS * (1 - here)), ("copy", COPY_NS)]
        times += [("layernorm", rival)] if rival else []
        times += gradients or []
        for slot, (kernel, time) in enumerate(times):
            flops = {"layernorm": 700, "rmsnorm": 400}.get(kernel, "")
            moved = {"layernorm": 850, "rmsnorm": 800}.get(kernel, "")
            algorithm = {"algorithm": "two_pass"} if rival and slot == 3 else {}
            yield observation(kernel, time, process=process, pair=0, slot=slot, flops=flops,
                              bytes=moved, **{"isa": "avx512", **where, **algorithm})


class Answer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name):
        return os.path.join(self.folder, name)

    def store(self, name, rows, **machine):
        machine = {"command": "claim", "arguments": [], **machine}
        return store(self.file(name), list(rows), **machine)

    def run_script(self, *arguments, status=0):
        done = subprocess.run([sys.executable, SCRIPT, *arguments, "-o", self.file("page.md")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def page(self, *arguments):
        self.run_script(*arguments)
        with open(self.file("page.md"), encoding="utf-8") as file:
            return file.read()

    def sweep(self, savings, **other):
        """{level: saving}, at two hidden sizes."""
        rows = [row for hidden in (768, 4096) for level, saving in savings.items()
                for row in pairs(saving, hidden=hidden, level=level, **other)]
        return " ".join(self.page(self.store("sweep.csv", rows)).split())

    def test_words_follow_from_the_savings(self):
        for savings, words in (
                ({"L2": 0.18, "memory": 0.17}, "the claim holds here"),
                ({"L2": 0.10, "memory": 0.02}, "promises too much here"),
                ({"L2": 0.25, "memory": 0.22}, "promises too little here"),
                ({"L2": 0.18, "memory": 0.02}, "the most that can be had here"),
                ({"L2": 0.25, "memory": 0.17}, "the least that can be had here"),
                ({"L2": 0.25, "memory": 0.02}, "on the way from the caches to memory"),
                ({"L2": 0.02, "memory": 0.25}, "some shapes save less, others more")):
            with self.subTest(savings=savings):
                self.assertIn(words, self.sweep(savings))

    def test_an_interval_across_a_border_tells_nothing(self):
        text = self.sweep({"L2": 0.19, "memory": 0.16}, spread=0.02)
        self.assertIn("nothing can be told here", text)
        self.assertIn("19.0 [17.0, 21.0] ?", text)

    def test_numbers_and_verdicts_stand_in_the_table(self):
        text = self.page(self.store("sweep.csv", [
            *pairs(0.25, 0.01, hidden=768, level="L2"), *pairs(-0.02, hidden=768, level="memory"),
            *pairs(0.18, hidden=1600, level="L2")]))
        self.assertIn("| 768 | 25.0 [24.0, 26.0] above | -2.0 [-2.0, -2.0] below |", text)
        self.assertIn("| 1600 | 18.0 [18.0, 18.0] within | - |", text)
        self.assertIn("6 processes (96.9 %)", text)

    def test_a_faster_rival_or_a_slow_layernorm_leave_it_open(self):
        text = self.page(self.store("sweep.csv", pairs(0.25, rival=900.0, level="L2")))
        self.assertIn("25.0 [25.0, 25.0] ?", text)
        text = self.page(self.store("sweep.csv", pairs(0.4, level="L2")))  # copy: 0.3 and 0.5
        self.assertIn("40.0 [40.0, 40.0] ?", text)

    def test_time_lies_where_it_lies(self):
        for saving, words in ((0.18, "lies between these"), (0.03, "lies below all of them"),
                              (0.45, "lies above all of them")):
            with self.subTest(saving=saving):
                text = self.sweep({"L2": saving})
                self.assertIn("42.9 % of the formula's arithmetic and 5.9 % of the bytes", text)
                self.assertIn(words, text)

    def test_executed_work_comes_from_the_counts(self):
        sweep = self.store("sweep.csv", pairs(0.18, level="L2"))
        meanings = self.store("meanings.csv", pairs(0.18, level="L2"), arguments=["--meanings"])
        self.assertIn("meanings-counts.csv", self.run_script(sweep, meanings, status=2))
        counts = self.file("meanings-counts.csv")
        with open(counts, "w", encoding="utf-8") as file:
            file.write("provider,kernel,algorithm,dtype,isa,rows,hidden,instructions,flops\n"
                       "normkernels,layernorm,default,f32,avx512,32,768,1000,2000\n"
                       "normkernels,rmsnorm,default,f32,avx512,32,768,700,500\n")
        text = self.page(sweep, meanings)
        self.assertIn("30.0 % of the instructions", " ".join(text.split()))
        self.assertIn(": 75.0 above | 0.04, 0.03: 30.0 above |", text)
        with open(counts, "a", encoding="utf-8") as file:
            file.write("normkernels,rmsnorm,default,f32,avx512,32,x,700,500\n")
        self.assertIn("meanings-counts.csv:4", self.run_script(sweep, meanings, status=2))

    def axes(self):
        base = {"hidden": 4096, "level": "L2"}
        return self.store("axes.csv", [
            *pairs(0.18, **base), *pairs(0.21, **{**base, "hidden": 64}),
            *pairs(0.01, **{**base, "level": "memory", "rows": 4096}),
            *pairs(0.5, **{**base, "rows": 1}), *pairs(0.35, **{**base, "dtype": "bf16"}),
            *pairs(0.07, **{**base, "isa": "native", "provider": "plain-gcc",
                            "algorithm": "two_pass"}),
            *pairs(0.1, **base, gradients=[("layernorm_bwd", 2000.0), ("rmsnorm_bwd", 1500.0)]),
        ], arguments=["--axes"])

    def test_each_axis_alone(self):
        text = self.page(self.store("sweep.csv", pairs(0.18, level="L2")), self.axes())
        for line in ("| hidden | 64 | 21.0 [21.0, 21.0] above |",
                     "| level | memory | 1.0 [1.0, 1.0] below |",
                     "| rows | 1 | 50.0 [50.0, 50.0] ? |", "| dtype | bf16 | 35.0 [35.0, 35.0] ? |",
                     "| step | forward + backward | 20.0 [20.0, 20.0] within |",  # 2400 of 3000
                     "| provider | plain-gcc, two_pass | 7.0 [7.0, 7.0] below |"):
            self.assertIn(line, text)

    def test_what_a_model_saves_a_token(self):
        models = self.store("models.csv", pairs(
            0.1, hidden=4096, rows=1, mode="rotate", kernels=("add_layernorm", "add_rmsnorm")),
                            arguments=["--model=llama-2-7b"], memory_load_bytes_per_s=1e10)
        text = self.page(self.store("sweep.csv", pairs(0.18, level="L2")), models)
        # 100 ns a call, 32 layers of 2 norms and one; 6.738e9 parameters, 2.7 s
        self.assertIn("| 1.00 | 0.90 | 10.0 [10.0, 10.0] below | 6.5 | 0.00024 % |", text)

    def test_shares_of_the_limits(self):
        where = "/algorithm:default/dtype:f32/isa:avx512/rows:32/hidden:768"
        cells = [{"name": "layernorm" + where, "level": "L2", "limit_ns": 500.0,
                  "limited_by": "slots"},
                 {"name": "rmsnorm" + where, "level": "L2", "limit_ns": 450.0,
                  "limited_by": "lines"}]
        sweep = self.store("sweep.csv", pairs(0.25, level="L2"), cells=cells)
        self.assertIn("| 768 | 50, 60 (lines) |", self.page(sweep))  # of 1000 and of 750 ns
        cells[0]["limit_ns"] = 440.0
        self.assertIn("[25.0, 25.0] ? |",
                      self.page(self.store("slow.csv", pairs(0.25, level="L2"), cells=cells)))

    def test_readme_between_its_markers(self):
        readme = self.file("README.md")
        with open(readme, "w", encoding="utf-8") as file:
            file.write("before\n<!-- answer: made by scripts/answer.py -->stale"
                       "<!-- end of the answer -->\nafter\n")
        sweep = self.store("sweep.csv", pairs(0.18, level="L2"))
        self.run_script(sweep, "--readme", readme)
        with open(readme, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
        self.assertNotIn("stale", text)
        self.assertIn("[sweep.csv](sweep.csv), commit c0", " ".join(text.split()))
        with open(readme, "w", encoding="utf-8") as file:
            file.write("no markers\n")
        self.assertIn("between", self.run_script(sweep, "--readme", readme, status=2))

    def test_what_is_refused(self):
        good = list(pairs(0.18, level="L2"))
        sweep = self.store("sweep.csv", good)
        for name, rows, machine, words in (
                ("run.csv", good, {"command": "run"}, "is not of `normbench claim`"),
                ("part.csv", good, {"complete": False}, "incomplete"),
                ("twice.csv", good, {}, "give one of each kind"),
                ("other.csv", [dict(row, machine="bbbbbbbb") for row in good],
                 {"arguments": ["--axes"]}, "one page is about one machine"),
                ("bad.csv", good[:-1] + [dict(good[-1], status="y is wrong", time_ns="")],
                 {"arguments": ["--axes"]}, "y is wrong: mend it"),
                ("lone.csv", good[:2], {"arguments": ["--axes"]}, "a pair of 2 rows")):
            with self.subTest(name=name):
                self.assertIn(words, self.run_script(sweep, self.store(name, rows, **machine),
                                                     status=2))

    def test_the_page_of_the_project_is_that_of_its_files(self):
        page = os.path.join(TOP, "results", "ANSWER.md")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        command = re.search(r"made by `scripts/answer.py (.*)`", text).group(1).split()
        files = [os.path.join(TOP, word) if not word.startswith("-") else word for word in command]
        made = self.page(*files)
        links = re.compile(r"\[([^]]*)\]\([^)]*\)")  # they are relative to where a page lies
        self.assertEqual(links.sub(r"\1", " ".join(made.split())),
                         links.sub(r"\1", " ".join(text.split())))
        with open(os.path.join(TOP, "README.md"), encoding="utf-8") as file:
            readme = " ".join(file.read().split())
        table = [line for line in text.split("\n") if re.match(r"\| \d", line)]
        for line in table[:1]:
            self.assertIn(line, readme)


class Cells(unittest.TestCase):
    def test_they_are_those_of_the_pairs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = store(os.path.join(folder, "a.csv"), list(pairs(0.2, processes=3, level="L1")))
            found = claims.cells(reader.read(path))
        self.assertEqual(len(found), 1)
        cell = next(iter(found.values()))
        self.assertAlmostEqual(cell.saving().median, 0.2)
        self.assertAlmostEqual(cell.call_ns(claims.RMS), 800)


if __name__ == "__main__":
    unittest.main()
