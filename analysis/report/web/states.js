"use strict";
// The look of each state of a container: a colour of Okabe and Ito's, and a pattern that distinguishes it in grey too.

const STATE_LOOKS = {
  "application master": { variable: "--state-master", pattern: null },
  starting: { variable: "--state-starting", pattern: "dots" },
  "waiting for input": { variable: "--state-waiting", pattern: "dots" },
  map: { variable: "--state-map", pattern: null },
  reduce: { variable: "--state-reduce", pattern: null },
  task: { variable: "--state-reduce", pattern: null },
  resuming: { variable: "--state-resuming", pattern: "horizontal" },
  checkpointing: { variable: "--state-giving-way", pattern: "vertical" },
  suspending: { variable: "--state-giving-way", pattern: "vertical" },
  suspended: { variable: "--state-suspended", pattern: "diagonal" },
  "paging out": { variable: "--state-paging", pattern: "vertical" },
  "paging in": { variable: "--state-paging", pattern: "horizontal" },
};
const CURVES = 6;
const MOST_IN_LEGEND = 12;
const PATTERN_PIXELS = 6;
const LINE_PIXELS = 1.5;

/** Colours and canvas patterns of all states in the current colour scheme; all in one colour if it is given. */
function stateFills(states, context, element, given) {
  const style = getComputedStyle(element);
  const ink = style.getPropertyValue("--pattern").trim();
  return states.map((state) => {
    const look = STATE_LOOKS[state];
    const colour = given ?? style.getPropertyValue(look.variable).trim();
    return { flat: colour, pattern: look.pattern && patternOf(look.pattern, colour, ink, context) };
  });
}

/** The colour of a queue or of a job, by its number; the same in all pictures of a page. */
function groupColour(element, number) {
  return getComputedStyle(element).getPropertyValue(`--curve-${number % CURVES}`).trim();
}

function patternOf(kind, colour, ink, context) {
  const size = PATTERN_PIXELS;
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const brush = tile.getContext("2d");
  brush.fillStyle = colour;
  brush.fillRect(0, 0, size, size);
  brush.fillStyle = brush.strokeStyle = ink;
  if (kind === "dots") brush.fillRect(1, 1, 1.5, 1.5), brush.fillRect(4, 4, 1.5, 1.5);
  if (kind === "horizontal") brush.fillRect(0, 2, size, 1);
  if (kind === "vertical") brush.fillRect(2, 0, 1.5, size);
  if (kind === "diagonal") {
    brush.lineWidth = 1.6;
    brush.beginPath();
    for (const shift of [-size, 0, size]) brush.moveTo(shift - 1, size + 1), brush.lineTo(shift + size + 1, -1);
    brush.stroke();
  }
  return context.createPattern(tile, "repeat");
}

/** A legend of the bars' colours and patterns, with swatches painted as on the timeline. */
function drawLegend(element, view) {
  const { run, queues, colourBy } = view;
  element.replaceChildren();
  const used = new Set(run.segment_state);
  const groups = colourBy === "queue" ? queues : colourBy === "job" ? run.jobs.map(({ name }) => name) : [];
  groups.slice(0, MOST_IN_LEGEND).forEach((name, number) => {
    const colour = groupColour(element, number);
    element.append(legendItem(paintedSwatch((context) => ((context.fillStyle = colour), context.fillRect(0, 0, 22, 12))), name));
  });
  if (groups.length > MOST_IN_LEGEND) element.append(`and ${groups.length - MOST_IN_LEGEND} more, in the same colours`);
  run.states.forEach((state, place) => {
    if (!used.has(place) || (groups.length && !STATE_LOOKS[state].pattern)) return;
    const swatch = paintedSwatch((context) => {
      const { flat, pattern } = stateFills(run.states, context, element, groups.length ? groupColour(element, 0) : undefined)[place];
      context.fillStyle = pattern ?? flat;
      context.fillRect(0, 0, 22, 12);
    });
    element.append(legendItem(swatch, state));
  });
  if (run.resources.length) {
    const colour = getComputedStyle(element).getPropertyValue("--state-master").trim();
    const swatch = paintedSwatch((context) => ((context.fillStyle = colour), context.fillRect(0, 6, 22, 6)));
    element.append(legendItem(swatch, `${run.resources.join(", ")}: what containers hold of a node's`));
  }
  const idle = document.createElement("span");
  idle.className = "swatch idle";
  element.append(legendItem(idle, "idle"));
  if (view.gaps.size) {
    const line = (context) => drawGap(context, 0, 12, 22, 12, groupColour(element, 0), "transparent");
    element.append(legendItem(paintedSwatch(line), "the task evicted here waits, its work kept"));
  }
  element.append(legendItem(paintedSwatch((context) => drawSubmission(context, 11, 2, groupColour(element, 0))), "submission"));
  if (run.jobs.some(({ deadline_s: deadline }) => deadline !== null)) {
    element.append(legendItem(paintedSwatch((context) => drawDeadline(context, 11, 0, 12, groupColour(element, 0), "transparent")), "deadline"));
  }
  if (groups.length) return;
  view.lined.slice(1, 1 + MOST_LINES).forEach((queue, place) => element.append(legendItem(linedSwatch(element, place + 1), queue)));
}

function paintedSwatch(paint) {
  const swatch = document.createElement("canvas");
  swatch.width = 44;
  swatch.height = 24;
  const context = swatch.getContext("2d");
  context.scale(2, 2);
  paint(context);
  return swatch;
}

/** A triangle that points at the time of a submission. */
function drawSubmission(context, x, y, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x - 4, y);
  context.lineTo(x + 4, y);
  context.lineTo(x, y + 7);
  context.fill();
}

/** A dashed line at a deadline, on a plain line that separates it from the bars. */
function drawDeadline(context, x, top, bottom, colour, ground) {
  context.save();
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  for (const [stroke, width, dash] of [[ground, 4, []], [colour, 2, [5, 3]]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke();
  }
  context.restore();
}

/** A line on the lower edge of a row: here an evicted task would run; its work is kept. */
function drawGap(context, x, bottom, width, rowHeight, colour, ground) {
  const height = Math.max(2, Math.round(GAP_SHARE * rowHeight));
  context.fillStyle = ground;
  context.fillRect(x, bottom - height - 1, width, 1);
  context.fillStyle = colour;
  context.fillRect(x, bottom - height, width, height);
}

/** A bar with the marks of a queue: lines along it. */
function linedSwatch(element, lines) {
  const colour = (name) => getComputedStyle(element).getPropertyValue(name).trim();
  return paintedSwatch((context) => {
    context.fillStyle = colour("--state-reduce");
    context.fillRect(0, 0, 22, 12);
    context.fillStyle = colour("--surface");
    drawLines(context, 0, 0, 22, 12, lines);
  });
}

/** Lines along a bar, which show its queue. */
function drawLines(context, x, y, width, height, lines) {
  for (let line = 1; line <= lines; line += 1) context.fillRect(x, y + (height * line) / (lines + 1) - LINE_PIXELS / 2, width, LINE_PIXELS);
}

function legendItem(swatch, text) {
  const item = document.createElement("span");
  item.className = "legend-item";
  swatch.setAttribute("aria-hidden", "true");
  item.append(swatch, text);
  return item;
}
