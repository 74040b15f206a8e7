"use strict";
// Payloads: one run's timeline and curves as typed arrays; analysis/report/payload.py writes them.

const COLUMN_TYPES = { u1: Uint8Array, i4: Int32Array, f4: Float32Array };

/** A payload as stored in a report: gzip in base64. */
async function decodePayload(base64) {
  const packed = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return readPayload(await new Response(unpacked).arrayBuffer());
}

/** Header and columns of a payload, and the start of each lane's segments. */
function readPayload(buffer) {
  const headerLength = new DataView(buffer).getUint32(0, true);
  const run = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headerLength)));
  const behind = 4 + headerLength;
  for (const [name, [type, at, length]] of Object.entries(run.columns)) {
    run[name] = new COLUMN_TYPES[type](buffer, behind + at, length);
  }
  run.lane_starts = startsOf(run.segment_lane, run.lanes.length);
  run.use_starts = startsOf(run.use_lane, run.lanes.length);
  run.job_rows = Object.fromEntries(run.jobs.map((job, place) => [job.name, place]));
  return run;
}

/** Where the values of each lane start, of values sorted by lane. */
function startsOf(laneOfEach, lanes) {
  const starts = new Int32Array(lanes + 1);
  for (const lane of laneOfEach) starts[lane + 1] += 1;
  for (let lane = 0; lane < lanes; lane += 1) starts[lane + 1] += starts[lane];
  return starts;
}

/**
 * Where evicted tasks that keep their work wait, by lane: [{from, to, attempt}], from leaving the container of that lane until the
 * process or its saved work goes on, wherever that is; to the end of the run if it does not.
 */
function gapsOf(run) {
  if (!run.lanes.some(({ stopped }) => stopped) && !run.attempt_resumed_from.some((from) => from >= 0)) return new Map();
  const [lastOf, firstOf] = [new Map(), new Map()];
  const gaps = new Map();
  const add = (segment, to) => {
    const lane = run.segment_lane[segment];
    const gap = { from: run.segment_end[segment], to, attempt: run.segment_attempt[segment] };
    if (to <= gap.from) return;
    if (!gaps.has(lane)) gaps.set(lane, []);
    gaps.get(lane).push(gap);
  };
  const inOrder = Array.from(run.segment_start.keys()).sort((a, b) => run.segment_start[a] - run.segment_start[b]);
  for (const segment of inOrder) {
    const attempt = run.segment_attempt[segment];
    if (run.lanes[run.segment_lane[segment]].stopped) {
      if (lastOf.has(attempt)) add(lastOf.get(attempt), run.segment_end[segment]);
      continue;
    }
    if (!firstOf.has(attempt)) firstOf.set(attempt, segment);
    lastOf.set(attempt, segment);
  }
  for (const [attempt, segment] of firstOf) {
    const saved = lastOf.get(run.attempt_resumed_from[attempt]);
    if (saved !== undefined) add(saved, run.segment_start[segment]);
  }
  return gaps;
}

/** The queues of a run, sorted by name; this order decides their colours in every picture. */
function queuesOf(run) {
  return [...new Set(run.jobs.map(({ queue }) => queue))].sort();
}

/** First index in [low, high) of ascending values whose value is above the bound; high if there is none. */
function firstAbove(values, low, high, bound) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] > bound) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A text column that was written as indices in a list. */
function textOf(run, column, attempt) {
  const place = run[`${column}_places`][attempt];
  return place < 0 ? null : run[`${column}_names`][place];
}

function secondsText(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  const decimals = Math.abs(seconds) >= 100 ? 1 : Math.abs(seconds) >= 10 ? 2 : 3;
  return `${seconds.toFixed(decimals)} s`;
}
