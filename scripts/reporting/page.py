# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file that needs nothing else: the answer, what it was
measured on, charts that filters change, and the table behind each chart."""
import csv
import html
import io
import json
import os
import urllib.parse

from reporting import answer, charts
from reporting import records as recording

QUESTION = "What does RMSNorm save?"
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"level": {"": "caches unknown"}, "mode": {"hot": "hot", "rotate": "rotating"}}


def text(value):
    return html.escape(str(value))


def element(tag, inner, **attributes):
    """`inner` is HTML."""
    said = "".join(f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
                   for name, value in attributes.items() if value)
    return f"<{tag}{said}>{inner}</{tag}>"


def own_file(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def name_of(field, value):
    return NAMES.get(field, {}).get(value, value)


# ---- The answer ------------------------------------------------------------

def matrix_cell(record):
    if not record:
        return element("td", "-")
    word = record["verdict"]
    interval = f"[{record['low_percent']:.1f}, {record['high_percent']:.1f}]"
    return element("td", " ".join((
        element("b", f"{record['saved_percent']:.1f}"), element("span", interval),
        element("span", text(word), class_=f"verdict {word.split()[0]}"))))


def answer_of(found):
    """Of one result: what answer.asked() leaves of it."""
    parts = [element("p", text(line).replace(" %", "&nbsp;%"), class_="" if i else "lead")
             for i, line in enumerate(answer.sentences(found))]
    best = recording.best_isa({record["isa"] for record in found})
    found = [record for record in found if record["isa"] == best]
    levels, lines = answer.matrix(found)
    head = "".join(element("th", text(name_of("level", level) or level), scope="col")
                   for level in levels)
    body = "".join(element("tr", element("th", hidden, scope="row", class_="number") +
                           "".join(map(matrix_cell, cells))) for hidden, cells in lines)
    coverage = 100 * min(record["coverage"] for record in found)
    parts.append(element("div", element(
        "table", element("thead", element("tr", element("th", "hidden", class_="number") + head)) +
        element("tbody", body), class_="answer"), class_="scroll"))
    parts.append(element("p", text(
        f"{best}, {answer.conditions(found[0])}: per cent of LayerNorm's time that RMSNorm saves; "
        f"in brackets the interval that holds the median with {coverage:.1f} %; whether 15-20 % "
        "holds there."), class_="soft"))
    return "".join(parts)


def answers(results, found, chosen):
    section = next((s for s in found if s.name == "saving"), None)
    asked = answer.asked(section, chosen) if section else []
    if not asked:
        return element("p", "These results do not hold RMSNorm against LayerNorm on the same "
                       "operands; <code>normbench claim --out FILE.csv</code> measures that.")
    parts = [element("p", "RMSNorm is said to save 15-20 % of LayerNorm's computation. Does it, "
                     "here?")]
    labels = list(dict.fromkeys(label for label, _ in results))
    for label in labels:
        here = [record for record in asked if record["result"] == label]
        if len(labels) > 1:
            parts.append(element("h3", text(label)))
        parts.append(answer_of(here) if here else
                     element("p", "Nothing in this result answers that."))
    return "".join(parts)


# ---- What it was measured on -----------------------------------------------

def bytes_text(count):
    for unit in ("B", "K", "M", "G"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "T"
    return f"{count:.3g}{unit}"


def caches_text(caches):
    return ", ".join(f"{c['name']} {bytes_text(c['bytes']) if c.get('bytes') else 'unknown'}"
                     for c in caches)


def machine_lines(result):
    """(what, text) of what is known."""
    file = result.machine_file
    machine, build = file.get("machine", {}), file.get("build", {})
    clock = machine.get("core_hz")
    memory = machine.get("memory_bytes")
    yield "CPU", result.cpu or "unknown"
    yield "machine", " ".join(filter(None, [result.machine, machine.get("architecture"),
                                            machine.get("kernel")]))
    yield "cores allowed", " of ".join(str(machine[name]) for name in ("cores_allowed", "cores")
                                       if machine.get(name))
    yield "caches", caches_text(machine.get("caches") or [])
    yield "clock, memory", ", ".join(filter(None, [
        clock and f"{clock / 1e9:.2f} GHz measured", memory and bytes_text(memory)]))
    yield "commit", result.commit
    yield "build", ", ".join(filter(None, [result.compiler, build.get("options")]))
    for provider in file.get("providers", []):
        yield "provider", " ".join(filter(None, map(provider.get, ("name", "version", "build"))))
    yield "measured", result.started_utc
    if file.get("command"):
        yield "by", " ".join(["normbench", file["command"], *file.get("arguments", [])])
    yield "file", os.path.basename(result.path)


def machine(label, result):
    lines = "".join(element("tr", element("th", text(what), scope="row") +
                            element("td", text(said), class_="wrap"))
                    for what, said in machine_lines(result) if said)
    return element("section", element("h3", text(label)) + element("table", lines))


def summary(label, result):
    """The same in a line, for the top."""
    caches = caches_text(result.machine_file.get("machine", {}).get("caches") or [])
    said = [caches, f"machine and commit {label}", result.compiler, result.started_utc[:10],
            os.path.basename(result.path)]
    return element("p", element("b", text(result.cpu or "unknown CPU")) + "".join(
        f" · {text(part)}" for part in said if part), class_="soft top")


def failures(results):
    """What must not be overlooked: checks that failed, files that are not whole."""
    lines = [note for _, result in results for note in result.notes]
    for label, result in results:
        failed = {}
        for row in result.rows:
            if row.status != "ok":
                failed.setdefault((row.provider, recording.kernel_name(row), row.dtype, row.isa),
                                  row.status)
        lines += [f"{label}: {' '.join(place)} failed its check and was not timed: {why}"
                  for place, why in failed.items()]
    return "".join(element("p", text(line), class_="bad") for line in lines)


def skipped(results):
    """Cells that a machine cannot have, and why."""
    reasons = {}
    for _, result in results:
        for cell in result.machine_file.get("cells", []):
            if cell.get("skipped"):
                reasons.setdefault(cell["skipped"], set()).add(cell["name"])
    lines = "".join(element("li", text(f"{reason}: {', '.join(sorted(names))}"))
                    for reason, names in sorted(reasons.items()))
    count = sum(map(len, reasons.values()))
    return element("details", element("summary", f"{count} cells were left empty") +
                   element("ul", lines, class_="soft")) if lines else ""


# ---- Sections --------------------------------------------------------------

def cell_text(column, value):
    if value is None:
        return "-"
    if column.digits is None or isinstance(value, str):
        return str(name_of(column.field, value))
    return f"{value:.{column.digits}f}"


def table_cell(column, record):
    value = record.get(column.field)
    if isinstance(value, (int, float)):
        return element("td", cell_text(column, value), class_="number", data_value=repr(value))
    return element("td", text(cell_text(column, value)))


def columns_of(section):
    """Without those that say the same, and nothing new, in every row."""
    always = ("kernel", "series", "hidden", "level", "isa")
    return [column for column in section.columns
            if column.digits is not None or column.field in always or
            len({str(record.get(column.field)) for record in section.records}) > 1]


def table(section):
    columns = columns_of(section)
    head = "".join(element("th", text(column.title), scope="col") for column in columns)
    body = "".join(element("tr", "".join(table_cell(column, record) for column in columns))
                   for record in section.records)
    return element("div", element("table", element("thead", element("tr", head)) +
                                  element("tbody", body)), class_="scroll")


def csv_uri(section):
    """All that is known of each row, in full precision."""
    fields = list(dict.fromkeys(name for record in section.records for name in record
                                if name not in ("result_index", "rows_choice", "params")))
    file = io.StringIO()
    writer = csv.DictWriter(file, fields, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(section.records)
    return "data:text/csv;charset=utf-8," + urllib.parse.quote(file.getvalue())


def section_html(section):
    download = element("a", "all rows as CSV", href=csv_uri(section), class_="download",
                       download=f"{section.name}.csv")
    details = element("details", element("summary", "Table (" + element(
        "span", f"{len(section.records)} rows", class_="count") + ")") +
        element("p", download) + table(section))
    return element("section", "".join((
        element("h2", text(section.title)), element("p", text(section.text)),
        element("p", "The filters leave nothing here.", class_="empty", hidden="hidden"),
        element("div", "", class_="panels"), details)), id=section.name)


def fieldset(field, texts, on):
    names = [(value, text(name_of(field, value))) for value in texts]
    legend = element("legend", recording.FIELDS[field])
    if field in recording.SINGLE_CHOICES:
        options = "".join(element("option", name, value=value) if value not in on else
                          element("option", name, value=value, selected="selected")
                          for value, name in names)
        return element("fieldset", legend + element("select", options, aria_label=recording.FIELDS[
            field]), data_field=field)
    boxes = "".join(f'<label><input type="checkbox" value="{text(value)}"'
                    f'{" checked" if value in on else ""}>{name}</label>' for value, name in names)
    return element("fieldset", legend + boxes, data_field=field)


def filters(choices, chosen):
    sets = "".join(fieldset(field, texts, chosen[field]) for field, texts in choices.items())
    return element("details", element("summary", "Filters") + sets, id="filters",
                   open="open") if sets else ""


def page_data(found):
    """What page.js draws from; no text in it can end the script element."""
    data = {"config": charts.CONFIG, "names": {field: NAMES.get(field, {}) for field in (
        "series", *recording.FIELDS)}, "sections": [{
            "name": section.name, "value": section.value, "low": section.low, "high": section.high,
            "log": section.log, "across": section.across, "mark": section.mark,
            "band": section.band, "ignores": section.ignores,
            "panel_fields": charts.panel_fields(section),
            "spec": charts.panel(section, section.records),
            "records": charts.chart_values(section, section.records)} for section in found]}
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def render(results, found, bundle):
    """`results`: (label, Result); `bundle`: the charts' JavaScript."""
    choices = recording.choices(found)
    chosen = {field: recording.first_choice(field, texts) for field, texts in choices.items()}
    asks = any(section.name == "saving" for section in found)
    body = "".join((
        element("h1", QUESTION if asks else "What the kernels cost"), *(summary(*result) for result in results),
        failures(results), answers(results, found, chosen),
        element("details", element("summary", "Machine and build in full") + element(
            "div", "".join(machine(*result) for result in results), class_="machines")),
        skipped(results), filters(choices, chosen),
        "<noscript><p class=bad>The charts and filters need JavaScript; the tables do not.</p>"
        "</noscript>", *map(section_html, found),
        element("p", "Made by scripts/report.py of normbench; how it was measured and what each "
                "figure means is in results/README.md there.", class_="soft"),
        element("script", page_data(found), type="application/json", id="page-data"),
        element("script", bundle), element("script", own_file("page.js"))))
    labels = ", ".join(dict.fromkeys(label for label, _ in results))
    head = ('<meta charset="utf-8"><meta name="viewport" content="width=device-width, '
            'initial-scale=1"><link rel="icon" href="data:,">' +
            element("title", f"{QUESTION if asks else 'normbench'} {text(labels)}") +
            element("style", own_file("page.css")))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
