// --- the table of jobs

const RANK = { Running: 0, Waiting: 1 };
const ran = (job) => (job.started === null ? null : (job.ended ?? data.now) - job.started);
// A job that starts again has another `started`; how long it waited first is told by its tasks.
const firstStart = (job) => job.tasks.flatMap((task) => task.attempts).reduce(
  (least, attempt) => Math.min(least, attempt.start), job.started ?? job.ended ?? data.now);
const waited = (job) => firstStart(job) - job.submitted;
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
  $("when").textContent = `State at ${clock(data.now)}, ${span(data.now)} after the start of the cluster`;
  $("note").textContent = data.note;
  $("note").hidden = !data.note;
  const used = leaves.filter((leaf) => leaf[8] >= 0), bad = leaves.filter((leaf) => !leaf[3]).length;
  const free = leaves.filter((leaf) => leaf[8] < 0 && leaf[10] < 0 && leaf[3]).length;
  const count = (state) => jobs.filter((job) => job.state === state).length;
  const down = data.nodes.filter((row) => row[4] !== "Ready").length;
  const tiles = [["devices", leaves.length], ["used", used.length],
    ["of these without a guarantee", used.filter((leaf) => leaf[9] !== "guaranteed").length], ["free", free],
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
