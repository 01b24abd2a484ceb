"use strict";
// The data of the page (see paictl/cluster/page.py for the meaning of each place in a row), and the cells drawn from it.
// Everything that comes from a cluster reaches the page through textContent or attributes, never as markup.
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
      attempts: attempts.map(([start, end, outcome, node, at, reason, shown]) => ({ start, end, outcome, node, devices: at, reason, shown })) })) };
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
  else legend.push(el("li", { text: "many jobs look alike: hover over a device to see its job, click it to follow the job" }));
  $("names").replaceChildren(...legend);
}

function leavesOf(cell) { return cell[5] ? cell[5].flatMap(leavesOf) : [cell]; }
function nodesOf(cell) { return cell[2] || !cell[5] ? [cell] : cell[5].flatMap(nodesOf); }

function device(cell, where, few, gpus) { // gpus: MIG instances of each GPU where leaf cells are these, else 0
  const [leaf, , , healthy, virtual, , state, vc, user, hold, reserver] = cell;
  const job = jobs[user], box = el("span", { class: "device" });
  const index = gpus ? `${Math.floor(leaf / gpus)}:${leaf % gpus}` : leaf;
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

function part(cell, where, few, gpus) {
  if (!cell[5]) return device(cell, where, few, gpus);
  return el("span", { class: `part level${Math.min(cell[1], 6)}` }, ...cell[5].map((child) => part(child, where, few, gpus)));
}

const condition = new Map(data.nodes.map((row) => [row[0], row]));

function nodeRow(cell, few, gpus) {
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
    "aria-label": words }, el("b", { text: name }), part(cell, name, few, gpus));
  row.firstChild.dataset.tip = words.replaceAll(", ", "\n") + (view && view[1] ? `\n${view[1]}` : "");
  if (few && state !== "Ready") row.append(el("small", { text: state }));
  return row;
}

function topPanel(title, cells, few, gpus) {
  const leaves = cells.flatMap(leavesOf), used = leaves.filter((leaf) => leaf[8] >= 0).length;
  const list = el("div", { class: "nodes", role: "list", "aria-label": title });
  list.append(...cells.flatMap(nodesOf).map((cell) => nodeRow(cell, few, gpus)));
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
    if (chain.cells.every((cell) => cell[2])) tops.append(topPanel(chain.name, chain.cells, few, chain.instances));
    else for (const cell of chain.cells) tops.append(topPanel(`${chain.name} ${cell[0]}`, [cell], few, chain.instances));
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
