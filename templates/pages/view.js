"use strict";
// Draws what is in #data (see paictl/cluster/page.py for the meaning of each place in a row). Everything that comes from
// a cluster reaches the page through textContent or attributes, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const FEW = 128; // devices up to which every one is a box with a letter
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// --- rows by name

const jobs = data.jobs.map((row, place) => {
  const [key, vc, priority, state, submitted, started, ended, devices, restarts, preemptions, remark, number, tasks, notes] = row;
  return { place, key, vc, priority, state, submitted, started, ended, devices, restarts, preemptions, remark, number,
    notes, nodes: new Set(), hold: "",
    tasks: tasks.map(([role, index, attempts, waits]) => ({ role, index, waits,
      attempts: attempts.map(([start, end, outcome, node, at, reason]) => ({ start, end, outcome, node, devices: at, reason })) })) };
});
const vcPlace = new Map(data.vcs.map((vc, place) => [vc.name, place]));

function el(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else if (key === "text") node.textContent = value;
    else if (key.startsWith("--")) node.style.setProperty(key, value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function svg(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  return node;
}

// --- words

function span(millis) {
  const seconds = Math.floor(millis / 1000);
  const units = [["d", 86400, 3600, "h"], ["h", 3600, 60, "m"], ["m", 60, 1, "s"]];
  for (const [unit, size, below, name] of units) {
    if (seconds < size) continue;
    const rest = Math.floor((seconds % size) / below);
    return Math.floor(seconds / size) + unit + (rest ? " " + rest + name : "");
  }
  return seconds + "s";
}
const pad = (number) => String(number).padStart(2, "0");
function clock(at, withDay = true) {
  const date = new Date(data.epoch * 1000 + at);
  const time = pad(date.getHours()) + ":" + pad(date.getMinutes()) + ":" + pad(date.getSeconds());
  return withDay ? `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${time}` : time;
}
const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

// --- colours: neighbours on the colour wheel are far from each other in the list

const hue = (place) => Math.round((205 + place * 137.508) % 360);
let by = "vc";
const colorOf = (job) => (by === "job" ? hue(job.number || job.place + 1) : hue(vcPlace.get(job.vc) ?? data.vcs.length));
const letterOf = (job) => {
  const place = by === "job" ? (job.number || job.place + 1) - 1 : vcPlace.get(job.vc) ?? data.vcs.length;
  return LETTERS[place % LETTERS.length];
};

// --- devices

const boxes = []; // [element, job] of every box that a job colours
const byJob = new Map(); // job place -> elements that show it

function remember(element, place) {
  element.dataset.job = place;
  if (!byJob.has(place)) byJob.set(place, []);
  byJob.get(place).push(element);
}

function paint() {
  const few = document.body.classList.contains("few");
  for (const [element, job, lower] of boxes) {
    element.style.setProperty("--h", colorOf(job));
    if (few) element.textContent = lower ? letterOf(job).toLowerCase() : letterOf(job);
  }
  const legend = [];
  const item = (color, letter, name) => legend.push(el("li", {}, el("span", { class: "swatch", "--h": color }),
    (few ? letter + " " : "") + name));
  const running = jobs.filter((job) => byJob.has(job.place));
  if (by === "vc") data.vcs.forEach((vc, place) => item(hue(place), LETTERS[place % LETTERS.length], vc.name));
  else if (running.length <= LETTERS.length) for (const job of running) item(colorOf(job), letterOf(job), job.key);
  else legend.push(el("li", { text: "many jobs look alike: hover over a device for its name, click it to follow the job" }));
  $("names").replaceChildren(...legend);
}

function leavesOf(cell) { return cell[5] ? cell[5].flatMap(leavesOf) : [cell]; }
function nodesOf(cell) { return cell[2] || !cell[5] ? [cell] : cell[5].flatMap(nodesOf); }

function device(cell, where, few) {
  const [index, , , healthy, virtual, , state, vc, user, hold, reserver] = cell;
  const job = jobs[user], box = el("span", { class: "device" });
  const words = [`${where}, device ${index}`, state + (healthy ? "" : ", bad hardware")];
  if (job) {
    box.classList.add("used");
    if (hold === "opportunistic") box.classList.add("opportunistic");
    if (hold === "lazily preempted") box.classList.add("lazy");
    boxes.push([box, job, hold !== "guaranteed"]);
    remember(box, user);
    words.push(`job ${job.key} (${hold}), VC ${job.vc || "?"}`);
  } else if (few) box.textContent = index;
  if (!healthy) box.classList.add("bad");
  if (reserver >= 0) {
    box.classList.add("reserved");
    words.push(`reserved for ${jobs[reserver].key}`);
  }
  if (virtual) words.push(`serves virtual cell ${virtual}`);
  else if (vc >= 0 && !job) words.push(`VC ${data.vcs[vc].name}`);
  box.dataset.tip = words.join("\n");
  return box;
}

function part(cell, where, few) {
  if (!cell[5]) return device(cell, where, few);
  return el("span", { class: `part level${Math.min(cell[1], 6)}` }, ...cell[5].map((child) => part(child, where, few)));
}

const condition = new Map(data.nodes.map((row) => [row[0], row]));

function nodeRow(cell, few) {
  const name = cell[0], leaves = leavesOf(cell), view = condition.get(name);
  const state = view ? view[4] : "not in the cluster";
  const users = new Map();
  for (const leaf of leaves) {
    const job = jobs[leaf[8]];
    if (!job) continue;
    job.nodes.add(name);
    job.hold = leaf[9];
    users.set(job.key, (users.get(job.key) || 0) + 1);
  }
  const used = [...users].map(([key, number]) => `${number} by ${key}`);
  const words = `${name}: ${state}, ${plural(leaves.length, "device")}, ` + (used.length ? used.join(", ") : "all free");
  const row = el("div", { class: "node" + (state === "Ready" ? "" : " down"), role: "listitem", tabindex: "-1",
    "aria-label": words }, el("b", { text: name }), part(cell, name, few));
  row.firstChild.dataset.tip = words.replaceAll(", ", "\n") + (view && view[1] ? `\n${view[1]}` : "");
  if (few && state !== "Ready") row.append(el("small", { text: state }));
  return row;
}

function topPanel(title, cells, few) {
  const leaves = cells.flatMap(leavesOf), used = leaves.filter((leaf) => leaf[8] >= 0).length;
  const list = el("div", { class: "nodes", role: "list", "aria-label": title });
  list.append(...cells.flatMap(nodesOf).map((cell) => nodeRow(cell, few)));
  const first = list.firstElementChild;
  if (first) first.tabIndex = 0;
  return el("div", { class: "top" },
    el("h3", { text: title + " " }, el("small", { text: `${used} of ${plural(leaves.length, "device")} used` })), list);
}

function drawDevices() {
  const few = document.body.classList.contains("few");
  const home = $("chains");
  for (const chain of data.chains) {
    const tops = el("div", { class: "tops" });
    if (chain.cells.every((cell) => cell[2])) tops.append(topPanel(chain.name, chain.cells, few));
    else for (const cell of chain.cells) tops.append(topPanel(`${chain.name} ${cell[0]}`, [cell], few));
    const shape = [];
    for (let cell = chain.cells[0], level = chain.types.length - 1; cell[5]; cell = cell[5][0], level--)
      shape.push(`${cell[5].length} × ${chain.types[level - 1]}`);
    home.append(el("div", { class: "chain" },
      el("h3", { text: chain.name + " " }, el("small", { text: shape.length ? "= " + shape.join(" = ") : "" })), tops));
  }
  if (!data.chains.length) home.append(el("p", { class: "empty", text: "There are no cells." }));
  home.addEventListener("keydown", (event) => { // arrows go from node to node: one stop for the tab key
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const nodes = [...home.querySelectorAll(".node")], at = nodes.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    (nodes[at + step] || nodes[at]).focus();
  });
  home.addEventListener("focusin", (event) => {
    if (event.target.classList.contains("node")) showTip(event.target.firstChild.dataset.tip, event.target.getBoundingClientRect());
  });
  home.addEventListener("focusout", hideTip);
}

// --- virtual clusters

function drawVcs() {
  const few = document.body.classList.contains("few");
  data.vcs.forEach((vc, place) => {
    const quota = vc.cells.reduce((sum, cell) => sum + cell[6].length, 0);
    const used = vc.cells.reduce((sum, cell) => sum + cell[6].filter((user) => user >= 0).length, 0);
    const doomed = vc.cells.filter((cell) => cell[2] === "Doomed");
    const lost = doomed.reduce((sum, cell) => sum + cell[6].length, 0);
    const words = [`${used} of ${quota} promised devices used`];
    if (vc.extra) words.push(`${vc.extra} more without guarantee`);
    if (vc.waiting) words.push(`${plural(vc.waiting, "job")} waiting`);
    const meter = el("div", { class: "meter", role: "img", "aria-label": words.join(", "), "--h": hue(place) });
    meter.append(el("i"), el("i", { class: "doomed" }));
    meter.children[0].style.width = (quota ? (100 * used) / quota : 0) + "%";
    meter.children[1].style.width = (quota ? (100 * lost) / quota : 0) + "%";
    const swatch = el("span", { class: "swatch", "--h": hue(place) });
    const card = el("div", { class: "vc" }, el("h3", {}, swatch, " " + vc.name), el("p", { text: words.join(" · ") }));
    if (doomed.length) card.append(el("p", { class: "alarm",
      text: `${plural(doomed.length, "cell")} doomed: only bad hardware is left to serve ${doomed.length === 1 ? "it" : "them"}` }));
    card.append(meter, el("div", { class: "cells" }, ...vc.cells.map((cell) => virtualCell(cell, few))));
    $("vc-cards").append(card);
  });
  if (!data.vcs.length) $("vc-cards").append(el("p", { class: "empty", text: "There are none." }));
}

function virtualCell([address, kind, state, physical, healthy, pinned, users], few) {
  const cell = el("div", { class: "cell" });
  const words = [state === "Doomed" ? "doomed: only bad hardware is left" : state.toLowerCase()];
  if (state === "Doomed") cell.classList.add("doomed");
  else if (!healthy) {
    cell.classList.add("sick");
    words.push("on bad hardware");
  }
  if (pinned) {
    cell.classList.add("pinned");
    words.push(`pinned as ${pinned}`);
  }
  if (physical) words.push(`= ${physical}`);
  for (const user of users) {
    const box = el("span", { class: "device" });
    if (user >= 0) {
      box.classList.add("used");
      boxes.push([box, jobs[user], false]);
      remember(box, user);
      box.dataset.tip = `${address} (${kind})\njob ${jobs[user].key}\n${words.join("\n")}`;
    } else box.dataset.tip = `${address} (${kind})\n${words.join("\n")}`;
    cell.append(box);
  }
  cell.setAttribute("role", "img");
  cell.setAttribute("aria-label", `${address}, ${kind}: ${words.join(", ")}`);
  if (few) cell.append(el("span", { class: "words", text: `${address} ${kind}: ${words.join(", ")}` }));
  return cell;
}

// --- the timeline: positions are percentages of the width, so that zooming is a change of one width

const OUTCOMES = [["running", "runs"], ["finished", "finished"], ["preempted", "preempted"], ["lost", "node lost"],
  ["failed", "failed"], ["stopped", "stopped"]];
const MARKS = { preempted: "M-4 -5 L4 -5 L0 3 Z", lost: "M-4 -4 L4 4 M4 -4 L-4 4", failed: "M-4 -4 L4 4 M4 -4 L-4 4",
  stopped: "M-3 -3 H3 V3 H-3 Z" };
const gantt = $("gantt"), bars = $("bars"), axis = $("axis"), labels = $("labels");
let zoom = 1, chart = null, picked = -1, current = null;
const first = Math.min(...jobs.map((job) => job.submitted), ...data.marks.map((mark) => mark[0]), data.now);
const length = Math.max(data.now - first, 1000);
const x = (at) => ((at - first) / length * 98.5).toFixed(4) + "%"; // a little room for what is now
const w = (from, to) => Math.max((to - from) / length * 98.5, 0.0001).toFixed(4) + "%";

const place = ({ node, devices }) => `${node}, device${devices.length === 1 ? "" : "s"} ${devices.join(", ")}`;

function storyOf(bar) {
  const { job, task, attempt, tasks } = bar;
  if (!attempt) return `${job.key}\n${bar.words}`;
  const number = task.attempts.indexOf(attempt) + 1, end = attempt.end ?? data.now;
  const lines = [job.key, `${tasks || `${task.role}[${task.index}]`}, attempt ${number} of ${task.attempts.length}`,
    !attempt.reason || attempt.reason.startsWith(attempt.outcome) ? attempt.reason || attempt.outcome : `${attempt.outcome}: ${attempt.reason}`,
    `${clock(attempt.start)} – ${attempt.end === null ? "now" : clock(attempt.end)} (${span(end - attempt.start)})`];
  lines.push(bar.where || place(attempt), `VC ${job.vc}, ${job.priority}`);
  return lines.join("\n");
}

// Tasks of a job that shared every fate are one lane.
function lanesOf(job) {
  const lanes = new Map();
  for (const task of job.tasks) {
    const key = JSON.stringify([task.waits, task.attempts.map((a) => [a.start, a.end, a.outcome])]);
    if (!lanes.has(key)) lanes.set(key, []);
    lanes.get(key).push(task);
  }
  return [...lanes.values()];
}

function jobRows() {
  const wanted = $("timeline-filter").value.trim().toLowerCase();
  const rows = [];
  for (const job of jobs) {
    if (!job.tasks.length || !matches(job, wanted)) continue;
    const lanes = lanesOf(job), size = lanes.length > 3 ? 6 : lanes.length > 1 ? 8 : 12, list = [];
    lanes.forEach((tasks, lane) => {
      const y = 3 + lane * (size + 1), task = tasks[0];
      for (const [from, to] of task.waits) list.push({ job, y: y + size / 2 - 1.5, h: 3, from, to: to ?? data.now, kind: "wait",
        words: `waits ${clock(from)} – ${to === null ? "now" : clock(to)} (${span((to ?? data.now) - from)})` });
      for (const attempt of task.attempts) {
        const number = task.attempts.indexOf(attempt), places = [...new Set(tasks.map((each) => place(each.attempts[number])))];
        list.push({ job, task, attempt, y, h: size, from: attempt.start, to: attempt.end ?? data.now, kind: attempt.outcome,
          tasks: tasks.length > 1 ? `${plural(tasks.length, "task")} from ${task.role}[${task.index}]` : "",
          where: places.slice(0, 6).join("; ") + (places.length > 6 ? ` and ${places.length - 6} more` : "") });
      }
    });
    rows.push({ label: job.key, more: `${job.vc} · ${job.state.toLowerCase()}`, job: job.place, h: 6 + lanes.length * (size + 1), bars: list });
  }
  return rows;
}

function runsOf(devices) { // neighbouring devices are drawn as one bar
  const runs = [];
  for (const index of [...devices].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last[1] === index - 1) last[1] = index;
    else runs.push([index, index]);
  }
  return runs;
}

function nodeRows() {
  const wanted = $("timeline-filter").value.trim().toLowerCase();
  const rows = new Map(), size = document.body.classList.contains("few") ? 13 : 4;
  for (const [name, , role, , state, , devices] of data.nodes)
    if (role === "worker") rows.set(name, { label: name, more: state, h: Math.max(14, devices * size + 4), bars: [] });
  const open = new Map();
  const down = (name, from, to, what) => rows.get(name)?.bars.push({ y: 0, h: rows.get(name).h, from, to, kind: "down",
    job: { key: name, place: -1 }, words: `${what} ${clock(from)} – ${to === data.now ? "now" : clock(to)}` });
  for (const [at, name, what] of data.marks) {
    if (open.has(name)) down(name, open.get(name)[0], at, open.get(name)[1]);
    open.delete(name);
    if (what === "Failed" || what === "Cordoned") open.set(name, [at, what]);
  }
  for (const [name, [at, what]] of open) down(name, at, data.now, what);
  for (const job of jobs) {
    if (!matches(job, wanted)) continue;
    for (const task of job.tasks) for (const attempt of task.attempts) {
      const row = rows.get(attempt.node);
      if (row) for (const [from, to] of runsOf(attempt.devices)) row.bars.push({ job, task, attempt, y: 2 + from * size,
        h: (to - from + 1) * size - (size > 6 ? 1 : 0), from: attempt.start, to: attempt.end ?? data.now, kind: attempt.outcome });
    }
  }
  return [...rows.values()];
}

function matches(job, wanted) {
  return !wanted || `${job.key} ${job.vc} ${job.priority} ${job.state}`.toLowerCase().includes(wanted);
}

function drawChart() {
  const rows = document.querySelector("input[name=rows]:checked").value === "jobs" ? jobRows() : nodeRows();
  const names = document.createDocumentFragment(), shapes = document.createDocumentFragment(), list = [];
  const marks = svg("g", {}), prints = svg("g", { class: "prints" }); // above all bars
  const definitions = svg("defs", {}), hatch = svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  hatch.append(svg("rect", { width: 2, height: 6, class: "lost" }));
  definitions.append(hatch, ...Object.entries(MARKS).map(([name, d]) => svg("path", { id: "mark-" + name, d })));
  const grid = svg("g", { class: "grid" });
  shapes.append(definitions, grid);
  let y = 0;
  rows.forEach((row, number) => {
    const label = el("div", { class: number % 2 ? "odd" : "" }, el("span", { text: row.label }), el("small", { text: row.more }));
    label.style.height = row.h + "px";
    label.dataset.tip = `${row.label}\n${row.more}`;
    if (row.job !== undefined) label.dataset.job = row.job;
    names.append(label);
    const printed = svg("text", { x: -8, y: y + Math.min(row.h / 2, 40) + 4 }); // labels beside the chart do not break with it
    printed.textContent = row.label;
    prints.append(printed);
    if (number % 2) shapes.append(svg("rect", { class: "odd", x: 0, y, width: "100%", height: row.h }));
    row.bars.sort((a, b) => a.from - b.from);
    for (const bar of row.bars) {
      bar.row = number;
      bar.top = y + bar.y;
      bar.shape = svg("rect", { class: (bar.attempt ? "lane " : "") + bar.kind, x: x(bar.from), y: bar.top, width: w(bar.from, bar.to), height: bar.h });
      bar.shape.dataset.bar = list.length;
      bar.number = list.length;
      list.push(bar);
      shapes.append(bar.shape);
      if (bar.attempt && MARKS[bar.kind]) marks.append(svg("use", { class: "mark", href: "#mark-" + bar.kind, x: x(bar.to), y: bar.top + Math.min(bar.h / 2, 6) }));
    }
    y += row.h;
  });
  if (!rows.length) names.append(el("p", { class: "empty", text: data.history ? "No such job." : "This page was made without history." }));
  shapes.append(marks, prints, svg("line", { class: "now", x1: x(data.now), x2: x(data.now), y1: 0, y2: "100%" }));
  labels.replaceChildren(names);
  bars.replaceChildren(shapes);
  bars.setAttribute("height", Math.max(y, 30));
  chart = { rows, list, grid, height: y };
  current = null;
  setZoom(zoom);
  follow(picked, false);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);

function setZoom(value, anchor = null) {
  const room = gantt.clientWidth - labels.offsetWidth;
  const before = room * zoom, at = anchor === null ? room / 2 : anchor;
  const middle = (gantt.scrollLeft + at) / before;
  zoom = Math.min(Math.max(value, 1), 256);
  const width = Math.max(Math.floor(room * zoom), 100);
  for (const part of [bars, axis]) part.style.width = width + "px";
  gantt.scrollLeft = middle * width - at;
  $("zoom-level").textContent = (zoom < 10 ? Math.round(zoom * 10) / 10 : Math.round(zoom)) + "×";
  const step = STEPS.find((each) => each / length * width * 0.985 > 90) || STEPS[STEPS.length - 1];
  const offset = new Date(data.epoch * 1000).getTimezoneOffset() * 60000, zero = data.epoch * 1000 - offset;
  const texts = [], lines = [];
  for (let tick = Math.ceil((zero + first) / step) * step - zero; tick <= data.now && texts.length < 2000; tick += step) {
    const text = svg("text", { x: x(tick), y: 16, dx: 3 });
    const time = clock(tick, false);
    text.textContent = step >= 86400000 ? clock(tick).slice(0, 10) : step >= 60000 ? time.slice(0, 5) : time;
    texts.push(svg("line", { x1: x(tick), x2: x(tick), y1: 4, y2: 26 }), text);
    lines.push(svg("line", { x1: x(tick), x2: x(tick), y1: 0, y2: chart.height }));
  }
  axis.replaceChildren(...texts);
  chart.grid.replaceChildren(...lines);
}

function tell(bar) {
  if (current) current.shape.classList.remove("at");
  current = bar;
  bar.shape.classList.add("at");
  $("told").textContent = storyOf(bar).replaceAll("\n", " · ");
  const room = gantt.clientWidth - labels.offsetWidth, box = bar.shape.getBBox();
  if (box.x < gantt.scrollLeft || box.x > gantt.scrollLeft + room) gantt.scrollLeft = box.x - room / 3;
  if (bar.top < gantt.scrollTop || bar.top > gantt.scrollTop + gantt.clientHeight - 60) gantt.scrollTop = bar.top - gantt.clientHeight / 3;
}

function neighbour(key) {
  if (!current) return chart.list[0];
  if (key === "ArrowRight") return chart.list[current.number + 1];
  if (key === "ArrowLeft") return chart.list[current.number - 1];
  const step = key === "ArrowDown" ? 1 : -1;
  for (let row = current.row + step; chart.rows[row]; row += step)
    if (chart.rows[row].bars.length) return chart.rows[row].bars.reduce((best, bar) =>
      Math.abs(bar.from - current.from) < Math.abs(best.from - current.from) ? bar : best);
  return null;
}

function follow(place, toggle = true) {
  const next = toggle && place === picked ? -1 : place;
  for (const element of byJob.get(picked) || []) element.classList.remove("chosen");
  for (const element of document.querySelectorAll(".chosen-row")) element.classList.remove("chosen-row");
  for (const bar of chart.list) bar.shape.classList.toggle("picked", next >= 0 && bar.job.place === next);
  bars.classList.toggle("following", next >= 0);
  picked = next;
  if (next < 0) return;
  for (const element of byJob.get(next) || []) element.classList.add("chosen");
  for (const element of document.querySelectorAll(`#labels [data-job="${next}"], tr[data-job="${next}"]`)) element.classList.add("chosen-row");
}

function drawTimeline() {
  for (const [name, words] of OUTCOMES) {
    const item = el("li", {}, el("span", { class: "swatch " + name }), words);
    if (MARKS[name]) {
      const icon = svg("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" });
      icon.append(svg("path", { d: MARKS[name], fill: "currentColor", stroke: "currentColor" }));
      item.append(icon);
    }
    $("outcomes").append(item);
  }
  $("outcomes").append(el("li", {}, el("span", { class: "swatch waits" }), "waits"), el("li", {}, el("span", { class: "swatch downs" }), "node failed or cordoned"));
  for (const input of document.querySelectorAll("input[name=rows]")) input.addEventListener("change", drawChart);
  $("timeline-filter").addEventListener("input", soon(drawChart));
  $("zoom-in").addEventListener("click", () => setZoom(zoom * 2));
  $("zoom-out").addEventListener("click", () => setZoom(zoom / 2));
  $("zoom-fit").addEventListener("click", () => setZoom(1));
  gantt.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    setZoom(zoom * Math.exp(-event.deltaY / 300), event.clientX - gantt.getBoundingClientRect().left - labels.offsetWidth);
  }, { passive: false });
  gantt.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const zooms = { "+": zoom * 2, "=": zoom * 2, "-": zoom / 2, "0": 1 };
    if (event.key in zooms) setZoom(zooms[event.key]);
    else if (event.key.startsWith("Arrow")) {
      const bar = neighbour(event.key);
      if (bar) tell(bar);
    } else if (event.key === "Enter" && current) follow(current.job.place);
    else return;
    event.preventDefault();
  });
  bars.addEventListener("click", (event) => {
    const bar = chart.list[event.target.dataset.bar];
    if (!bar) return;
    tell(bar);
    follow(bar.job.place);
  });
  drawChart();
  let width = gantt.clientWidth;
  addEventListener("resize", soon(() => {
    if (gantt.clientWidth !== width) setZoom(zoom);
    width = gantt.clientWidth;
  }));
  addEventListener("beforeprint", () => setZoom(1));
}

function soon(act) { // typing and resizing come in bursts
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, 120);
  };
}

// --- the table of jobs

const RANK = { Running: 0, Waiting: 1 };
const ran = (job) => (job.started === null ? null : (job.ended ?? data.now) - job.started);
const waited = (job) => (job.started ?? job.ended ?? data.now) - job.submitted;
const COLUMNS = [
  ["Job", (job) => job.key, (job) => job.key],
  ["VC", (job) => job.vc, (job) => job.vc],
  ["Class", (job) => job.priority, (job) => job.priority],
  ["State", (job) => RANK[job.state] ?? 2, (job) => job.state],
  ["Devices", (job) => job.devices, (job) => job.devices, true],
  ["Submitted", (job) => job.submitted, (job) => clock(job.submitted)],
  ["Waited first", waited, (job) => span(waited(job)), true],
  ["Since start", ran, (job) => (ran(job) === null ? "–" : span(ran(job))), true],
  ["Preempted", (job) => job.preemptions, (job) => job.preemptions || "", true],
  ["Remarks", (job) => job.remark, (job) => {
    const words = [...job.nodes].sort();
    const where = words.length > 4 ? [...words.slice(0, 4), `and ${words.length - 4} more`] : words;
    return [where.join(", "), job.hold === "opportunistic" ? "opportunistic" : "", job.remark].filter(Boolean).join("; ");
  }],
];
let sorted = [5, 1];

function drawHead() {
  const row = el("tr");
  COLUMNS.forEach(([name, , , number], place) => {
    const button = el("button", { type: "button", text: name });
    button.addEventListener("click", () => {
      sorted = [place, sorted[0] === place ? -sorted[1] : 1];
      drawTable();
    });
    row.append(el("th", { scope: "col", class: number ? "number" : "" }, button));
  });
  document.querySelector("#job-table thead").append(row);
  $("job-filter").addEventListener("input", soon(drawTable));
  document.querySelector("#job-table tbody").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-job]");
    if (row) follow(Number(row.dataset.job));
  });
}

function drawTable() {
  const [column, direction] = sorted, value = COLUMNS[column][1];
  const wanted = $("job-filter").value.trim().toLowerCase();
  const shown = jobs.filter((job) => matches(job, wanted));
  const order = (a, b) => (a === b ? 0 : a === null ? -1 : b === null ? 1 : a < b ? -1 : 1);
  shown.sort((a, b) => direction * order(value(a), value(b)) || a.place - b.place);
  const rows = document.createDocumentFragment();
  for (const job of shown) {
    const row = el("tr", { "data-job": job.place, class: job.place === picked ? "chosen-row" : "" });
    for (const [, , text, number] of COLUMNS) row.append(el("td", { class: number ? "number" : "", text: text(job) }));
    rows.append(row);
  }
  document.querySelector("#job-table tbody").replaceChildren(rows);
  document.querySelectorAll("#job-table th").forEach((head, place) => {
    if (place === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
  $("job-count").textContent = shown.length === jobs.length ? plural(jobs.length, "job") : `${shown.length} of ${plural(jobs.length, "job")}`;
}

// --- the tooltip, and what is at the top

const tip = $("tip");
function showTip(words, box) {
  tip.textContent = words;
  tip.hidden = false;
  const below = box.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = Math.max(4, Math.min(box.left, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, below ? box.bottom + 8 : box.top - tip.offsetHeight - 8) + "px";
}
function hideTip() { tip.hidden = true; }

function drawTips() {
  document.addEventListener("mousemove", (event) => {
    const target = event.target.closest ? event.target.closest("[data-tip],[data-bar]") : null;
    if (!target) return hideTip();
    const words = target.dataset.tip ?? storyOf(chart.list[target.dataset.bar]);
    return showTip(words, { left: event.clientX, top: event.clientY, bottom: event.clientY + 6 });
  });
  document.addEventListener("mouseleave", hideTip);
  document.addEventListener("scroll", hideTip, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    hideTip();
    follow(-1, false);
  });
  for (const home of [$("chains"), $("vc-cards")]) home.addEventListener("click", (event) => {
    if (event.target.dataset.job) follow(Number(event.target.dataset.job));
  });
}

function drawTop(leaves) {
  $("name").textContent = data.cluster;
  $("when").textContent = `As it was on ${clock(data.now)}, ${span(data.now)} after it came up`;
  $("note").textContent = data.note;
  $("note").hidden = !data.note;
  const used = leaves.filter((leaf) => leaf[8] >= 0), bad = leaves.filter((leaf) => !leaf[3]).length;
  const free = leaves.filter((leaf) => leaf[8] < 0 && leaf[10] < 0 && leaf[3]).length;
  const count = (state) => jobs.filter((job) => job.state === state).length;
  const down = data.nodes.filter((row) => row[4] !== "Ready").length;
  const tiles = [["devices", leaves.length], ["used", used.length],
    ["of these without guarantee", used.filter((leaf) => leaf[9] !== "guaranteed").length], ["free", free],
    ["bad", bad, bad], ["reserved", leaves.filter((leaf) => leaf[10] >= 0).length], ["nodes not ready", down, down],
    ["jobs running", count("Running")], ["waiting", count("Waiting")], ["ended", jobs.length - count("Running") - count("Waiting")]];
  for (const [name, value, alarm] of tiles)
    $("tiles").append(el("div", { class: alarm ? "alarm" : "" }, el("dt", { text: name }), el("dd", { text: value })));
}

function start() {
  const leaves = data.chains.flatMap((chain) => chain.cells.flatMap(leavesOf));
  const few = leaves.length <= FEW;
  document.body.classList.toggle("few", few);
  by = few ? "job" : "vc";
  $("by-" + by).checked = true;
  for (const input of document.querySelectorAll("input[name=by]")) input.addEventListener("change", () => {
    by = input.value;
    paint();
  });
  drawTop(leaves);
  drawDevices();
  drawVcs();
  paint();
  drawTimeline();
  drawHead();
  drawTable();
  drawTips();
}
start();
