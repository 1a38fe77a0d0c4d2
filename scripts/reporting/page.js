// SPDX-License-Identifier: Apache-2.0
// Draws the charts and lets the filters choose what is shown.
"use strict";
const page = JSON.parse(document.getElementById("page-data").textContent);
const chosen = {}; // field -> Set of texts
const views = {}; // section -> Vega views to release

function passes(section, record) {
  return Object.entries(chosen).every(([field, texts]) => {
    if (section.ignores.includes(field) || !(field in record)) return true;
    const own = record[field];
    return (Array.isArray(own) ? own : [String(own)]).some((text) => texts.has(text));
  });
}

// As in charts.py: room for these records.
function domain(section, records) {
  const fields = [section.value, section.low, section.high].filter(Boolean);
  const values = records.flatMap((record) => fields.map((field) => record[field]));
  values.push(section.mark, ...section.band, ...(section.log ? [] : [0]));
  const low = Math.min(...values), high = Math.max(...values);
  if (section.log) {
    const margin = Math.exp(0.04 * Math.log(high / low));
    return [low / margin, high * margin];
  }
  return [low - 0.04 * (high - low), high + 0.04 * (high - low)];
}

// What tells the panels apart: {title, row, records} of each. A row is what
// stands side by side: all levels of the rest.
function panels(section, records) {
  const several = (field) => new Set(records.map((record) => record[field])).size > 1;
  const varying = section.panel_fields.filter(several);
  if (!varying.length && !section.across) varying.push("level");
  const name = (record, fields) => fields.map(
    (field) => page.names[field][record[field]] ?? record[field]).join(", ");
  const found = new Map();
  for (const record of records) {
    const title = name(record, varying);
    const row = name(record, varying.filter((field) => field !== "level"));
    if (!found.has(title)) found.set(title, {title, row, records: []});
    found.get(title).records.push(record);
  }
  return [...found.values()];
}

// The section's specification for a panel, in the room that it has. Axis and series
// are the same all along its row.
function specification(section, panel, {columns, labels}) {
  const spec = structuredClone(section.spec);
  const limits = domain(section, panel.beside);
  for (const {encoding} of spec.layer) {
    const values = encoding[section.across ? "x" : "y"];
    if (values?.scale) values.scale.domain = limits;
    if (section.across && encoding.y) encoding.y.axis.labelLimit = labels;
    for (const channel of [encoding.color, encoding.shape]) {
      if (!channel) continue;
      const scale = channel.scale, keep = scale.domain.map((name) => panel.series.has(name));
      scale.range = scale.range.filter((_, i) => keep[i]);
      scale.domain = scale.domain.filter((_, i) => keep[i]);
      channel.legend = {columns};
    }
  }
  return {...spec, data: {values: panel.records}, width: "container", height: "container",
    autosize: {type: "fit", contains: "padding"}, config: page.config};
}

// A place for a chart, with room for its lines and its legend.
function addFigure(place, section, panel, startsRow) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const chart = document.createElement("div");
  caption.textContent = panel.title;
  chart.className = "chart";
  figure.append(caption, chart);
  place.append(figure);
  if (startsRow) figure.style.gridColumnStart = 1;
  if (section.across) figure.style.gridColumn = "1 / -1";
  const letters = Math.max(...[...panel.series].map((name) => name.length));
  const labels = section.across ? Math.min(320, 0.4 * chart.clientWidth) : 40;
  const columns = Math.max(1, Math.floor((chart.clientWidth - labels - 40) / (7 * letters + 36)));
  const lines = new Set(panel.records.map((record) => record[section.across])).size;
  const height = section.across ? 60 + 18 * lines : 220;
  chart.style.height = `${height + 15 * Math.ceil(panel.series.size / columns)}px`;
  return {chart, columns, labels};
}

async function draw(section, shown) {
  const place = document.querySelector(`#${section.name} .panels`);
  for (const view of views[section.name] ?? []) view.finalize();
  place.replaceChildren();
  const all = panels(section, shown);
  for (const panel of all) {
    panel.beside = all.filter(({row}) => row === panel.row).flatMap(({records}) => records);
    panel.series = new Set(panel.beside.map((record) => record.series_name));
  }
  // Levels stand below levels, unless that would leave half of the page empty.
  const wide = (panel) => panel && all.filter(({row}) => row === panel.row).length > 2;
  const places = all.map((panel, i) => addFigure(place, section, panel,
    panel.row !== all[i - 1]?.row && (wide(panel) || wide(all[i - 1]))));
  const drawn = await Promise.all(all.map((panel, i) => vegaEmbed(
    places[i].chart, specification(section, panel, places[i]),
    {renderer: "svg", mode: "vega-lite", downloadFileName: section.name,
      actions: {export: true, source: false, compiled: false, editor: false}})));
  views[section.name] = drawn.map(({view}) => view);
}

async function show(section) {
  const keep = section.records.map((record) => passes(section, record));
  const shown = section.records.filter((_, i) => keep[i]);
  const place = document.getElementById(section.name);
  place.querySelectorAll("tbody tr").forEach((row, i) => { row.hidden = !keep[i]; });
  place.querySelector(".count").textContent = `${shown.length} of ${keep.length} rows`;
  place.querySelector(".empty").hidden = shown.length > 0;
  await draw(section, shown);
}

function readFilters() {
  for (const set of document.querySelectorAll("#filters fieldset")) {
    const inputs = [...set.querySelectorAll("input:checked, option:checked")];
    chosen[set.dataset.field] = new Set(inputs.map((input) => input.value));
  }
}

// One drawing after the other: a later choice would else be overtaken by an earlier one.
let drawing = Promise.resolve();
function update() {
  document.body.dataset.state = "drawing";
  drawing = drawing.then(async () => {
    readFilters();
    await Promise.all(page.sections.map(show));
    document.body.dataset.state = "ready";
  });
}

document.getElementById("filters")?.addEventListener("change", update);
update();
