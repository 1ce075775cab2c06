"use strict";

/* Tables: a click or the Enter key on a heading sorts; a text filters rows. */

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const key = (row) => {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.textContent.trim();
    return cell.classList.contains("number") ? (value === "" ? NaN : Number(value)) : value;
  };
  const compare = (a, b) => {
    if (typeof a === "string") return direction * a.localeCompare(b, "en", { numeric: true });
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b); // last
    return direction * (a - b);
  };
  const rows = [...body.rows].map((row) => [key(row), row]);
  rows.sort((a, b) => compare(a[0], b[0]));
  body.append(...rows.map(([, row]) => row));
}

function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", up ? "descending" : "ascending");
      sortTable(table, column, up ? -1 : 1);
    });
  });
}

function makeFilter(input) {
  const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
  const count = input.parentElement.querySelector("output");
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  input.addEventListener("input", apply);
  apply();
}

/* Episodes: one is drawn in full, its neighbours as thin strips below it. */

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 8, RIGHT = 8, STRIP = { top: 4, height: 34 }, SIGNAL = { top: 62, height: 74 },
  REWARD = { top: 160, height: 54 }, HEIGHT = 240;

function shape(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/* An episode's periods: their lengths alternate between the modes, exploit first. */
function periodsOf(episode) {
  let start = 0;
  const periods = episode.periods.map((length, i) => {
    const period = { start, length, explores: i % 2 === 1 };
    start += length;
    return period;
  });
  return periods.filter((period) => period.length > 0);
}

/* Explore is the taller bar, hatched, with the letter X where there is room for one. */
function drawStrip(svg, episode, x, { top, height }, letters) {
  const box = (period, inset, kind) => ({
    x: x(period.start), y: top + inset, class: kind,
    width: Math.max(x(period.start + period.length) - x(period.start), 0.6),
    height: height - 2 * inset,
  });
  const middle = top + height / 2;
  for (const period of periodsOf(episode)) {
    const inset = period.explores ? 0 : height * 0.2;
    svg.append(shape("rect", box(period, inset, period.explores ? "explore" : "exploit")));
    if (period.explores) svg.append(shape("rect", box(period, inset, "hatched")));
    const centre = (x(period.start) + x(period.start + period.length)) / 2;
    if (letters && x(period.length) - x(0) > 16) {
      svg.append(shape("text", { x: centre, y: middle, class: "letter" }, period.explores ? "X" : "G"));
    }
  }
}

function drawSignal(svg, episode, x, { top, height }) {
  const values = episode.signal.values;
  const known = values.filter((value) => value !== null);
  const bottom = top + height;
  svg.append(shape("line", { x1: x(0), x2: x(episode.length), y1: bottom, y2: bottom, class: "axis" }));
  if (!known.length) {
    svg.append(shape("text", { x: LEFT, y: top - 6 }, "trigger signal: none recorded in this episode"));
    return;
  }
  const high = Math.max(...known, 0), low = Math.min(...known, 0);
  const y = (value) => bottom - ((value - low) / (high - low || 1)) * height;
  let path = "", pen = false;
  values.forEach((value, i) => {
    if (value !== null) {
      const [from, to] = [i, i + 1].map((at) => x(Math.min(at * episode.signal.stride, episode.length)));
      path += `${pen ? "L" : "M"}${from.toFixed(1)},${y(value).toFixed(1)}H${to.toFixed(1)}`;
    }
    pen = value !== null;
  });
  svg.append(shape("path", { d: path, class: "signal" }));
  svg.append(shape("text", { x: LEFT, y: top - 6 }, `trigger signal, up to ${show(high)}`));
}

function drawReward(svg, episode, x, { top, height }) {
  const sizes = episode.reward.map(([, value]) => value);
  const high = Math.max(...sizes, 0), low = Math.min(...sizes, 0);
  const y = (value) => top + ((high - value) / (high - low || 1)) * height;
  const zero = sizes.length ? y(0) : top + height;
  svg.append(shape("line", { x1: x(0), x2: x(episode.length), y1: zero, y2: zero, class: "axis" }));
  for (const [step, value] of episode.reward) {
    const at = x(step + 0.5);
    svg.append(shape("line", { x1: at, x2: at, y1: zero, y2: y(value), class: "reward" }));
    svg.append(shape("circle", { cx: at, cy: y(value), r: 2.5, class: "reward-dot" }));
  }
  const range = low < 0 ? `${show(low)} to ${show(high)}` : `up to ${show(high)}`;
  const text = sizes.length ? `reward, ${range}` : "reward: none in this episode";
  svg.append(shape("text", { x: LEFT, y: top - 6 }, text));
}

function show(value) {
  return value === null || value === undefined ? "none" : String(Number(value.toPrecision(3)));
}

function stepAt(episode, step) {
  const period = periodsOf(episode).find((one) => step < one.start + one.length);
  const { stride, values } = episode.signal;
  const reward = episode.reward.find(([at]) => at === step);
  return `Step ${step}: ${period.explores ? "explore (X)" : "exploit (G)"}, step ` +
    `${step - period.start + 1} of ${period.length} in its period; ` +
    `signal ${show(values[Math.floor(step / stride)])}; reward ${show(reward ? reward[1] : 0)}.`;
}

class Viewer {
  constructor(root, cells) {
    this.cells = cells;
    this.index = 0;
    this.frame = root.querySelector("#viewer");
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")]
      .map((node) => [node.dataset.part, node]));
    const { variant, game, previous, next } = this.parts;
    fill(variant, [...new Set(cells.map((cell) => cell.variant))]);
    const start = cells.reduce((best, cell) => (moreToSee(cell, best) ? cell : best));
    variant.value = start.variant;
    fill(game, [start.game]); // which `choose` keeps
    variant.addEventListener("change", () => this.choose());
    game.addEventListener("change", () => this.choose());
    previous.addEventListener("click", () => this.turn(this.index - 1));
    next.addEventListener("click", () => this.turn(this.index + 1));
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.parts.picture.addEventListener("pointermove", (event) => this.point(event));
    this.parts.picture.addEventListener("pointerdown", (event) => this.point(event));
    new ResizeObserver(() => this.draw()).observe(this.frame);
    this.choose();
  }

  get episode() { return this.cell.episodes[this.index]; }

  /* The selects have changed: keep the game if the variant was played on it. */
  choose() {
    const { variant, game } = this.parts;
    const mine = this.cells.filter((cell) => cell.variant === variant.value);
    const wanted = game.value;
    fill(game, mine.map((cell) => cell.game));
    if (mine.some((cell) => cell.game === wanted)) game.value = wanted;
    this.cell = mine.find((cell) => cell.game === game.value);
    this.parts.overview.replaceChildren(...this.cell.episodes.map((_, i) => this.thin(i)));
    this.parts.says.textContent = this.cell.says;
    this.turn(this.cell.start);
  }

  thin(index) {
    const button = document.createElement("button");
    button.type = "button";
    const episode = this.cell.episodes[index];
    button.setAttribute("aria-label", `Episode ${index + 1}, ${episode.frames} frames into training`);
    const svg = shape("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" });
    drawStrip(svg, episode, (step) => (1000 * step) / episode.length, { top: 0, height: 14 }, false);
    button.append(svg);
    button.addEventListener("click", () => this.turn(index));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  turn(index) {
    const last = this.cell.episodes.length - 1;
    this.index = Math.min(Math.max(index, 0), last);
    this.parts.previous.disabled = this.index === 0;
    this.parts.next.disabled = this.index === last;
    [...this.parts.overview.querySelectorAll("button")].forEach((button, i) =>
      button.setAttribute("aria-current", String(i === this.index)));
    this.parts.reading.textContent = "Point at a step, or tap it, to read it.";
    this.draw();
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const places = { ArrowLeft: this.index - 1, ArrowRight: this.index + 1, Home: 0, End: Infinity };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.turn(places[event.key]);
  }

  draw() {
    const episode = this.episode, svg = this.parts.picture;
    const width = Math.max(svg.clientWidth, 200);
    this.x = (step) => LEFT + (step / episode.length) * (width - LEFT - RIGHT);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute("height", HEIGHT);
    const explored = periodsOf(episode).filter((period) => period.explores);
    const steps = explored.reduce((sum, period) => sum + period.length, 0);
    svg.replaceChildren();
    drawStrip(svg, episode, this.x, STRIP, true);
    drawSignal(svg, episode, this.x, SIGNAL);
    drawReward(svg, episode, this.x, REWARD);
    svg.append(shape("text", { x: LEFT, y: HEIGHT - 8 }, "step 0"));
    svg.append(shape("text", { x: width - RIGHT, y: HEIGHT - 8, "text-anchor": "end" }, episode.length));
    const share = (steps / episode.length).toFixed(3);
    const summary = `Episode ${this.index + 1} of ${this.cell.episodes.length}: seed ${episode.seed}, ` +
      `${episode.frames.toLocaleString("en")} frames into training; ${episode.length} steps, ` +
      `${explored.length} explore period${explored.length === 1 ? "" : "s"}, p_X ${share}, return ${show(episode.return)}.`;
    this.parts.where.textContent = summary;
    svg.setAttribute("aria-label", `Modes, trigger signal and reward. ${summary}`);
    this.parts.stride.textContent = episode.signal.stride > 1
      ? `Each point of the signal is the highest of ${episode.signal.stride} steps.` : "";
  }

  point(event) {
    const svg = this.parts.picture, box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    const step = Math.floor(share * this.episode.length);
    if (step < 0 || step >= this.episode.length) return;
    svg.querySelector(".cursor")?.remove();
    const at = this.x(step + 0.5);
    svg.append(shape("line", { x1: at, x2: at, y1: 0, y2: REWARD.top + REWARD.height, class: "cursor" }));
    this.parts.reading.textContent = stepAt(this.episode, step);
  }
}

function fill(select, names) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
}

/* Interests are compared number by number, as lists are in Python. */
function moreToSee(a, b) {
  const i = a.interest.findIndex((one, k) => one !== b.interest[k]);
  return i >= 0 && a.interest[i] > b.interest[i];
}

/* Names: pointing at one, or a tap, shows what it means. */
function explainNames(tip) {
  const names = document.querySelectorAll("abbr.name");
  const hide = () => { tip.hidden = true; };
  const show = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    tip.textContent = event.currentTarget.dataset.says;
    tip.hidden = false;
    const width = tip.offsetWidth, room = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(8, Math.min(box.left, room - width - 8))}px`;
    const above = box.bottom + tip.offsetHeight + 8 > window.innerHeight;
    tip.style.top = `${above ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  };
  for (const name of names) {
    name.dataset.says = name.title;
    name.removeAttribute("title");
    name.addEventListener("pointerenter", show);
    name.addEventListener("click", show);
    name.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  }
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("abbr.name")) hide(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  window.addEventListener("scroll", hide, { passive: true, capture: true });
}

/* A table that is wider than its box says so. */
function hintAtScrolling(box) {
  const look = () => {
    const more = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("wide", more && box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.previousElementSibling.hidden = !more;
  };
  new ResizeObserver(look).observe(box);
  box.addEventListener("scroll", look, { passive: true });
}

/* A figure fits the page; a tap shows it at full size, to be scrolled in its box. */
function makeLarge(button) {
  button.addEventListener("click", () => {
    const large = button.classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
  });
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll(".scroll").forEach(hintAtScrolling);
document.querySelectorAll("button.picture").forEach(makeLarge);
explainNames(document.getElementById("tip"));
document.querySelectorAll("input[data-table]").forEach(makeFilter);
const cells = JSON.parse(document.getElementById("episodes-data").textContent);
if (cells.length) new Viewer(document.getElementById("episodes"), cells);
/* On paper, what is folded away is shown. */
window.addEventListener("beforeprint", () =>
  document.querySelectorAll("details").forEach((one) => { one.open = true; }));
