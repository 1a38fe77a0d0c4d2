# SPDX-License-Identifier: Apache-2.0
"""Charts, as Vega-Lite specifications: one description is drawn in the page,
where it answers to filters and resizes itself, and into SVG and PNG files.

Vega-Lite was chosen for that, and because vl-convert-python, a single wheel
without dependencies, brings both the renderer and the JavaScript that a page
without a network must carry (0.9 MB; plotly's is 4 MB and needs a browser to
write an image; Matplotlib's pictures do not answer to filters).
"""
import math
import os
import sys

from reporting.records import distinct

# Where scripts/packages.sh installs what Debian does not have.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir,
                             "build-python"))

# Okabe and Ito's: colour-blind readers can tell them apart. Shapes tell the same.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C7A00")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
CONFIG = {
    "background": "white", "font": FONT,
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal",
             "gridColor": "#e6e6e6", "domainColor": "#888", "tickColor": "#888"},
    "legend": {"orient": "top", "title": None, "labelFontSize": 12, "symbolSize": 70,
               "labelLimit": 240, "columnPadding": 14},
    "view": {"stroke": None},
    "title": {"fontSize": 13, "anchor": "start"},
}
# Of an octave, between two series and between all: intervals at one size stay readable.
DODGE, DODGE_ALL = 0.07, 0.2


def domain(section, records):
    """Of a y axis with room for these records; page.js does the same."""
    values = [record[field] for record in records
              for field in (section.value, section.low, section.high) if field]
    values += [section.mark, *section.band] + [0] * (not section.log)
    low, high = min(values), max(values)
    margin = 0.04 * (math.log(high / low) if section.log else high - low)
    if section.log:
        return [low * math.exp(-margin), high * math.exp(margin)]
    return [low - margin, high + margin]


def series_of(section):
    return [str(value) for value in distinct(section.colour, section.records)]


def chart_values(section, records):
    """Records as the charts take them: series as text, and beside one another."""
    series = series_of(section)
    step = min(DODGE, DODGE_ALL / len(series))
    places = {name: 2 ** (step * (i - (len(series) - 1) / 2)) for i, name in enumerate(series)}
    return [{**record, "series_name": str(record[section.colour]),
             "x": record["hidden"] * places[str(record[section.colour])]} for record in records]


def _place(section):
    """The axis that tells where a value stands: hidden sizes, or texts."""
    if section.across:
        return {"field": section.across, "type": "nominal", "sort": None, "title": None,
                "axis": {"labelLimit": 320, "grid": True}}
    hidden = sorted({record["hidden"] for record in section.records})
    return {"field": "x", "type": "quantitative", "title": "hidden size (elements, log2)",
            "scale": {"type": "log", "base": 2, "nice": False,
                      "domain": [hidden[0] / 1.3, hidden[-1] * 1.3]},
            "axis": {"values": hidden, "format": "d", "labelOverlap": "greedy",
                     "labelSeparation": 4, "grid": False}}


def _marked(section, value):
    """What stands behind the series: a line, and a band."""
    if section.band:
        yield {"data": {"values": [{"from": section.band[0], "to": section.band[1]}]},
               "mark": {"type": "rect", "color": "#999", "opacity": 0.3},
               "encoding": {value: {"field": "from", "type": "quantitative"},
                            f"{value}2": {"field": "to"}}}
    yield {"data": {"values": [{"at": section.mark}]},
           "mark": {"type": "rule", "color": "#888"},
           "encoding": {value: {"field": "at", "type": "quantitative"}}}


def _tooltip(section):
    return [{"field": column.field, "title": column.title,
             **({} if column.digits is None else {"format": f".{column.digits}f"})}
            for column in section.columns]


def panel(section, records):
    """The specification of one panel, without its data. The values' axis has room
    for these records; page.js sets another for what filters leave."""
    place, value = ("y", "x") if section.across else ("x", "y")
    scale = {"field": section.value, "type": "quantitative", "title": section.value_title,
             "scale": {"domain": domain(section, records), "nice": False,
                       "type": "log" if section.log else "linear"},
             "axis": {"tickCount": 6, "format": ".3~r", "labelOverlap": "greedy"}}
    series = series_of(section)

    def by_series(choices):
        return {"field": "series_name", "type": "nominal", "sort": None, "scale": {
            "domain": series, "range": [choices[i % len(choices)] for i in range(len(series))]}}
    marks = {place: _place(section), value: scale, "color": by_series(PALETTE)}
    layers = list(_marked(section, value))
    if not section.across:
        layers.append({"mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8},
                       "encoding": marks})
    if section.low:
        layers.append({"mark": {"type": "rule", "strokeWidth": 1.5},
                       "encoding": {**marks, value: {**scale, "field": section.low},
                                    f"{value}2": {"field": section.high}}})
    layers.append({"mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                   "encoding": {**marks, "shape": by_series(SHAPES), "tooltip": _tooltip(section)}})
    return {"layer": layers}


# ---- Files -----------------------------------------------------------------

def panel_fields(section):
    """What gives a panel of its own, where it varies: the level comes last, so
    that levels stand beside one another."""
    if section.across:
        return ["result"]
    fields = ("result", "series", "kernel", "against", "provider", "dtype", "isa",
              "threads", "mode", "level")
    by_series = section.colour == "series"
    return [field for field in fields if field in section.records[0] and field != section.colour and
            not (field == "kernel" and (by_series or "series" in section.records[0]))]


def panels(section, records):
    """Title, row and records of each panel of a figure. A row is what stands side
    by side: all levels of the rest."""
    varying = [field for field in panel_fields(section)
               if len({record[field] for record in records}) > 1] or (
                   [] if section.across else ["level"])
    found = {}
    for record in records:
        title = ", ".join(str(record[field]) for field in varying)
        row = tuple(record[field] for field in varying if field != "level")
        found.setdefault(title, (title, row, []))[2].append(record)
    return list(found.values())


def figure(section, records, subtitle):
    """The specification of a whole figure, a panel for each level and so on."""
    found = panels(section, records)
    drawn = []
    for title, row, here in found:
        beside = [record for _, other, there in found if other == row for record in there]
        drawn.append({**panel(section, beside), "data": {"values": chart_values(section, here)},
                      "title": title, "width": 500 if section.across else 210,
                      "height": {"step": 17} if section.across else 200})
    return {"title": {"text": section.title, "subtitle": subtitle, "fontSize": 16,
                      "subtitleColor": "#444", "anchor": "start", "offset": 12},
            "concat": drawn, "columns": 2 if section.across else 4, "spacing": 16,
            "resolve": {"scale": {"color": "shared", "shape": "shared"}}, "config": CONFIG}
