"use strict";
// The description of a segment of the timeline, for the tooltip and below the timeline.  Always text, never HTML.

function describeSegment(run, segment) {
  const attempt = run.segment_attempt[segment];
  const lane = run.lanes[run.segment_lane[segment]];
  const state = run.states[run.segment_state[segment]];
  const start = run.segment_start[segment] * run.tick_s;
  const end = run.segment_end[segment] * run.tick_s;
  const job = run.jobs[run.job_rows[textOf(run, "job", attempt)]];
  const kind = textOf(run, "kind", attempt);
  const rows = [
    ["state", `${state}, ${secondsText(end - start)} (${secondsText(start)} to ${secondsText(end)})`],
    ["job", job ? `${job.name} (${job.queue})` : ""],
    ["task", kind === "am" ? "its ApplicationMaster" : `${kind} ${run.attempt_task[attempt]}`],
    ["attempt", run.attempt[attempt]],
    ["container", `${run.container[attempt]}, ${lane.node}, ${lane.name}`],
    ["keys", keysText(run, attempt)],
    ["outcome", outcomeText(run, attempt)],
    ["resumed from", run.attempt_resumed_from[attempt] < 0 ? "" : run.attempt[run.attempt_resumed_from[attempt]]],
    ...handoverRows(run, attempt),
    ["chosen", run.why?.[attempt] ?? ""],
  ];
  return [definitionList(rows.filter(([, text]) => text))];
}

function keysText(run, attempt) {
  const total = run.attempt_keys_total[attempt];
  if (total <= 0) return "";
  const done = run.attempt_keys_done[attempt];
  const from = run.attempt_keys_start[attempt];
  return `${done < 0 ? "?" : done} of ${total}${from > 0 ? `, from ${from} on` : ""}`;
}

function outcomeText(run, attempt) {
  const outcome = textOf(run, "outcome", attempt);
  if (!outcome) return "";
  const reason = textOf(run, "reason", attempt);
  return reason ? `${outcome}: ${reason}` : outcome;
}

function handoverRows(run, attempt) {
  const rows = [];
  for (let at = 0; at < run.handover_victim.length; at += 1) {
    const when = secondsText(run.handover_at[at] * run.tick_s);
    if (run.handover_victim[at] === attempt) rows.push(["replaced by", `${run.attempt[run.handover_successor[at]]} at ${when}`]);
    if (run.handover_successor[at] === attempt) rows.push(["replaced", `${run.attempt[run.handover_victim[at]]} at ${when}`]);
  }
  return rows;
}

function definitionList(rows) {
  const list = document.createElement("dl");
  for (const [name, text] of rows) {
    const term = document.createElement("dt");
    const said = document.createElement("dd");
    term.textContent = name;
    said.textContent = text;
    list.append(term, said);
  }
  return list;
}
