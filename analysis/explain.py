"""The output of ``natjam explain``: a table of a run's evictions, or those of one attempt with every candidate.

With it goes what the tasks of a job waited for (``waits_for_room``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from rich.table import Table

from analysis.curves import Curve
from analysis.evictions import Decision, Eviction, Row, decisions_of, find_evictions, why
from analysis.load import cluster_of, mechanism_of, read_configuration, read_table, rows_of
from analysis.run_paths import the_run
from analysis.timeline import make_timeline
from emulator.core.settings import NodeSettings
from emulator.display.tables import ALWAYS, names, new_table, numbers, words
from emulator.errors import ConfigError
from emulator.experiment.checks.scheduler import YARN
from emulator.policies.resources import lacking, minus, written
from emulator.policies.slurm.scheduler import CANCELLED
from emulator.records.history import Chooser
from emulator.records.run_directory import RunDirectory
from emulator.resolved import nodes_of
from emulator.vocabulary import Resources, counted

_ROWS = 60
"""Most rows on a terminal; ``--json`` has all."""
_ROUNDS = 10
"""Most of YARN's rounds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The requested evictions of one run."""

    run: str
    mechanism: str
    evictions: list[Eviction]
    decisions: list[Decision]
    """The decisions that chose them, that asked their jobs, or that passed over the requested attempt."""
    attempt: str | None
    job: str | None = None
    waits: Sequence[Wait] = ()
    """What the requested job waited for, where containers have several sizes."""
    is_gang: bool = False
    """Whether the requested job starts whole, so that its tasks wait for each other."""
    cancelled: Sequence[str] = ()
    """Jobs that were ended for others, of those requested."""
    by_order: Sequence[str] = ()
    """Attempts that were stopped by a trigger or by hand, of those requested: no policy has chosen them."""
    let_start: Sequence[Mapping[str, Any]] = ()
    """The times in which jobs waited although their scheduler had let them start, of those requested."""

    def to_json(self) -> dict[str, Any]:
        """The output of ``--json``, with times in emulated seconds."""
        return {
            "run": self.run,
            "mechanism": self.mechanism,
            "evictions": [eviction.to_json() for eviction in self.evictions],
            "decisions": [decision.to_json() for decision in self.decisions],
            "waits": [asdict(wait) for wait in self.waits],
            "cancelled": [*self.cancelled],
            "by_order": [*self.by_order],
            **({"let_start": [*self.let_start]} if self.let_start else {}),
        }


def explain(path: Path, job: str | None = None, attempt: str | None = None) -> Explanation:
    """The evictions of a run, of one of its jobs, or of one of its attempts.

    Raises:
        ConfigError: ``path`` is not one finished run, or has no such job or attempt.
    """
    run = the_run(path).path
    jobs, attempts, decisions = rows_of(run, "jobs"), rows_of(run, "attempts"), decisions_of(run)
    _known(job, (row["name"] for row in jobs), "job", path)
    _known(attempt, (row["attempt"] for row in attempts), "attempt", path)
    found = find_evictions(attempts, rows_of(run, "operations"), decisions)
    if job is not None:
        found = [eviction for eviction in found if eviction.job == job]
    if attempt is not None:
        found = [eviction for eviction in found if eviction.attempt == attempt]
    wanted = {decision.decision for eviction in found for decision in _choices_of(eviction)}
    if attempt is not None:
        wanted |= {decision.decision for decision in decisions if _row(decision, attempt)}
    if job is not None:
        named = (decision for decision in decisions if decision.by == Chooser.SCHEDULER)
        wanted |= {decision.decision for decision in named if job in (decision.requester, decision.job)}
    kept = [decision for decision in decisions if decision.decision in wanted]
    configuration = read_configuration(run)
    waits = () if job is None else _waits(run, configuration, job)
    ended = [row["name"] for row in jobs if row["reason"] == CANCELLED]
    cancelled = [name for name in ended if job in (None, name) and attempt is None]
    chosen = Counter(eviction.attempt for eviction in found if eviction.outcome == "suspended")
    stopped = (row for row in attempts if job in (None, row["job"]) and attempt in (None, row["attempt"]))
    by_order = [row["attempt"] for row in stopped if len(row["suspended_spans"]) > chosen[row["attempt"]]]
    summary = RunDirectory(run).summary() or {}
    let_start = [each for each in summary.get("waits", ()) if job in (None, each["job"]) and attempt is None]
    mechanism = mechanism_of(configuration)
    jobs_asked = configuration["workload"].get("jobs") or ()
    is_gang = any(each["name"] == job and each.get("gang") for each in jobs_asked)
    return Explanation(str(path), mechanism, found, kept, attempt, job, waits, is_gang, cancelled, by_order, let_start)


def _waits(path: Path, configuration: Mapping[str, Any], job: str) -> tuple[Wait, ...]:
    nodes = nodes_of(cluster_of(configuration["cluster"]))
    return waits_for_room(read_table(path, "attempts"), nodes, job)


def _choices_of(eviction: Eviction) -> list[Decision]:
    overdue = [] if eviction.overdue is None else [eviction.overdue]
    return [*eviction.asked, eviction.decision, *overdue]


def _known(name: str | None, names: Iterable[str], what: str, path: Path) -> None:
    known = list(dict.fromkeys(names))
    if name is None or name in known:
        return
    close = get_close_matches(name, known, n=5) or [other for other in known if name in other][:5] or known[:5]
    raise ConfigError(f"{path}: has no {what} '{name}'; it has {', '.join(close)}{_more(known, close)}")


def _more(known: Collection[str], shown: Collection[str]) -> str:
    left = len(known) - len(shown)
    return f" and {left} more" if left else ""


def _row(decision: Decision, attempt: str) -> Row | None:
    return next((row for row in decision.candidates if row["attempt"] == attempt), None)


# ---- for a terminal ----


def evictions_table(explanation: Explanation) -> Table:
    """One row for each eviction, at most 60; with those that were chosen and ended by themselves first."""
    found = explanation.evictions
    ended = sum(eviction.outcome == "ended" for eviction in found)
    evicted = len(found) - ended
    count = "one eviction" if evicted == 1 else f"{evicted} evictions"
    count += f", and {counted(ended, 'task')} chosen that ended first," if ended else ""
    columns = [*numbers("at, s", importance=5), *names("attempt"), *words("why it"), *names("for", importance=3)]
    columns += [*words("why its job", importance=2), *words("then"), *words("went on", importance=4)]
    table = new_table(f"{count} in {explanation.run}", columns)
    for eviction in found[:_ROWS]:
        table.add_row(
            f"{eviction.decision.t_s:.1f}",
            eviction.attempt,
            why(eviction.decision, eviction.chosen),
            _for_whom(eviction),
            eviction.why_job,
            _then(eviction),
            _went_on(eviction),
        )
    return table


def notes(explanation: Explanation) -> list[str]:
    """Notes to the table."""
    said = []
    found, attempt = explanation.evictions, explanation.attempt
    if not found and not explanation.cancelled and not explanation.by_order:
        nobody = "nobody" if explanation.job is None else f"no task of {explanation.job}"
        whom = f"{attempt} was never chosen" if attempt else f"{nobody} was evicted"
        said.append(f"{whom} (mechanism {explanation.mechanism})")
    if names := explanation.by_order:
        said.append(f"stopped by a trigger or by hand: {', '.join(names[:_ROWS])}{_more(names, names[:_ROWS])}")
    if names := explanation.cancelled:
        said.append(f"cancelled for other jobs: {', '.join(names[:_ROWS])}{_more(names, names[:_ROWS])}")
    if len(found) > _ROWS:
        said.append(f"{len(found) - _ROWS} more: --json prints all; --job and --attempt select some")
    if attempt:
        rows = [(decision, row) for decision in explanation.decisions if (row := _row(decision, attempt))]
        passed = [(decision, row) for decision, row in rows if not row["chosen"]]
        said += [f"passed over at {d.t_s:.1f} s by {d.by}: {why(d, row)}" for d, row in passed[:_ROWS]]
    return said


def said(explanation: Explanation) -> Iterator[str]:
    """What a scheduler said when it gave the requested job a container, took one for it, or took one from it; of a
    whole run, what YARN said of each round that killed."""
    named = [decision for decision in explanation.decisions if decision.by == Chooser.SCHEDULER]
    texts = [(decision, text) for decision in named if (text := decision.candidates[0]["why"]) is not None]
    if explanation.job is None:
        texts = [(decision, text) for decision, text in texts if decision.rule == YARN and "\n" in text]
    said = [*dict.fromkeys(f"at {decision.t_s:.3f} s {text}".replace("\n", "\n  ") for decision, text in texts)]
    shown = said if explanation.job is not None else said[:_ROUNDS]
    yield from shown
    if len(said) > len(shown):
        yield f"and {len(said) - len(shown)} more rounds that killed: --job and --attempt select some, --json has all"


def waits(explanation: Explanation) -> Iterator[str]:
    """What jobs waited for although their scheduler had let them start, and what the tasks of the requested job waited
    for: the resources that every node was short of.  Tasks that waited equally long for the same have one line, and
    those of a gang, which wait for each other, have one with what the last of them waited for."""
    for each in explanation.let_start[:_ROWS]:
        until = "the end" if each["until_s"] is None else f"{each['until_s']:.1f} s"
        yield f"from {each['since_s']:.1f} s to {until} {each['why']}"
    if len(explanation.let_start) > _ROWS:
        yield f"and {len(explanation.let_start) - _ROWS} more such waits: --json has all"
    alike = defaultdict[tuple[str, ...], list[Wait]](list)
    for wait in explanation.waits:
        execution = wait.attempt.rpartition(".")[2]
        together = (execution,) if explanation.is_gang else (execution, f"{wait.until_s:.1f}", wait.in_words())
        alike[(*together, wait.asked)].append(wait)
    for some in [*alike.values()][:_ROWS]:
        first, last = some[0], some[-1]
        whose = f"{first.attempt} ({first.asked})"
        if len(some) > 1:
            tasks = sorted(wait.attempt for wait in some)
            whose = f"{len(some)} tasks from {tasks[0]} to {tasks[-1]} ({first.asked} each)"
        yield f"until {last.until_s:.1f} s {whose} found no room: {last.in_words()}"
    if len(alike) > _ROWS:
        yield f"and {len(alike) - _ROWS} more such waits: --json has all"


def choices(explanation: Explanation) -> Iterator[tuple[str, Table]]:
    """The choices that took the requested attempt, and before that its job: a title and the candidates of each."""
    found = [decision for eviction in explanation.evictions for decision in _choices_of(eviction)]
    for decision in {decision.decision: decision for decision in found}.values():
        of_jobs = decision.by == Chooser.PREEMPTOR
        what = f"jobs for {decision.requester}" if of_jobs else f"tasks of {decision.job}"
        taken = sum(row["chosen"] for row in decision.candidates)
        containers = "a container" if taken == 1 else f"{taken} containers"
        title = f"at {decision.t_s:.3f} s the {decision.by} took {containers} from these {what} by {decision.rule}"
        yield title, _candidate_table(decision, of_jobs)


_TASK_COLUMNS = (("progress", "progress", "{:.0%}"), ("left, s", "remaining_s", "{:.1f}"), ("node", "node", "{}"))
_JOB_COLUMNS = (
    ("containers", "containers", "{:.0f}"),
    ("priority", "priority", "{:.0f}"),
    ("deadline, s", "deadline_s", "{:.1f}"),
    ("laxity, s", "laxity_s", "{:.1f}"),
    ("progress", "progress", "{:.0%}"),
)


def _candidate_table(decision: Decision, of_jobs: bool) -> Table:
    columns = _JOB_COLUMNS if of_jobs else _TASK_COLUMNS
    columns = [column for column in columns if any(row[column[1]] is not None for row in decision.candidates)]
    heads = [*names("job" if of_jobs else "attempt"), *numbers("chosen", importance=ALWAYS)]
    table = new_table(None, [*heads, *numbers(*(column[0] for column in columns))])
    for row in decision.candidates:
        cells = ["-" if row[field] is None else form.format(row[field]) for _, field, form in columns]
        name = row["job"] if of_jobs else row["attempt"] or row["container"]
        table.add_row(name, str(row["chosen"] or ""), *cells, style="bold" if row["chosen"] else None)
    if decision.left_out:
        table.caption = f"and {decision.left_out} candidates after these"
    return table


def _for_whom(eviction: Eviction) -> str:
    """The jobs that it was evicted for; where none is named, its own job, or a dash if a scheduler decided."""
    is_schedulers = any(each.by == Chooser.SCHEDULER for each in eviction.asked)
    return "\n".join(eviction.requesters) or ("-" if is_schedulers else "itself")


def _then(eviction: Eviction) -> str:
    if eviction.outcome == "ended":
        return "ended by itself before it was evicted"
    if eviction.overdue is not None:
        return f"not given back in time: killed at {eviction.overdue.t_s:.1f} s, lost {eviction.lost_s:.1f} s"
    kept = _lost(eviction) if eviction.outcome == "killed" else _kept(eviction)
    cost = "" if eviction.cost_s is None else f" in {eviction.cost_s:.2f} s"
    outcome = "saved as an image" if eviction.is_image else eviction.outcome
    return f"{outcome}{cost}, {kept}"


def _lost(eviction: Eviction) -> str:
    told = "" if eviction.terminated_s is None else f"SIGTERM at {eviction.terminated_s:.1f} s, "
    since = "" if eviction.saved_s is None else f" since it saved at {eviction.saved_s:.1f} s"
    return f"{told}lost {eviction.lost_s:.1f} s{since}"


def _kept(eviction: Eviction) -> str:
    if eviction.is_image:
        return "all its work kept"
    return "process kept" if eviction.keys_done is None else f"{eviction.keys_done} keys kept"


def _went_on(eviction: Eviction) -> str:
    if eviction.outcome == "ended":
        return ""
    if eviction.next_attempt is None:
        return "never"
    number = eviction.next_attempt.rpartition("/")[2]
    if eviction.next_s is None:
        return f"no further key, as {number}"
    where = "same node" if eviction.next_node == eviction.chosen["node"] else f"{eviction.next_node}"
    who = "" if eviction.next_attempt == eviction.attempt else f", as {number}"
    cost = "" if eviction.next_cost_s is None else f" ({eviction.next_cost_s:.2f} s)"
    return f"{eviction.next_s:.1f} s, {where}{who}{cost}"


# ---- what the tasks of a job waited for, where containers have several sizes ----

_NODES_NAMED = 4
_NOTHING: Curve = (numpy.empty(0), numpy.empty(0, dtype=numpy.int64))


@dataclass(frozen=True, slots=True)
class Wait:
    """The end of one wait."""

    attempt: str
    until_s: float
    asked: str
    """What its container asked for, in words."""
    node: str
    """Where it got its container."""
    short: dict[str, str]
    """For each node, what it was short of just before, in words; the nearest to enough first."""

    def in_words(self) -> str:
        """What the nodes were short of; of many nodes only the first."""
        named = [f"{node} lacked {what}" for node, what in list(self.short.items())[:_NODES_NAMED]]
        left = len(self.short) - len(named)
        return ", ".join(named) + (f", and {left} other nodes lacked some too" if left else "")


def waits_for_room(attempts: pyarrow.Table, nodes: Sequence[NodeSettings], job: str) -> tuple[Wait, ...]:
    """The waits of a job, by time; ``attempts``: the run's table.  None where containers have one size.

    A task's container is known to have been ready at an instant, ``ready_s``: the later of its request and of the time
    at which its room was free.  If every node was short of something just before, the task waited for room, and these
    are what it waited for.  Room that was there, but kept for others, is no such wait.
    """
    if not nodes[0].resources:
        return ()
    rows = attempts.select(["job", "attempt", "node", "ready_s", "request"]).to_pylist()
    mine = sorted((row for row in rows if row["job"] == job and row["request"]), key=lambda row: row["ready_s"])
    timeline = make_timeline(attempts, nodes, end_s=float("inf"))
    lanes = timeline.lanes
    held = {(lanes[use.lane].node, lanes[use.lane].resource): use.curve for use in timeline.uses}
    found = []
    for row in mine:
        request = tuple(amount["thousandths"] for amount in row["request"])
        short = {node.name: lacking(request, _free(node, held, row["ready_s"])) for node in nodes}
        if all(map(any, short.values())):
            names = nodes[0].resource_names
            nearest = sorted(short, key=lambda node: (sum(map(bool, short[node])), sum(short[node])))
            what = {node: written(short[node], names) for node in nearest}
            found.append(Wait(row["attempt"], row["ready_s"], written(request, names), row["node"], what))
    return tuple(found)


def _free(node: NodeSettings, curves: Mapping[tuple[str, str], Curve], at_s: float) -> Resources:
    """What was free of a node just before; ``curves``: what is held of each resource that nodes have."""
    held = []
    for name in node.resource_names:
        times_s, amounts = curves.get((node.name, name), _NOTHING)
        place = int(numpy.searchsorted(times_s, at_s, side="left")) - 1
        held.append(int(amounts[place]) if place >= 0 else 0)
    return minus(node.resources, tuple(held))
