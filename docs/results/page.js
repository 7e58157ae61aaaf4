"use strict";
let VALUES = {}, ROWS = [], SEVERAL = new Set();  // of the suite that is shown
const suites = {};  // by name, as their files add them
const by = (id) => document.getElementById(id);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const distinct = (values) => [...new Set(values)];
const ALL = "all";
const LABELS = 16;  // of ticks that fit beside each other
const HEADS = [
  ["topic", "Data"], ["eps", "ε", "epsilon"], ["promise", "ε protects: relation; scope"], ["label", "Method"],
  ["shown", "Value (%)", "mean"], ["n", "Seeds"], ["kind", "ε is"], ["paper", "Paper"], ["cell", "Cell, commit"],
];
const NUMERIC = new Set(["eps", "shown", "n"]);
const bold = (row) => (row.best || row.tied) && !row.below;  // not what reading nothing would do as well
let order = null;  // [column, descending]

// rows of columns, which are {values}, or {texts, at} where texts repeat
function unpacked(columns) {
  const value = (column, place) => (column.texts ? column.texts[column.at[place]] : column.values[place]);
  const first = Object.values(columns)[0];
  return Array.from((first && (first.at || first.values)) || [], (_, place) => Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, value(column, place)])));
}

function fill(select, values, text = (value) => value) {
  for (const value of values) select.add(new Option(text(value), value));
}

function chosen() {
  const data = by("of-data").value, promise = by("of-promise").value, budget = by("of-budget").value;
  const words = by("of-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  return ROWS.filter((row) => (data === ALL || row.topic === data)
    && (promise === ALL || (row.promise || row.kind) === promise)
    && (budget === ALL || (row.budget === null ? budget === row.kind : String(row.budget) === budget))
    && words.every((word) => `${row.label} ${row.paper} ${row.method} ${row.topic}`.toLowerCase().includes(word)));
}

function sorted(rows) {
  if (order === null) return rows;
  const [column, descending] = order;
  const key = (HEADS.find((head) => head[0] === column)[2]) || column;
  const value = (row) => (row[key] === null ? Infinity : row[key]);
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b || 0 : String(a).localeCompare(String(b)));
  return [...rows].sort((a, b) => (descending ? -1 : 1) * (value(a) === value(b) ? 0 : compare(value(a), value(b))));
}

function draw() {
  const body = document.querySelector("#rows tbody");
  body.replaceChildren(...sorted(chosen()).map((row) => {
    const line = document.createElement("tr");
    for (const [name] of HEADS) {
      const cell = line.insertCell();
      let text = String(row[name] ?? "");
      if (name === "eps" && row.uncovered) text += "†";
      cell.className = NUMERIC.has(name) ? "number" : name;
      if (name === "shown" && bold(row)) {
        cell.append(Object.assign(document.createElement("strong"), {textContent: text}));
      } else if (name === "cell" && VALUES.records) {
        cell.append(Object.assign(document.createElement("a"), {textContent: text, href: `cells/${row.cell}/result.json`}));
      } else cell.textContent = text;
      if (name === "cell") {
        cell.append(Object.assign(document.createElement("small"), {textContent: `commit ${row.commit || "unknown"}`}));
      }
      if (name === "promise" && !text) cell.textContent = "–";
    }
    return line;
  }));
}

function heads() {
  const line = document.querySelector("#rows thead tr");
  for (const [name, text] of HEADS) {
    const head = document.createElement("th");
    head.textContent = text;
    head.scope = "col";
    head.tabIndex = 0;
    if (NUMERIC.has(name)) head.className = "number";
    const sort = () => {
      order = [name, order !== null && order[0] === name ? !order[1] : name === "shown"];
      for (const other of line.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order[1] ? "descending" : "ascending");
      draw();
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();  // which would scroll
      sort();
    });
    line.append(head);
  }
}

function csv(rows) {
  const names = ["data", "metric", "kind", "epsilon", "relation", "scope", "delta", "label", "method", "paper", "mean", "std",
    "low", "high", "n", "best", "tied", "below", "uncovered", "cell", "commit"];
  const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return [names, ...rows.map((row) => names.map((name) => quoted(String(row[name] ?? ""))))].map((line) => line.join(",")).join("\n");
}

const ESCAPES = {"\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
  "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "∞": "$\\infty$", "ε": "$\\varepsilon$", "†": "$^\\dagger$",
  "–": "--", "−": "$-$", "≤": "$\\leq$", "<": "$<$", ">": "$>$"};

function latex(rows) {
  const safe = (text) => String(text).replace(/[\\&%$#_{}~^±∞ε†–−≤<>]/g, (character) => ESCAPES[character]);
  const number = (row) => (bold(row) ? `\\textbf{${safe(row.shown)}}` : safe(row.shown));
  const lines = rows.map((row) => [safe(row.topic), safe(row.eps), safe(row.promise || row.kind), safe(row.label), number(row), row.n].join(" & "));
  return ["% needs booktabs", "\\begin{tabular}{lrllrr}", "\\toprule",
    "Data & $\\varepsilon$ & Relation; scope & Method & Value (\\%) & Seeds \\\\", "\\midrule",
    ...lines.map((line) => `${line} \\\\`), "\\bottomrule", "\\end{tabular}"].join("\n");
}

async function copy(text) {
  const told = by("copied");
  try {
    await navigator.clipboard.writeText(text);
    told.textContent = "copied";
  } catch {  // a page of the file system may have no clipboard
    const area = Object.assign(document.createElement("textarea"), {value: text});
    document.body.append(area);
    area.select();
    told.textContent = document.execCommand("copy") ? "copied" : "this browser does not let a page copy";
    area.remove();
  }
  setTimeout(() => { told.textContent = ""; }, 2500);
}

async function plot() {
  const topic = by("data").value;
  const of = ROWS.filter((row) => row.topic === topic);
  const rows = of.filter((row) => row.kind === "proved" && row.epsilon > 0);
  const spec = structuredClone(VALUES.chart);
  // of a method's numbers without privacy that are no baseline of the data set's best, the reader needs none: the best two
  const open = of.filter((row) => row.kind === "no privacy").sort((a, b) => b.mean - a.mean).slice(0, 2);
  spec.datasets = {rows, public: open};
  if (!open.length) spec.layer = spec.layer.filter((layer) => !layer.data);
  const domain = domainOf(rows), ticks = ticksOf(rows, domain);
  spec.params = [{name: "ticks", value: ticks}, {name: "metric", value: of[0].metric}];
  by("measure").textContent = capital(of[0].metric.replace(/ \(%\)$/, ""));
  for (const layer of spec.layer) if (layer.encoding && layer.encoding.x) layer.encoding.x.scale.domain = domain;
  const narrow = window.innerWidth < 640;
  // below the chart, one legend under the other: side by side they are wider than a phone
  const below = {orient: "bottom", columns: 1, labelLimit: 300, direction: "vertical", layout: {bottom: {direction: "vertical"}}};
  spec.config.legend = narrow ? below : {labelLimit: 400};
  await window.vegaEmbed("#plot", spec, {actions: {export: true, source: false, compiled: false, editor: false}, renderer: "svg"});
}

// with room beside the outermost epsilons, less where they are near each other
function domainOf(rows) {
  const all = rows.flatMap((row) => (row.budget / row.epsilon < 1.05 ? [row.epsilon, row.budget] : [row.epsilon]));
  const low = Math.min(...all), high = Math.max(...all), room = high / low < 1.02 ? 1.25 : (high / low) ** 0.3;
  return [low / Math.min(Math.max(room, 1.06), 1.25), high * Math.min(Math.max(room, 1.06), 1.25)];
}

// budgets, of which solved epsilons differ in the fifth digit, and epsilons that are near none of them
function ticksOf(rows, domain) {
  // labels of two that are nearer than a part of the axis would touch
  const found = [], near = (a, b) => Math.abs(Math.log(a / b)) < Math.log(domain[1] / domain[0]) / LABELS;
  const budgets = rows.filter((row) => row.budget / row.epsilon < 1.05).map((row) => row.budget);
  for (const value of [...budgets, ...rows.map((row) => row.epsilon)]) {
    if (budgets.includes(value) ? !found.includes(value) : !found.some((other) => near(value, other))) found.push(value);
  }
  return found.map((value) => Number(value.toPrecision(3))).sort((a, b) => a - b);
}

function chart(names) {
  fill(by("data"), names.filter((name) => ROWS.some((row) => row.topic === name && row.kind === "proved" && row.epsilon > 0)));
  const about = ROWS.find((row) => row.data === VALUES.headline && row.kind === "proved");
  if (about) by("data").value = about.topic;
  by("data").addEventListener("change", plot);
  plot();
}

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (by("plot")) plot(); }, 150);
});

function tiles() {
  for (const tile of document.querySelectorAll(".tile")) {
    tile.addEventListener("click", () => {
      const told = tile.nextElementSibling;
      told.hidden = !told.hidden;
      tile.setAttribute("aria-expanded", String(!told.hidden));
    });
  }
}

// values of one data set that measure unlike things share no chart and no ranking: its name says which they are
const measures = (data) => distinct(ROWS.filter((row) => row.data === data).map((row) => row.metric));

// the page of a suite, whose HTML is there
function show(values) {
  VALUES = values, ROWS = unpacked(values.rows), order = null;
  SEVERAL = new Set(distinct(ROWS.map((row) => row.data)).filter((data) => measures(data).length > 1));
  for (const row of ROWS) row.topic = SEVERAL.has(row.data) ? `${row.data}, ${row.metric.replace(/ \(%\)$/, "")}` : row.data;
  tiles();
  if (!ROWS.length) return;
  const names = distinct(ROWS.map((row) => row.topic));
  const budgets = distinct(ROWS.filter((row) => row.budget !== null).map((row) => row.budget)).sort((a, b) => a - b);
  fill(by("of-data"), [ALL, ...names]);
  fill(by("of-budget"), [ALL, ...budgets.map(String), "no privacy"]);
  fill(by("of-promise"), [ALL, ...distinct(ROWS.map((row) => row.promise || row.kind))]);
  for (const id of ["of-data", "of-budget", "of-promise"]) by(id).addEventListener("change", draw);
  by("of-text").addEventListener("input", draw);
  by("as-csv").addEventListener("click", () => copy(csv(sorted(chosen()))));
  by("as-latex").addEventListener("click", () => copy(latex(sorted(chosen()))));
  heads();
  draw();
  if (by("plot")) chart(names);
}

// a file of the file system cannot be fetched, but a script can be loaded
function load(name) {
  if (name in suites) return Promise.resolve();
  return new Promise((done) => document.head.append(
    Object.assign(document.createElement("script"), {src: `${name}/values.js`, onload: done})));
}

let wanted;
async function choose(name) {
  wanted = name;
  if (name) await load(name);
  if (wanted !== name) return;  // another one was chosen while this one was loaded
  by("of-suite").value = name;
  by("all").hidden = Boolean(name);
  by("suite").innerHTML = name ? suites[name].html : "";
  if (name) show(suites[name]);
}

function follow() {
  const name = decodeURIComponent(location.hash.slice(1));
  if ([...by("of-suite").options].some((option) => option.value === name)) choose(name);
}

if (by("of-suite")) {
  by("of-suite").addEventListener("change", (event) => { location.hash = event.target.value; });
  window.addEventListener("hashchange", follow);
  follow();
} else show(JSON.parse(by("values").textContent));
