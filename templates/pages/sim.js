"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "12 3", "1 4", "7 2 2 2"];
const colour = (run) => `var(--c${run % 8})`;
const shown = new Set(data.runs.map((_, run) => run));

function el(name, given = {}, ...children) {
  const made = document.createElement(name);
  set(made, given);
  made.append(...children);
  return made;
}

function svg(name, given = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  set(made, given);
  made.append(...children);
  return made;
}

function set(element, given) {
  for (const [key, value] of Object.entries(given)) {
    if (key === "text") element.textContent = value;
    else if (key === "style") element.style.cssText = value;
    else element.setAttribute(key, value);
  }
}

function key(run) {
  const line = svg("line", { x1: 1, y1: 6, x2: 26, y2: 6, "stroke-width": 3, "stroke-dasharray": DASHES[run % 8] });
  line.style.stroke = colour(run);
  return svg("svg", { class: "key", viewBox: "0 0 27 12", "aria-hidden": "true" }, line);
}

// --- words: keys are English, data.words has them in the language of the page

function said(key, given = {}) {
  return (data.words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => given[name]);
}

function translate() {
  for (const element of document.querySelectorAll("[data-said]")) {
    const label = element.getAttribute("aria-label");
    if (label) element.setAttribute("aria-label", said(label));
    else element.textContent = said(element.textContent.trim());
  }
}

function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds), sign = seconds < 0 ? "−" : "";
  if (size < 1) return size === 0 ? "0s" : `${sign}${size.toFixed(2)}s`;
  if (size < 100) return `${sign}${+size.toFixed(1)}s`;
  if (size < 5400 && size !== 3600) return `${sign}${+(size / 60).toFixed(1)}m`;
  if (size < 172800) return `${sign}${+(size / 3600).toFixed(1)}h`;
  return `${sign}${+(size / 86400).toFixed(1)}d`;
}
const count = (value) => (value >= 10000 ? Math.round(value).toLocaleString("en") : `${+value.toFixed(1)}`);
const share = (value) => `${(100 * value).toFixed(1)}%`;
const percent = (value) => `${+(100 * value).toFixed(1)}%`;
const jobs = (number) => said(number === 1 ? "{number} job" : "{number} jobs", { number: number.toLocaleString("en") });

// --- scales

function nice(top) {
  const power = 10 ** Math.floor(Math.log10(top / 4 || 1));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => top / step <= 5) ?? 10 * power;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
  864000, 1728000, 4320000, 8640000];

function linear(low, high, words, steps) {
  const width = high - low || 1;
  const step = steps ? steps.find((one) => width / one <= 7) ?? steps[steps.length - 1] : nice(width);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) ticks.push(at);
  return { place: (value) => (value - low) / width, value: (part) => low + part * width, ticks, words };
}

function logarithmic(low, high, words) {
  const bottom = Math.log(low), width = Math.log(high) - bottom || 1;
  const all = [0.1, 1, 10, 60, 300, 1800, 7200, 36000, 172800, 864000, 2592000, 12960000];
  return {
    place: (value) => (Math.log(Math.max(value, low)) - bottom) / width,
    value: (part) => Math.exp(bottom + part * width),
    ticks: (high > 1000 * low ? all : STEPS).filter((tick) => tick >= low && tick <= high), words,
  };
}

// --- one chart: curves [[x, y], ...] of the runs that are shown

const LEFT = 52, RIGHT = 22, TOP = 10, BOTTOM = 26;

function at(curve, x, steps) {
  let low = 0, high = curve.length - 1;
  if (high < 0 || x < curve[0][0]) return steps ? 0 : null;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (curve[middle][0] <= x) low = middle;
    else high = middle - 1;
  }
  return curve[low][1];
}

function chart(box, given) {
  const H = given.height ?? 240;
  let W = 900; // as wide as its box, so that text keeps its size on a phone
  const x = (value) => LEFT + given.x.place(value) * (W - LEFT - RIGHT);
  const y = (value) => H - BOTTOM - given.y.place(value) * (H - TOP - BOTTOM);
  const told = el("p", { class: "told", "aria-live": "polite" });
  const drawing = svg("svg", { role: "img", tabindex: 0, "aria-label": given.label });
  let cursor = null;

  function draw() {
    drawing.replaceChildren();
    set(drawing, { viewBox: `0 0 ${W} ${H}`, height: H });
    const base = given.base ?? 0;
    let last = Infinity; // no label over another, and none over that of the axis
    for (const tick of given.y.ticks) {
      if (tick !== base && (last - y(tick) < 12 || Math.abs(y(tick) - y(base)) < 12)) continue;
      last = y(tick);
      drawing.append(svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) }));
      drawing.append(svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end", text: given.y.words(tick) }));
    }
    let free = 0;
    for (const tick of given.x.ticks) {
      if (x(tick) < free) continue; // no label over another
      free = x(tick) + 46;
      drawing.append(svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: H - BOTTOM }));
      drawing.append(svg("text", { x: x(tick), y: H - 8, "text-anchor": "middle", text: given.x.words(tick) }));
    }
    drawing.append(svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(base), y2: y(base) }));
    for (const [run, curve] of given.curves) {
      if (given.always || shown.has(run)) drawing.append(path(run, curve));
    }
    if (cursor !== null) {
      drawing.append(svg("line", { class: "cursor", x1: x(cursor), x2: x(cursor), y1: TOP, y2: H - BOTTOM }));
    }
  }

  function path(run, curve) {
    let d = "", before = null;
    for (const [px, py] of curve) {
      const place = `${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
      d += before === null ? `M${place}` : given.steps ? `H${x(px).toFixed(1)}V${y(py).toFixed(1)}` : `L${place}`;
      before = py;
    }
    const line = svg("path", { class: "curve", d, "stroke-dasharray": DASHES[run % 8] });
    line.style.stroke = given.colour ?? colour(run);
    return line;
  }

  function read(value) {
    cursor = value;
    told.replaceChildren(el("span", { text: given.where(value) }));
    for (const [run, curve] of given.curves) {
      if (!given.always && !shown.has(run)) continue;
      const found = at(curve, value, given.steps);
      told.append(el("span", {}, given.always ? "" : key(run), `${given.names?.[run] ?? data.runs[run].label}: ${found === null ? "–" : given.told(found)}`));
    }
    draw();
  }

  drawing.addEventListener("pointermove", (event) => {
    const frame = drawing.getBoundingClientRect();
    const part = (((event.clientX - frame.left) / frame.width) * W - LEFT) / (W - LEFT - RIGHT);
    read(given.x.value(Math.min(1, Math.max(0, part))));
  });
  drawing.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1, Home: -2, End: 2 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    read(given.x.value(Math.min(1, Math.max(0, (cursor === null ? 0 : given.x.place(cursor)) + by))));
  });
  drawing.addEventListener("blur", () => { cursor = null; draw(); });
  box.replaceChildren(drawing, told);
  new ResizeObserver(() => {
    const now = Math.max(240, Math.round(drawing.clientWidth));
    if (now !== W) { W = now; draw(); }
  }).observe(box);
  draw();
  return () => { draw(); if (cursor !== null) read(cursor); };
}

// --- the parts of the page

const redraws = [];

function head() {
  document.title = data.title;
  $("title").textContent = data.title;
  $("about").textContent = data.about;
  $("warnings").hidden = !data.warnings.length;
  for (const text of data.warnings) $("warnings").append(el("li", { text }));
  data.runs.forEach((run, place) => {
    const box = el("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => {
      if (box.checked) shown.add(place);
      else shown.delete(place);
      redraws.forEach((draw) => draw());
    });
    $("shown").append(el("label", {}, box, key(place), run.label));
  });
  $("shown").hidden = data.runs.length < 2;
}

const WORDS = { span, count, share };

function figures() {
  const first = el("tr", {}, el("th", { scope: "col", text: "" }));
  for (const run of data.runs) first.append(el("th", { scope: "col", text: run.label }));
  const body = el("tbody");
  for (const [name, unit, better, values] of data.figures) {
    const row = el("tr", {}, el("th", { scope: "row", text: said(name) }));
    const known = values.filter((value) => value !== null);
    const best = better === 0 || new Set(known).size < 2 ? null : better < 0 ? Math.min(...known) : Math.max(...known);
    for (const value of values) {
      row.append(el("td", { class: value !== null && value === best ? "best" : "", text: value === null ? "–" : WORDS[unit](value) }));
    }
    body.append(row);
  }
  $("figure-table").append(el("thead", {}, first), body);
  for (const run of data.runs.filter((one) => one.parameters)) {
    $("parameters").append(el("li", { text: said("{label} with {parameters}", run) }));
  }
  $("parameters").hidden = !$("parameters").children.length;
}

function curves(name) {
  return data.runs.map((run, place) => [place, run[name]]);
}

function charts() {
  const times = data.runs.flatMap((run) => run.jct.map((point) => point[0])).filter((value) => value > 0);
  const low = Math.max(0.1, Math.min(...times, 1e9)), high = Math.max(low * 10, ...times);
  redraws.push(chart($("chart-jct"), {
    label: said("Share of jobs by completion time"), curves: curves("jct"), steps: true,
    x: logarithmic(low, high, span), y: linear(0, 1, percent), where: (value) => said("within {span}", { span: span(value) }), told: share,
  }));
  const end = Math.max(1, ...data.runs.flatMap((run) => run.used.slice(-1).map((point) => point[0])));
  const axis = linear(0, end, span, STEPS);
  const top = Math.max(1, ...data.runs.flatMap((run) => run.queue.map((point) => point[1])));
  const where = (value) => said("after {span}", { span: span(value) });
  redraws.push(chart($("chart-queue"), {
    label: said("Waiting jobs over time"), curves: curves("queue"), steps: true, x: axis, y: linear(0, top * 1.05, count),
    where, told: (value) => jobs(Math.round(value * 10) / 10), height: 200,
  }));
  redraws.push(chart($("chart-used"), {
    label: said("Share of devices in use over time"), curves: curves("used"), steps: true, x: axis, y: linear(0, 1, percent),
    where, told: share, height: 200,
  }));
  if (data.runs.every((run) => !run.located)) {
    $("chart-fragments").replaceWith(el("p", { class: "help", text: said("These policies ignore placement.") }));
    return;
  }
  const most = Math.max(0.01, ...data.runs.flatMap((run) => run.fragments.map((point) => point[1])));
  redraws.push(chart($("chart-fragments"), {
    label: said("Share of devices that are free on partly used nodes over time"), curves: curves("fragments").filter(([run]) => data.runs[run].located), steps: true,
    x: axis, y: linear(0, most * 1.05, percent), where, told: share, height: 160,
  }));
}

function tenants() {
  const names = [...new Set(data.runs.flatMap((run) => run.tenants.map((row) => row[0])))];
  const find = (run, name) => data.runs[run].tenants.find((row) => row[0] === name);
  const bars = $("chart-tenants");
  function draw() {
    bars.replaceChildren();
    const runs = [...shown].sort((a, b) => a - b);
    const top = Math.max(1, ...runs.flatMap((run) => data.runs[run].tenants.map((row) => row[2])));
    for (const name of runs.length ? names.slice(0, 12) : []) {
      const label = el("span", { class: "name", text: name || said("(no tenant)") });
      label.style.setProperty("--n", runs.length);
      bars.append(label);
      for (const run of runs) {
        const wait = find(run, name)?.[2] ?? 0;
        const bar = el("i");
        bar.style.cssText = `width: ${(100 * wait) / top}%; background: ${colour(run)}`;
        bars.append(el("div", { title: data.runs[run].label }, bar), el("span", { text: span(wait) }));
      }
      bars.append(el("span", { class: "gap" }));
    }
  }
  $("tenants").insertBefore(el("p", { class: "help", text: names.length > 12
    ? said("Mean time without devices, for 12 of {count} tenants; the table lists all.", { count: names.length })
    : said("Mean time without devices.") }), bars);
  draw();
  redraws.push(draw);
  const first = el("tr");
  for (const word of ["Tenant", "Run", "Number of jobs", "Mean wait", "Longest wait", "Mean completion", "95% done within", "Device hours"]) {
    first.append(el("th", { scope: "col", text: said(word), class: word === "Run" ? "words" : "" }));
  }
  const body = el("tbody");
  for (const name of names) {
    data.runs.forEach((run, place) => {
      const row = find(place, name);
      if (!row) return;
      body.append(el("tr", {}, el("th", { scope: "row", text: name || said("(no tenant)") }), el("td", { class: "words", text: run.label }),
        el("td", { text: count(row[1]) }), ...row.slice(2, 6).map((value) => el("td", { text: span(value) })),
        el("td", { text: count(row[6]) })));
    });
  }
  $("tenant-table").append(el("thead", {}, first), body);
}

function symmetric(limit) {
  const bend = (value) => Math.sign(value) * Math.log1p(Math.abs(value) / 10);
  const top = bend(Math.max(limit, 60)), all = [10, 60, 600, 3600, 36000, 432000, 4320000];
  const ticks = all.filter((tick, place) => tick <= limit && (limit < 36000 || place % 2));
  return {
    place: (value) => (bend(value) / top + 1) / 2, value: (part) => part, words: span,
    ticks: [...ticks.map((tick) => -tick).reverse(), 0, ...ticks],
  };
}

function pairs() {
  $("pairs").hidden = !data.pairs.length;
  $("to-pairs").hidden = !data.pairs.length;
  data.pairs.forEach((pair, place) => {
    const all = pair.better + pair.worse + pair.same || 1;
    const split = el("div", { class: "split", role: "img", "aria-label": said("{better} better, {same} same, {worse} worse", pair) });
    for (const kind of ["better", "same", "worse"]) {
      const part = el("i", { class: kind, title: said(`{count} ${kind}`, { count: pair[kind] }) });
      part.style.width = `${(100 * pair[kind]) / all}%`;
      split.append(part);
    }
    const box = el("div", { class: "chart" });
    const limit = Math.max(1, ...pair.curve.map((point) => Math.abs(point[1])));
    chart(box, {
      label: said("Difference in completion times, {b} minus {a}, job by job from most gained to most lost", pair),
      curves: [[0, pair.curve]], always: true, colour: "var(--accent)", steps: false, height: 170, base: 0,
      names: [said("job")], x: linear(0, 1, (value) => `${Math.round(100 * value)}%`), y: symmetric(limit),
      where: (value) => said("{percent}% of the jobs", { percent: Math.round(100 * value) }),
      told: (value) => said("{span} or less", { span: span(value) }),
    });
    $("pair-list").append(el("div", { class: "pair" }, el("h3", { text: said("{b} against {a}", pair) }), split,
      el("p", { text: said("{better} jobs complete earlier under {b}, by {gain} on average; {worse} later, by {loss}; {same} at the same time. Mean difference {mean}.", {
        b: pair.b, better: jobs(pair.better), gain: span(pair.gain), worse: jobs(pair.worse), loss: span(pair.loss),
        same: pair.same.toLocaleString("en"), mean: span(pair.mean),
      }) }),
      el("details", place < 3 ? { open: "" } : {}, el("summary", { text: said("By how much, from most gained to most lost") }), box)));
  });
}

translate();
head();
figures();
charts();
tenants();
pairs();
