"use strict";
// The page of a run in progress: requests its newest state twice a second and draws it; at the end the
// report replaces it.

const ASK_MILLISECONDS = 500;
const COUNTS = ["done", "running", "suspended", "waiting", "total"];
const page = document.getElementById("watch");
let watched = null; // the Timeline, once there is something to draw
let watchedJobs = "";

async function watchRun() {
  let have = "";
  for (;;) {
    const answer = await askFor(`state?have=${have}`);
    if (!answer) return say("phase", "the run is over, and its page with it");
    if (answer.status === 200) {
      have = answer.headers.get("X-State");
      const run = readPayload(await answer.arrayBuffer());
      showState(run);
      page.dataset.state = have;
      if (run.ended !== null) return answer.headers.get("X-Report") ? location.replace("report") : undefined;
    }
    await new Promise((wake) => setTimeout(wake, ASK_MILLISECONDS));
  }
}

async function askFor(address) {
  try {
    return await fetch(address);
  } catch {
    return null;
  }
}

function showState(run) {
  sayState(run);
  showJobs(run);
  if (!run.lanes.length) return;
  if (watched) watched.setRun(run);
  else watched = new Timeline(page.querySelector(".timeline-view"), run, describeSegment);
  drawWatchCharts(run);
}

function say(name, text) {
  const place = page.querySelector(`[data-said=${name}]`);
  if (place.textContent !== text) place.textContent = text;
}

function sayState(run) {
  const { status } = run;
  const jobs = status.jobs ?? [];
  const used = Object.entries(status.containers_used ?? {});
  const over = jobs.filter(({ state }) => ["succeeded", "failed", "killed"].includes(state));
  say("title", run.title);
  say("phase", run.ended ?? status.phase);
  say("emulated", secondsText(status.emulated_s));
  say("real", `${secondsText(status.real_s)} real, time scale ${status.time_scale}`);
  say("containers", `${used.reduce((sum, [, count]) => sum + count, 0)} of ${run.containers}`);
  say("queues", used.map(([queue, count]) => `${queue} ${count}`).join(", ") || "–");
  say("suspended", String(jobs.reduce((sum, job) => sum + job.suspended, 0)));
  say("ended", `${over.length} of ${jobs.length}`);
  say("jobs", `${jobs.filter(({ state }) => state === "running").length} at work`);
  say("lag", status.lag_p99_real_ms === null ? "–" : `${tidy(status.lag_p99_real_ms)} ms`);
}

/** The table of jobs: its rows are made once for each run, then only their contents change. */
function showJobs(run) {
  const jobs = run.status.jobs ?? [];
  const body = page.querySelector("[data-table=jobs] tbody");
  const names = JSON.stringify(jobs.map(({ name }) => name));
  if (names !== watchedJobs) {
    watchedJobs = names;
    body.replaceChildren(...jobs.map((job) => jobRow(job, () => run.job_rows[job.name])));
  }
  jobs.forEach((job, place) => {
    const cells = body.rows[place].cells;
    ["state", ...COUNTS].forEach((name, at) => {
      const text = String(job[name]);
      if (cells[3 + at].textContent !== text) cells[3 + at].textContent = text;
    });
  });
}

function jobRow(job, placeOf) {
  const row = document.createElement("tr");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  box.setAttribute("aria-label", `show ${job.name}`);
  box.addEventListener("change", () => watched?.toggleJob(placeOf(), box.checked));
  const boxed = document.createElement("td");
  boxed.append(box);
  const cells = ["name", "queue", "state", ...COUNTS].map((name) => {
    const cell = document.createElement("td");
    if (["name", "queue", "state"].includes(name)) cell.className = "text";
    cell.textContent = String(job[name]);
    return cell;
  });
  row.append(boxed, ...cells);
  return row;
}

function drawWatchCharts(run) {
  const chart = (name) => page.querySelector(`[data-chart=${name}]`);
  const time = { xLabel: "time, emulated s", until: run.end_s };
  utilizationChart(chart("utilization"), run, usedOf(run), time);
  stepChart(chart("lag"), [{ name: "lag, p99 so far", x: run.lag_s, y: run.lag_p99_real_ms }], { ...time, yLabel: "real ms" });
}

watchRun();
