"use strict";
// The timeline: a row for each container, and for each resource of a node if containers have sizes, drawn on a canvas; only the
// visible part is drawn.

const AXIS_PIXELS = 22;
const GUTTER_PIXELS = 86;
const NARROW_GUTTER_PIXELS = 52;
const ZOOM_STEP = 1.5;
const SHORTEST_TICKS = 20;
const MOST_PLOT_PIXELS = 560;
const MOST_LINES = 2;

/** The key of a segment in all states of its run: its attempt, its state, and its start. */
function segmentKey(run, segment) {
  if (segment < 0) return null;
  return { attempt: run.attempt[run.segment_attempt[segment]], state: run.segment_state[segment], start: run.segment_start[segment] };
}

function findSegment(run, key) {
  if (!key) return -1;
  return run.segment_start.findIndex(
    (start, segment) =>
      start === key.start && run.segment_state[segment] === key.state && run.attempt[run.segment_attempt[segment]] === key.attempt,
  );
}

class Timeline {
  /** root holds .timeline-scroll > .timeline-space > canvas, .tooltip, .timeline-legend and .timeline-details. */
  constructor(root, run, describe) {
    this.root = root;
    this.describe = describe;
    this.scroll = root.querySelector(".timeline-scroll");
    this.space = root.querySelector(".timeline-space");
    this.canvas = root.querySelector("canvas.timeline");
    this.context = this.canvas.getContext("2d");
    this.tooltip = root.querySelector(".tooltip");
    this.details = root.querySelector(".timeline-details");
    this.faintJobs = new Set();
    this.colourBy = root.querySelector("[data-colour]").value;
    this.selected = -1;
    this.hovered = -1;
    this.wanted = 0;
    this.setRun(run);
    this.fit();
    this.listen();
  }

  /** Show a run, or a later state of the current one. */
  setRun(run) {
    const follows = this.run && this.to >= this.run.end_s / this.run.tick_s - 1;
    const kept = [this.selected, this.hovered].map((segment) => this.run && segmentKey(this.run, segment));
    this.run = run;
    [this.selected, this.hovered] = kept.map((key) => findSegment(run, key));
    this.tooltip.hidden = this.hovered < 0;
    this.say(this.details, this.selected);
    this.say(this.tooltip, this.hovered);
    this.last = Math.max(1, run.end_s / run.tick_s);
    if (follows && this.from === 0) this.to = this.last;
    this.queues = queuesOf(run);
    this.queueOfJob = run.jobs.map(({ queue }) => this.queues.indexOf(queue));
    this.jobOf = Int32Array.from(run.attempt, (_, row) => run.job_rows[textOf(run, "job", row)] ?? -1);
    this.lined = [...new Set(run.jobs.map(({ queue }) => queue))]; // the first queue's bars are plain, the next one's have a line
    const linesOfJob = run.jobs.map(({ queue }) => Math.min(MOST_LINES, this.lined.indexOf(queue)));
    this.linesOf = Uint8Array.from(this.jobOf, (job) => linesOfJob[job] ?? 0);
    this.gaps = gapsOf(run);
    if (!this.rowPixels) this.rowPixels = this.comfortableRow();
    this.drawLegend();
    this.measure();
  }

  drawLegend() {
    drawLegend(this.root.querySelector(".timeline-legend"), this);
  }

  /** What the colours of the bars show: state, queue or job. */
  colour(by) {
    this.colourBy = by;
    this.fills = null;
    this.drawLegend();
    this.redraw();
  }

  /** The colour of a job, if bars are coloured by queue or job. */
  groupOf(job) {
    return this.colourBy === "queue" ? (this.queueOfJob[job] ?? 0) : Math.max(0, job);
  }

  comfortableRow() {
    const rows = this.run.lanes.length;
    return Math.max(3, Math.min(14, Math.floor(MOST_PLOT_PIXELS / rows)));
  }

  fit() {
    this.from = 0;
    this.to = this.last;
    this.redraw();
  }

  // ---- geometry ----

  measure() {
    const rows = this.run.lanes.length;
    const ratio = window.devicePixelRatio || 1;
    this.width = this.scroll.clientWidth;
    this.gutter = this.width < 560 ? NARROW_GUTTER_PIXELS : GUTTER_PIXELS;
    this.plotWidth = Math.max(10, this.width - this.gutter - 8);
    const whole = Math.ceil(rows * this.rowPixels);
    this.plotHeight = Math.min(whole, MOST_PLOT_PIXELS);
    this.height = this.plotHeight + AXIS_PIXELS;
    this.scroll.style.height = `${this.height}px`;
    this.space.style.height = `${whole + AXIS_PIXELS}px`;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.fills = null;
    this.redraw();
  }

  get scale() {
    return this.plotWidth / (this.to - this.from);
  }

  get topRow() {
    return this.scroll.scrollTop / this.rowPixels;
  }

  xOf(tick) {
    return this.gutter + (tick - this.from) * this.scale;
  }

  tickAt(x) {
    return this.from + (x - this.gutter) / this.scale;
  }

  laneAt(y) {
    const lane = Math.floor(this.topRow + (y - AXIS_PIXELS) / this.rowPixels);
    return y >= AXIS_PIXELS && lane < this.run.lanes.length ? lane : -1;
  }

  /** The segment at or very near a point; -1 if there is none. */
  segmentAt(x, y) {
    const lane = this.laneAt(y);
    if (lane < 0 || x < this.gutter) return -1;
    const { segment_start: starts, segment_end: ends, lane_starts: first } = this.run;
    const slack = 1.5 / this.scale;
    const tick = this.tickAt(x);
    const place = firstAbove(ends, first[lane], first[lane + 1], tick - slack);
    return place < first[lane + 1] && starts[place] <= tick + slack ? place : -1;
  }

  /** What containers hold at a point of a row of use, in words; nothing elsewhere. */
  useAt(x, y) {
    const lane = this.laneAt(y);
    const { resource, whole, node } = this.run.lanes[lane] ?? {};
    if (!resource || x < this.gutter) return "";
    const { use_starts: first, use_at: times, use_amount: amounts } = this.run;
    const tick = this.tickAt(x);
    const place = firstAbove(times, first[lane], first[lane + 1], tick) - 1;
    return `${node}: ${tidy(place < first[lane] ? 0 : amounts[place])} of ${tidy(whole)} ${resource} at ${secondsText(tick * this.run.tick_s)}`;
  }

  zoom(factor, centre = (this.from + this.to) / 2) {
    const span = Math.min(this.last, Math.max(SHORTEST_TICKS, (this.to - this.from) / factor));
    const share = (centre - this.from) / (this.to - this.from);
    this.moveTo(centre - share * span, span);
  }

  moveTo(from, span = this.to - this.from) {
    this.from = Math.max(0, Math.min(from, this.last - span));
    this.to = this.from + span;
    this.redraw();
  }

  setRowPixels(pixels) {
    const top = this.topRow;
    const least = Math.min(1, MOST_PLOT_PIXELS / this.run.lanes.length);
    this.rowPixels = Math.max(least, Math.min(24, pixels));
    this.measure();
    this.scroll.scrollTop = top * this.rowPixels;
  }

  toggleJob(place, shown) {
    if (shown) this.faintJobs.delete(place);
    else this.faintJobs.add(place);
    this.redraw();
  }

  redraw() {
    if (this.wanted) return;
    this.wanted = requestAnimationFrame(() => {
      this.wanted = 0;
      const begun = performance.now();
      drawTimeline(this);
      this.drawMilliseconds = performance.now() - begun;
    });
  }

  // ---- the bar under the pointer ----

  shownTask() {
    const segment = this.hovered >= 0 ? this.hovered : this.selected;
    if (segment < 0) return null;
    const attempt = this.run.segment_attempt[segment];
    return { job: this.jobOf[attempt], kind: this.run.kind_places[attempt], task: this.run.attempt_task[attempt] };
  }

  isOfTask(attempt, { job, kind, task }) {
    const { attempt_task: tasks, kind_places: kinds } = this.run;
    return tasks[attempt] === task && this.jobOf[attempt] === job && kinds[attempt] === kind;
  }

  // ---- actions of the user ----

  listen() {
    const { canvas, scroll } = this;
    new ResizeObserver(() => this.scroll.clientWidth && this.scroll.clientWidth !== this.width && this.measure()).observe(scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.drawLegend();
      this.measure();
    });
    scroll.addEventListener("scroll", () => this.redraw());
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("pointerup", () => (this.drag = null));
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.keyPressed(event));
    this.root.querySelector("[data-colour]").addEventListener("change", (event) => this.colour(event.target.value));
    for (const button of this.root.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do));
    }
  }

  act(what) {
    if (what === "in") this.zoom(ZOOM_STEP);
    if (what === "out") this.zoom(1 / ZOOM_STEP);
    if (what === "fit") this.fit();
    if (what === "taller") this.setRowPixels(this.rowPixels * 1.5);
    if (what === "flatter") this.setRowPixels(this.rowPixels / 1.5);
  }

  pressed(event) {
    this.drag = { x: event.clientX, y: event.clientY, from: this.from, top: this.scroll.scrollTop };
    this.canvas.setPointerCapture(event.pointerId);
    const segment = this.segmentAt(event.offsetX, event.offsetY);
    this.select(segment);
  }

  pointerMoved(event) {
    if (this.drag) {
      this.moveTo(this.drag.from - (event.clientX - this.drag.x) / this.scale);
      if (event.pointerType === "mouse") this.scroll.scrollTop = this.drag.top - (event.clientY - this.drag.y);
      return;
    }
    const [x, y] = [event.offsetX, event.offsetY];
    this.hover(this.segmentAt(x, y), x, y, this.useAt(x, y));
  }

  wheeled(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.tickAt(event.offsetX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.moveTo(this.from + (event.deltaX || event.deltaY) / this.scale);
    }
  }

  keyPressed(event) {
    const span = this.to - this.from;
    const actions = {
      ArrowLeft: () => this.moveTo(this.from - span / 8),
      ArrowRight: () => this.moveTo(this.from + span / 8),
      ArrowUp: () => this.selectLane(-1),
      ArrowDown: () => this.selectLane(1),
      "+": () => this.zoom(ZOOM_STEP),
      "=": () => this.zoom(ZOOM_STEP),
      "-": () => this.zoom(1 / ZOOM_STEP),
      Home: () => this.fit(),
      ",": () => this.selectBeside(-1),
      ".": () => this.selectBeside(1),
      Escape: () => this.select(-1),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  selectLane(step) {
    const lanes = this.run.lanes.length;
    let lane = this.selected >= 0 ? this.run.segment_lane[this.selected] + step : Math.floor(this.topRow);
    const middle = this.selected >= 0 ? this.run.segment_start[this.selected] : this.from;
    const { lane_starts: first, segment_end: ends } = this.run;
    while (lane >= 0 && lane < lanes && first[lane] === first[lane + 1]) lane += step;
    if (lane < 0 || lane >= lanes) return;
    this.select(Math.min(first[lane + 1] - 1, firstAbove(ends, first[lane], first[lane + 1], middle)), true);
  }

  selectBeside(step) {
    if (this.selected < 0) return this.selectLane(0);
    const lane = this.run.segment_lane[this.selected];
    const next = this.selected + step;
    if (next >= this.run.lane_starts[lane] && next < this.run.lane_starts[lane + 1]) this.select(next, true);
  }

  select(segment, reveal = false) {
    this.selected = segment;
    this.say(this.details, segment);
    if (reveal) this.reveal(segment);
    this.redraw();
  }

  say(element, segment) {
    element.replaceChildren(...(segment < 0 ? [] : this.describe(this.run, segment)));
  }

  reveal(segment) {
    const { segment_start: starts, segment_end: ends, segment_lane: lanes } = this.run;
    if (starts[segment] >= this.to || ends[segment] <= this.from) this.moveTo(starts[segment] - (this.to - this.from) / 3);
    const y = lanes[segment] * this.rowPixels;
    if (y < this.scroll.scrollTop) this.scroll.scrollTop = y;
    if (y + this.rowPixels > this.scroll.scrollTop + this.plotHeight) this.scroll.scrollTop = y + this.rowPixels - this.plotHeight;
  }

  hover(segment, x = 0, y = 0, use = "") {
    if (segment !== this.hovered) {
      this.hovered = segment;
      this.say(this.tooltip, segment);
      this.canvas.style.cursor = segment < 0 ? "grab" : "pointer";
      this.redraw();
    }
    this.tooltip.hidden = segment < 0 && !use;
    if (use) this.tooltip.textContent = use;
    if (this.tooltip.hidden) return;
    const room = this.width - this.tooltip.offsetWidth - 4;
    const below = y + 18 + this.tooltip.offsetHeight < this.height || y < this.tooltip.offsetHeight + 18;
    this.tooltip.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
    this.tooltip.style.top = `${below ? y + 18 : y - this.tooltip.offsetHeight - 10}px`;
  }
}
