# SPDX-License-Identifier: Apache-2.0
"""The report's page in headless Chromium: no error, filters that change what is shown, numbers
as in the CSV, nothing wider than a phone. Ends with 77 (skipped) where there is no browser."""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from made_results import store_claim
from reporting import charts  # noqa: F401  says where the library may lie

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scripts")


def missing():
    """What this test cannot do without."""
    for module in ("vl_convert", "selenium"):
        try:
            __import__(module)
        except ImportError:
            yield f"Python's {module}"
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            yield program


def open_browser(folder):
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    options = Options()
    for argument in ("--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile", "--disk-cache-dir=/dev/null",
                     # no page may reach a network: whatever it asks for fails, and is logged
                     "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = os.path.join(folder.name, "result.csv")
        page = os.path.join(folder.name, "page.html")
        store_claim(cls.path, cpu='A "CPU", </script><b>quick</b>')
        subprocess.run([sys.executable, os.path.join(SCRIPTS, "report.py"), cls.path, "-o", page],
                       check=True)
        cls.browser = open_browser(folder.name)
        cls.addClassCleanup(cls.browser.quit)
        cls.address = "file://" + page
        cls.load(1280)

    def tearDown(self):
        self.assertEqual(self.browser.get_log("browser"), [])

    @classmethod
    def run_script(cls, script, *arguments):
        return cls.browser.execute_script(script, *arguments)

    @classmethod
    def load(cls, width):
        cls.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
        cls.browser.get(cls.address)
        cls.wait()

    @classmethod
    def wait(cls):
        cls.browser.execute_async_script("""
            const done = arguments[0];
            (function look() {
                document.body.dataset.state === "ready" ? done() : setTimeout(look, 10);
            })();""")

    def choose(self, field, *values):
        """Checks these boxes of a filter and no others, or takes the option."""
        self.run_script("""
            const set = document.querySelector(`fieldset[data-field=${arguments[0]}]`);
            for (const box of set.querySelectorAll("input"))
                if (box.checked !== arguments[1].includes(box.value)) box.click();
            const select = set.querySelector("select");
            if (select) {
                select.value = arguments[1][0];
                select.dispatchEvent(new Event("change", {bubbles: true}));
            }""", field, list(values))
        self.wait()

    def drawn(self, section):
        """(title, points, series in the legend) of each panel, as it is drawn."""
        return [tuple(panel) for panel in self.run_script("""
            return [...document.querySelectorAll(`#${arguments[0]} figure`)].map((figure) => [
                figure.querySelector("figcaption").textContent,
                figure.querySelectorAll(".mark-symbol.role-mark path").length,
                [...figure.querySelectorAll(".role-legend-label text")].map((t) => t.textContent)
                    .join(" ")]);""", section)]

    def rows(self, section):
        """The cells of the table's rows that are shown."""
        self.run_script("document.querySelectorAll('details').forEach((d) => { d.open = true; });")
        return self.run_script("""
            return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
                .filter((row) => row.offsetParent).map((row) => [...row.cells].map(
                    (cell) => cell.dataset.value ? Number(cell.dataset.value) : cell.textContent));
            """, section)

    def test_charts_are_drawn(self):
        self.assertEqual(self.drawn("saving"), [("L1", 6, "scalar avx2"),
                                                ("memory", 6, "scalar avx2")])
        self.assertEqual(self.drawn("against")[0], ("scalar, L1", 6, "default two_pass"))
        self.assertEqual(self.drawn("dtype")[0], ("layernorm, scalar, L1", 1, "bf16"))

    def test_filters_change_what_is_shown(self):
        self.addCleanup(self.load, 1280)
        everything = self.rows("saving")
        self.assertEqual(len(everything), 12)
        self.choose("isa", "avx2")
        self.assertEqual(self.drawn("saving"), [("L1", 3, "avx2"), ("memory", 3, "avx2")])
        self.assertEqual(self.rows("saving"), [row for row in everything if "avx2" in row])
        self.choose("level", "memory")
        self.assertEqual(self.drawn("saving"), [("memory", 3, "avx2")])
        self.choose("dtype", "f32", "bf16")
        self.assertEqual(self.drawn("saving"), [("f32", 3, "avx2"), ("bf16", 1, "avx2")])
        self.choose("isa")
        self.assertEqual((self.drawn("saving"), self.rows("saving")), ([], []))
        self.assertTrue(self.run_script(
            "return document.querySelector('#saving .empty').offsetParent !== null"))
        self.choose("isa", "scalar", "avx2")
        self.choose("level", "L1", "memory")
        self.choose("dtype", "f32")
        self.assertEqual(self.rows("saving"), everything)

    def test_one_of_several_layernorms(self):
        before = self.rows("saving")
        self.choose("against", "two_pass")
        after = self.rows("saving")
        self.choose("against", "default")
        self.assertEqual(len(after), len(before))
        self.assertFalse({json.dumps(row) for row in before} & {json.dumps(row) for row in after})

    def test_numbers_are_those_of_the_csv(self):
        """Process 0 has the smallest savings: the lower ends of the intervals."""
        with open(self.path, newline="", encoding="utf-8") as file:
            times = {(row["isa"], row["level"], row["hidden"], row["kernel"]): float(row["time_ns"])
                     for row in csv.DictReader(file) if (row["dtype"], row["algorithm"]) ==
                     ("f32", "default") and (row["process"], row["pair"]) == ("0", "0")}
        least = sorted(100 * (1 - time / times[isa, level, hidden, "layernorm"])
                       for (isa, level, hidden, kernel), time in times.items()
                       if kernel == "rmsnorm")
        titles = self.run_script("return [...document.querySelectorAll('#saving th')].map("
                                 "(cell) => cell.textContent)")
        column = titles.index("from, %")
        shown = sorted(row[column] for row in self.rows("saving"))
        self.assertEqual([round(value, 9) for value in shown], [round(value, 9) for value in least])
        self.assertEqual(len(shown), 12)

    def test_it_asks_for_nothing_else(self):
        self.assertEqual(self.run_script(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)"), [])

    def test_it_fits_desktop_and_phone(self):
        self.addCleanup(self.load, 1280)
        for width in (390, 1280):
            self.load(width)
            self.assertEqual(self.run_script(
                "return document.documentElement.scrollWidth"), width)
            wider = self.run_script("""
                return [...document.querySelectorAll("figure svg")].filter(
                    (svg) => svg.getBoundingClientRect().right > innerWidth).length;""")
            self.assertEqual(wider, 0)

    def test_charts_can_be_saved(self):
        links = self.run_script("return [...document.querySelectorAll('#saving figure:first-child "
                                ".vega-actions a')].map((link) => link.textContent)")
        self.assertEqual(links, ["Save as SVG", "Save as PNG"])


if __name__ == "__main__":
    if list(missing()):
        print("SKIP: there is no " + ", no ".join(missing()))
        sys.exit(77)
    unittest.main()
