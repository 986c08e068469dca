"use strict";
// The script of the page of a report. It loads nothing. Without it, the page shows all sections.

// Metric, view and colours

const switches = document.getElementById("switches");
const sections = [...document.querySelectorAll("main > section")];
const contents = document.getElementById("contents");

function fits(section, view, metric) {
  return section.dataset.view === view && (section.dataset.metric ?? metric) === metric;
}

function chosen(name) {
  return switches.elements[name]?.value;
}

function showChosen() {
  const first = sections[0]?.dataset ?? {};
  const view = chosen("view") ?? first.view;
  const metric = chosen("metric") ?? first.metric;
  for (const section of sections) section.hidden = !fits(section, view, metric);
  // a metric can be chosen if the view has its scores, and a view if it has those of the metric, or of none
  for (const input of switches.querySelectorAll("[name=view], [name=metric]")) {
    const can = (section) =>
      input.name === "view"
        ? fits(section, input.value, metric)
        : section.dataset.view === view && section.dataset.metric === input.value;
    input.disabled = !sections.some(can);
    input.parentElement.title = input.disabled ? "There are no such scores." : "";
  }
}

// A link to a section, or to a table in it, also selects the view and the metric of the section.
function showLinked() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const section = target?.closest("main > section");
  if (!section) return;
  for (const name of ["view", "metric"]) {
    if (switches.elements[name] && section.dataset[name]) switches.elements[name].value = section.dataset[name];
  }
  showChosen();
  target.scrollIntoView();
}

function showTheme() {
  const theme = chosen("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

switches.addEventListener("change", (event) => {
  if (event.target.name === "theme") return showTheme();
  showChosen();
  const heading = sections.find((section) => !section.hidden)?.querySelector("h2");
  if (heading) history.replaceState(null, "", `#${heading.id}`);
});
switches.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", showLinked);

// Sorting

const SCORE = "td[data-details]";
const collator = new Intl.Collator("en", { numeric: true });

// The mean of a score as text.
function meanOf(cell) {
  return cell.firstChild.textContent.trim();
}

// The value of a cell: a number, which of an interval is its lower end; a text; or null if the cell is empty.
function valueOf(cell) {
  if (cell.matches(SCORE)) return Number(meanOf(cell).replace("inf", "Infinity"));
  const text = cell.textContent.trim();
  if (text === "—") return null;
  const number = Number(text.replace(/^\[(.*), .*\]$/, "$1").replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

// The first click on a column of scores puts the best first. A third click restores the first order.
function nextOrder(table, header, body) {
  const isScore = body.querySelector(`tr > :nth-child(${header.cellIndex + 1})[data-details]`) !== null;
  const first = isScore && table.dataset.best !== "least" ? "descending" : "ascending";
  const second = first === "descending" ? "ascending" : "descending";
  return { none: first, [first]: second, [second]: "none" }[header.ariaSort ?? "none"];
}

function sortBy(header) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const order = nextOrder(table, header, body);
  for (const other of table.tHead.rows[0].cells) other.ariaSort = other === header ? order : "none";
  const sign = order === "descending" ? -1 : 1;
  const rows = [...body.rows].map((row) => ({ row, value: valueOf(row.cells[header.cellIndex]) }));
  rows.sort((a, b) => {
    const place = a.row.dataset.place - b.row.dataset.place;
    if (order === "none") return place;
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || place; // empty last
    return sign * compare(a.value, b.value) || place;
  });
  body.append(...rows.map(({ row }) => row));
}

// Filtering

function filter(table, words, status) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  status.textContent = wanted.length ? `${shown} of ${rows.length} rows` : "";
  makeReachable(table);
}

// Details of scores: with the mouse, with the keyboard, and by a tap

const details = document.getElementById("details");
let described = null;

function scores(table) {
  return [...table.querySelectorAll(SCORE)].filter((cell) => !cell.parentElement.hidden);
}

// One score of each table can be reached with the tab key. Arrow keys lead from there to the others.
function makeReachable(table, wanted) {
  for (const cell of table.querySelectorAll("td[tabindex]")) cell.removeAttribute("tabindex");
  const cell = wanted ?? scores(table)[0];
  if (cell) cell.tabIndex = 0;
}

function showDetails(cell) {
  if (cell === described) return;
  hideDetails();
  described = cell;
  cell.setAttribute("aria-describedby", "details");
  details.textContent = cell.dataset.details;
  details.hidden = false;
  placeDetails();
}

function placeDetails() {
  const [at, box] = [described.getBoundingClientRect(), details.getBoundingClientRect()];
  const left = Math.min(at.left, document.documentElement.clientWidth - box.width - 8);
  const below = at.bottom + 4;
  const above = at.top - box.height - 4;
  details.style.left = `${Math.max(8, left)}px`;
  details.style.top = `${below + box.height > window.innerHeight && above > 0 ? above : below}px`;
}

function hideDetails() {
  details.hidden = true;
  described?.removeAttribute("aria-describedby");
  described = null;
}

function scoreAt(target) {
  return target instanceof Element ? target.closest(SCORE) : null;
}

function move(cell, key) {
  const row = cell.parentElement;
  const cells = scores(row.closest("table"));
  const across = cells.filter((other) => other.parentElement === row);
  const along = cells.filter((other) => other.cellIndex === cell.cellIndex);
  const [line, step] = {
    ArrowLeft: [across, -1], ArrowRight: [across, 1], ArrowUp: [along, -1], ArrowDown: [along, 1],
  }[key];
  const next = line[line.indexOf(cell) + step];
  if (!next) return;
  makeReachable(row.closest("table"), next);
  next.focus();
}

document.addEventListener("pointerover", (event) => {
  const cell = scoreAt(event.target);
  if (cell) showDetails(cell);
  else if (!details.contains(event.target) && !scoreAt(document.activeElement)) hideDetails();
});
document.addEventListener("focusin", (event) => {
  const cell = scoreAt(event.target);
  if (cell) showDetails(cell);
  else hideDetails();
});
document.addEventListener("focusout", hideDetails);
document.addEventListener("click", (event) => {
  const cell = scoreAt(event.target);
  if (!cell) return;
  makeReachable(cell.closest("table"), cell);
  cell.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideDetails();
  const cell = scoreAt(event.target);
  if (!cell || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  move(cell, event.key);
});
document.addEventListener("scroll", () => {
  if (!described) return;
  if (described.matches(":hover, :focus")) placeDetails();
  else hideDetails();
}, { capture: true, passive: true });

// What the script adds to each table: a field that filters its rows, and a button in each header

for (const table of document.querySelectorAll("main table")) {
  [...table.tBodies[0].rows].forEach((row, place) => (row.dataset.place = place));
  for (const header of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(header));
    header.append(button);
    header.ariaSort = "none";
  }
  const tools = document.createElement("div");
  tools.className = "tools";
  const label = document.createElement("label");
  const input = document.createElement("input");
  const status = document.createElement("span");
  input.type = "search";
  input.autocomplete = "off";
  input.addEventListener("input", () => filter(table, input.value, status));
  status.setAttribute("role", "status");
  label.append("Filter rows", input);
  tools.append(label, status);
  table.parentElement.before(tools);
  makeReachable(table);
}

switches.hidden = false;
contents.hidden = true; // the switches replace it
showChosen();
showTheme();
showLinked();
