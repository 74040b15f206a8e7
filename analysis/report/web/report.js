"use strict";
// The report: opens the chosen run, draws its timeline and charts.

const openedRuns = new Map();

async function showRun(number) {
  for (const article of document.querySelectorAll("article.run")) article.hidden = article.id !== `run-${number}`;
  for (const choice of document.querySelectorAll("[name=run]")) choice.checked = choice.value === String(number);
  return openedRun(number);
}

/** The timeline of a run, which is decoded and drawn when it is first needed. */
function openedRun(number) {
  if (!openedRuns.has(number)) openedRuns.set(number, openRun(document.getElementById(`run-${number}`), number));
  return openedRuns.get(number);
}

async function openRun(article, number) {
  const holder = document.getElementById(`payload-${number}`);
  const run = await decodePayload(holder.textContent);
  holder.remove();
  const timeline = new Timeline(article.querySelector(".timeline-view"), run, describeSegment);
  drawCharts(article, run);
  bindJobs(article, run, timeline);
  article.dataset.ready = "yes";
  return timeline;
}

function drawCharts(article, run) {
  const chart = (name) => article.querySelector(`[data-chart=${name}]`);
  const time = { xLabel: "time, emulated s", until: run.end_s };
  const used = usedOf(run);
  if (run.available_s) {
    const left = Float32Array.from(run.available_n, (count) => (100 * count) / run.containers);
    used.push({ name: "left by the transactional workload", x: run.available_s, y: left });
  }
  utilizationChart(chart("utilization"), run, used, time);
  const waiting = [
    { name: "jobs waiting", x: run.waiting_jobs_s, y: run.waiting_jobs_n },
    { name: "tasks suspended", x: run.suspended_s, y: run.suspended_n },
  ];
  stepChart(chart("queue"), waiting, { ...time, yLabel: "count" });
  const completions = queuesOf(run).map((queue) => ({ name: queue, values: completionsOf(run, queue) }));
  distributionChart(chart("completion"), completions, { xLabel: "completion time, s", yLabel: "share of jobs" });
  const overheads = Object.keys(run.columns).filter((name) => name.startsWith("overhead_"));
  const groups = overheads.map((name) => ({ name: name.slice(9).replaceAll("_", " "), values: run[name] }));
  distributionChart(chart("overheads"), groups, { xLabel: "duration, emulated s", yLabel: "share of operations" });
}

/** Completion times of a queue's jobs, ascending. */
function completionsOf(run, queue) {
  const mine = run.jobs.filter((job) => job.queue === queue && job.completion_s !== null);
  return mine.map((job) => job.completion_s).sort((a, b) => a - b);
}

/** Charts with a curve for each run. */
async function drawTogether(section) {
  const views = await Promise.all([...document.querySelectorAll("article.run")].map((_, number) => openedRun(number)));
  const names = JSON.parse(section.dataset.names);
  const runs = views.map(({ run }) => run);
  const until = greatest(runs.map(({ end_s }) => end_s));
  const time = { xLabel: "time, emulated s", until };
  const shares = runs.map((run, place) => ({
    name: names[place], x: run.at_work_s, y: Float32Array.from(run.at_work_n, (count) => (100 * count) / run.containers),
  }));
  const chart = (name) => section.querySelector(`[data-together="${CSS.escape(name)}"]`);
  stepChart(chart("utilization"), shares, { ...time, yLabel: "containers at work, %", most: Math.max(100, ...shares.map(({ y }) => greatest(y))) });
  const suspended = runs.map((run, place) => ({ name: names[place], x: run.suspended_s, y: run.suspended_n }));
  if (suspended.some(({ y }) => greatest(y) > 0)) stepChart(chart("suspended"), suspended, { ...time, yLabel: "tasks suspended" });
  else chart("suspended").parentElement.remove();
  for (const queue of new Set(runs.flatMap(queuesOf))) {
    const groups = runs.map((run, at) => ({ name: names[at], values: completionsOf(run, queue) }));
    if (groups.every(({ values }) => values.length === 0)) continue;
    const place = document.createElement("div");
    const head = document.createElement("h2");
    head.textContent = `Completion times: ${queue}`;
    place.append(head, document.createElement("div"));
    distributionChart(place.lastChild, groups, { xLabel: "completion time, s", yLabel: "share of jobs" });
    section.querySelector(".charts").append(place);
  }
  section.dataset.ready = "yes";
}

/** The check boxes of the table of jobs show jobs on the timeline or let them fade. */
function bindJobs(root, run, timeline) {
  const boxes = [...root.querySelectorAll("input[data-job]")];
  for (const box of boxes) {
    box.addEventListener("change", () => timeline.toggleJob(Number(box.dataset.job), box.checked));
  }
  root.querySelector("[data-all-jobs]")?.addEventListener("change", (event) => {
    for (const box of boxes) {
      box.checked = event.target.checked;
      timeline.toggleJob(Number(box.dataset.job), box.checked);
    }
  });
}

/** Tables are sorted by the column whose head is clicked. */
function bindSorting() {
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sortBy(button.closest("table"), button.closest("th")));
  }
}

function sortBy(table, head) {
  const column = [...head.parentElement.children].indexOf(head);
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const keyOf = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
  const rows = [...table.tBodies[0].rows].sort((a, b) => compareKeys(keyOf(a), keyOf(b)));
  table.tBodies[0].append(...(down ? rows.reverse() : rows));
}

function compareKeys(a, b) {
  const [x, y] = [Number.parseFloat(a), Number.parseFloat(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
}

for (const choice of document.querySelectorAll("[name=run]")) {
  choice.addEventListener("change", () => showRun(Number(choice.value)));
}
for (const place of document.querySelectorAll("[data-intervals]")) {
  const { title, rows, colour, zero } = JSON.parse(document.getElementById(place.dataset.intervals).textContent)[place.dataset.place];
  intervalChart(place, rows, { xLabel: `${title}, emulated s`, colour, zero });
}
bindSorting();
showRun(0);
for (const section of document.querySelectorAll("[data-names]")) drawTogether(section);
