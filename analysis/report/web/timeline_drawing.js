"use strict";
// Paints a Timeline: only the visible rows and segments, at most one segment per pixel.

const PATTERN_FROM_PIXELS = 4;
const LINED_FROM_PIXELS = 6;
const GAPS_FROM_PIXELS = 5;
const NAMED_FROM_PIXELS = 9;
const GAP_SHARE = 0.28;
const FAINT = 0.13;
const FONT = "11px system-ui, sans-serif";

function drawTimeline(view) {
  const { context, run, width, plotHeight } = view;
  const style = getComputedStyle(view.root);
  const colour = (name) => style.getPropertyValue(name).trim();
  view.fills ??= fillsOf(view);
  context.font = FONT;
  context.textBaseline = "middle";
  context.clearRect(0, 0, width, view.height);
  context.save();
  context.beginPath();
  context.rect(0, AXIS_PIXELS, width, plotHeight);
  context.clip();
  drawRows(view, colour);
  drawUses(view, colour);
  drawSegments(view, colour);
  if (view.rowPixels >= GAPS_FROM_PIXELS) drawGaps(view, colour("--surface"));
  drawDeadlines(view, colour("--surface"));
  if (!run.segment_start.length && run.status) {
    context.fillStyle = colour("--muted");
    context.fillText(`no container is in use yet: ${run.status.phase ?? "the run begins"}`, view.gutter + 10, AXIS_PIXELS + plotHeight / 2);
  }
  context.restore();
  drawAxis(view, colour);
  drawSubmissions(view);
}

/** All fills: one for each state and each colour of bars. */
function fillsOf({ colourBy, run, context, root }) {
  const colours = colourBy === "state" ? [undefined] : Array.from({ length: CURVES }, (_, number) => groupColour(root, number));
  return colours.flatMap((colour) => stateFills(run.states, context, root, colour));
}

/** Call (job, x) for each job that is not faded and whose time is visible. */
function eachMark(view, instant, call) {
  view.run.jobs.forEach((job, place) => {
    if (job[instant] === null || view.faintJobs.has(place)) return;
    const x = view.xOf(job[instant] / view.run.tick_s);
    if (x >= view.gutter - 0.5 && x <= view.gutter + view.plotWidth + 0.5) call(place, x);
  });
}

function markColour(view, job) {
  return groupColour(view.root, markGroup(view, job));
}

function markGroup(view, job) {
  return view.colourBy === "job" ? job : view.queueOfJob[job];
}

function drawSubmissions(view) {
  eachMark(view, "submit_s", (job, x) => drawSubmission(view.context, x, AXIS_PIXELS - 8, markColour(view, job)));
}

function drawDeadlines(view, ground) {
  eachMark(view, "deadline_s", (job, x) => drawDeadline(view.context, x, AXIS_PIXELS, view.height, markColour(view, job), ground));
}

/** Rows to draw, with their upper edges: all visible ones, but at most one for each pixel. */
function* visibleRows(view) {
  const top = view.topRow;
  const end = Math.min(view.run.lanes.length, top + view.plotHeight / view.rowPixels + 1);
  const step = Math.max(1, 1 / view.rowPixels);
  for (let row = step > 1 ? top : Math.floor(top); row < end; row += step) {
    yield [Math.floor(row), AXIS_PIXELS + (row - top) * view.rowPixels];
  }
}

/** Visible segments of a lane: call(segment, x, width). */
function eachVisible(view, lane, call) {
  const { segment_start: starts, segment_end: ends, lane_starts: first } = view.run;
  const stop = first[lane + 1];
  const right = view.gutter + view.plotWidth;
  let segment = firstAbove(ends, first[lane], stop, view.from);
  let drawnUntil = view.gutter;
  while (segment < stop && starts[segment] < view.to) {
    const until = view.xOf(ends[segment]);
    if (until <= drawnUntil && drawnUntil > view.gutter) {
      segment = firstAbove(ends, segment + 1, stop, view.tickAt(drawnUntil)); // segments within this pixel are not visible
      continue;
    }
    const x = Math.max(drawnUntil, view.xOf(starts[segment]));
    const width = Math.max(1, Math.min(right, until) - x);
    call(segment, x, width);
    drawnUntil = x + width;
    segment += 1;
  }
}

function barHeight(view) {
  return Math.max(1, view.rowPixels - (view.rowPixels >= 4 ? 1 : 0));
}

function drawRows(view, colour) {
  const { context, run } = view;
  const [ink, idle, beside] = ["--muted", "--idle", "--idle-beside"].map(colour);
  const height = barHeight(view);
  let lastNode = null;
  let labelledUntil = 0;
  for (const [lane, y] of visibleRows(view)) {
    const { node, stopped } = run.lanes[lane];
    context.fillStyle = stopped ? beside : idle;
    context.fillRect(view.gutter, y, view.plotWidth, height);
    if (node === lastNode) continue;
    context.fillStyle = ink;
    if (lastNode !== null) context.fillRect(0, y - 0.75, view.width, 0.5);
    lastNode = node;
    if (y < labelledUntil) continue;
    context.fillText(node, 2, Math.max(y, AXIS_PIXELS) + 7, view.gutter - 6);
    labelledUntil = y + 14;
  }
}

/** Of each resource of a node, the share that containers hold: how high its row is filled. */
function drawUses(view, colour) {
  const { context, run } = view;
  const { use_starts: first, use_at: times, use_amount: amounts } = run;
  const height = barHeight(view);
  const right = Math.min(view.gutter + view.plotWidth, view.xOf(view.last));
  for (const [lane, y] of visibleRows(view)) {
    const { resource, whole } = run.lanes[lane];
    if (!resource) continue;
    context.fillStyle = colour("--state-master");
    const stop = first[lane + 1];
    for (let at = Math.max(first[lane], firstAbove(times, first[lane], stop, view.from) - 1); at < stop && times[at] < view.to; at += 1) {
      const x = Math.max(view.gutter, view.xOf(times[at]));
      const until = at + 1 < stop ? Math.min(right, view.xOf(times[at + 1])) : right;
      const filled = whole ? Math.min(1, amounts[at] / whole) * height : 0;
      if (until > x) context.fillRect(x, y + height - filled, until - x, filled);
    }
    if (view.rowPixels < NAMED_FROM_PIXELS) continue;
    context.fillStyle = colour("--muted");
    context.textAlign = "right";
    context.fillText(resource, view.gutter - 4, y + height / 2, view.gutter / 2);
    context.textAlign = "left";
  }
}

function drawSegments(view, colour) {
  const { context, run, fills } = view;
  const height = barHeight(view);
  const [plain, patterned, faint] = [0, 1, 2].map(() => fills.map(() => []));
  const outlined = [];
  const lined = [];
  const task = view.shownTask();
  const byState = view.colourBy === "state";
  for (const [lane, y] of visibleRows(view)) {
    eachVisible(view, lane, (segment, x, width) => {
      const attempt = run.segment_attempt[segment];
      const wide = width >= PATTERN_FROM_PIXELS && view.rowPixels >= 3;
      const among = view.faintJobs.has(view.jobOf[attempt]) ? faint : wide ? patterned : plain;
      const group = byState ? 0 : view.groupOf(view.jobOf[attempt]) % CURVES;
      among[run.segment_state[segment] + group * run.states.length].push(x, y, width);
      if (wide && byState && view.linesOf[attempt] && !view.faintJobs.has(view.jobOf[attempt])) lined.push([x, y, width, view.linesOf[attempt]]);
      if (task && view.isOfTask(attempt, task)) outlined.push(x, y, width);
    });
  }
  fills.forEach(({ flat, pattern }, state) => {
    fillAll(context, faint[state], height, flat, FAINT);
    fillAll(context, plain[state], height, flat, 1);
    fillAll(context, patterned[state], height, pattern ?? flat, 1);
  });
  context.fillStyle = colour("--surface");
  if (view.rowPixels >= LINED_FROM_PIXELS) for (const [x, y, width, lines] of lined) drawLines(context, x, y, width, height, lines);
  context.strokeStyle = colour("--text");
  context.lineWidth = 1.5;
  for (let at = 0; at < outlined.length; at += 3) {
    context.strokeRect(outlined[at], outlined[at + 1] - 0.25, outlined[at + 2], height + 0.5);
  }
}

/** Evicted tasks that keep their work: a line below the row that they left, until they go on. */
function drawGaps(view, ground) {
  const { context, gaps } = view;
  const right = view.gutter + view.plotWidth;
  const shades = Array.from({ length: CURVES }, (_, number) => groupColour(view.root, number));
  for (const [lane, y] of visibleRows(view)) {
    for (const { from, to, attempt } of gaps.get(lane) ?? []) {
      const job = view.jobOf[attempt];
      if (to <= view.from || from >= view.to || view.faintJobs.has(job)) continue;
      const [x, until] = [Math.max(view.gutter, view.xOf(from)), Math.min(right, view.xOf(to))];
      drawGap(context, x, y + barHeight(view), until - x, barHeight(view), shades[markGroup(view, job) % CURVES], ground);
    }
  }
}

function fillAll(context, rectangles, height, fill, alpha) {
  if (!rectangles.length) return;
  context.globalAlpha = alpha;
  context.fillStyle = fill;
  for (let at = 0; at < rectangles.length; at += 3) {
    context.fillRect(rectangles[at], rectangles[at + 1], rectangles[at + 2], height);
  }
  context.globalAlpha = 1;
}

function drawAxis(view, colour) {
  const { context, run } = view;
  context.fillStyle = colour("--surface");
  context.fillRect(0, 0, view.width, AXIS_PIXELS);
  context.fillStyle = context.strokeStyle = colour("--muted");
  context.lineWidth = 0.5;
  const step = niceStep((view.to - view.from) * run.tick_s, view.plotWidth / 90);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let at = Math.ceil((view.from * run.tick_s) / step) * step; at <= view.to * run.tick_s; at += step) {
    const x = view.xOf(at / run.tick_s);
    const label = `${at.toFixed(decimals)} s`;
    context.fillText(label, Math.min(x + 3, view.width - context.measureText(label).width - 2), AXIS_PIXELS / 2);
    context.globalAlpha = 0.35;
    context.beginPath();
    context.moveTo(x, 4);
    context.lineTo(x, view.height);
    context.stroke();
    context.globalAlpha = 1;
  }
}

/** 1, 2 or 5 times a power of ten, so that the span has about `count` steps; 1 if the span is empty. */
function niceStep(span, count) {
  if (!(span > 0)) return 1;
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
}
