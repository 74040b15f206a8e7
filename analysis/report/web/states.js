"use strict";
// How each state of a container looks: a colour of Okabe and Ito's, and a pattern that tells it in grey as well.

const STATE_LOOKS = {
  "application master": { variable: "--state-master", pattern: null },
  starting: { variable: "--state-starting", pattern: "dots" },
  "waiting for input": { variable: "--state-waiting", pattern: "dots" },
  map: { variable: "--state-map", pattern: null },
  reduce: { variable: "--state-reduce", pattern: null },
  resuming: { variable: "--state-resuming", pattern: "horizontal" },
  checkpointing: { variable: "--state-giving-way", pattern: "vertical" },
  suspending: { variable: "--state-giving-way", pattern: "vertical" },
  suspended: { variable: "--state-suspended", pattern: "diagonal" },
};
const PATTERN_PIXELS = 6;
const LINE_PIXELS = 1.5;

/** Colours and canvas patterns of all states under the present colour scheme. */
function stateFills(states, context, element) {
  const style = getComputedStyle(element);
  const ink = style.getPropertyValue("--pattern").trim();
  return states.map((state) => {
    const look = STATE_LOOKS[state];
    const colour = style.getPropertyValue(look.variable).trim();
    return { flat: colour, pattern: look.pattern && patternOf(look.pattern, colour, ink, context) };
  });
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

/** A legend of the states that occur, with swatches painted as on the timeline, and of the queues' lines. */
function drawLegend(element, states, used, queues) {
  element.replaceChildren();
  const shown = states.map((state, place) => [state, place]).filter(([, place]) => used.has(place));
  for (const [state, place] of shown) {
    const swatch = document.createElement("canvas");
    swatch.width = 44;
    swatch.height = 24;
    const context = swatch.getContext("2d");
    context.scale(2, 2);
    const { flat, pattern } = stateFills(states, context, element)[place];
    context.fillStyle = pattern ?? flat;
    context.fillRect(0, 0, 22, 12);
    element.append(legendItem(swatch, state));
  }
  const idle = document.createElement("span");
  idle.className = "swatch idle";
  element.append(legendItem(idle, "idle"));
  if (queues.length < 2) return;
  queues.slice(1, 1 + MOST_LINES).forEach((queue, place) => element.append(legendItem(linedSwatch(element, place + 1), queue)));
}

/** A bar as those of a queue are marked: with lines along it. */
function linedSwatch(element, lines) {
  const swatch = document.createElement("canvas");
  swatch.width = 44;
  swatch.height = 24;
  const context = swatch.getContext("2d");
  context.scale(2, 2);
  const colour = (name) => getComputedStyle(element).getPropertyValue(name).trim();
  context.fillStyle = colour("--state-reduce");
  context.fillRect(0, 0, 22, 12);
  context.fillStyle = colour("--surface");
  drawLines(context, 0, 0, 22, 12, lines);
  return swatch;
}

/** Lines along a bar: which queue it is of. */
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
