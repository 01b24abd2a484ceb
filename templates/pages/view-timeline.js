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

const place = ({ node, devices, shown }) => `${node}, device${devices.length === 1 ? "" : "s"} ${shown}`;

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
