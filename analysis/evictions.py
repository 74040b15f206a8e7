"""Every eviction of a run, for ``natjam explain``: who chose it and why, what it cost, and how the task continued.

from analysis.evictions import evictions, why
for eviction in evictions("runs/fig4"):
    print(eviction.attempt, why(eviction.decision, eviction.chosen))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from analysis.load import rows_of
from analysis.run_paths import the_run
from analysis.run_schema import OF_A_CHOICE
from emulator.records.history import Chooser
from emulator.vocabulary import Frozen, Mechanism

Row = Mapping[str, Any]
"""A row of a table, by column name; None if there is no value."""

_SCORES = {
    "containers": "{:.0f} containers",
    "priority": "priority {:.0f}",
    "deadline_s": "deadline at {:.1f} s",
    "laxity_s": "laxity {:.1f} s",
    "remaining_s": "{:.1f} s left",
    "started_s": "on its container since {:.1f} s",
    "image_memory_s": "an image costs {:.1f} s",
    "image_overhead_s": "an image costs {:.1f} s",
    "drawn_place": "drawn as no. {:.0f}",
}
_NO_SCORE = {"deadline_s": "no deadline", "laxity_s": "no deadline", "remaining_s": "no estimate yet"}


class Decision(Frozen):
    """One choice of victims: the columns of ``load_decisions`` that all its candidates share, and its candidates."""

    decision: int
    t_s: float
    by: str
    rule: str
    requester: str | None
    left_out: int
    candidates: list[Row] = msgspec.field(default_factory=list)
    """The next victim first, with the other columns of ``load_decisions``."""

    @property
    def job(self) -> str:
        """The job whose tasks were chosen."""
        return self.candidates[0]["job"]

    def to_json(self) -> dict[str, Any]:
        """Its fields; candidates have only known values."""
        candidates = [{name: value for name, value in row.items() if value is not None} for row in self.candidates]
        return {**{name: getattr(self, name) for name in OF_A_CHOICE}, "candidates": candidates}


class Eviction(Frozen):
    """One attempt chosen to give back its container.  Times are emulated seconds; None: this never happened."""

    decision: Decision
    chosen: Row
    """Its row among the candidates."""
    asked: list[Decision]
    """The Preemptor's requests to its job since the job last chose among its tasks; the decision itself if a scheduler
    named the container."""
    outcome: str
    """``checkpointed``, ``suspended``, ``killed`` or ``ended`` (by itself, before it was taken)."""
    freed_s: float | None
    """When its container was free again."""
    cost_s: float | None
    """The measured overhead: from the request (for a kill: from the order) until the container was free."""
    lost_s: float
    """Work that had to be done again."""
    keys_done: int | None
    terminated_s: float | None
    """When it was sent SIGTERM, before SIGKILL."""
    saved_s: float | None
    """When it had last saved by itself."""
    next_attempt: str | None
    """The attempt that continued the task: itself if its process was only stopped.  If the next attempt was evicted
    before its first key, it is a later one."""
    next_node: str | None
    next_s: float | None
    """When that attempt did its first key, or was resumed."""
    next_cost_s: float | None
    """The measured overhead of this."""
    queue: str = ""
    """The queue of its job; empty: the tables do not have the attempt."""
    overdue: Decision | None = None
    """The ResourceManager's later choice to kill it, because its container had not been given back in time."""

    @property
    def is_image(self) -> bool:
        """Whether its whole process was saved: then all its work is kept, whatever keys it has done."""
        return self.outcome == "checkpointed" and self.chosen["mechanism"] == Mechanism.IMAGE

    @property
    def requesters(self) -> list[str]:
        """The jobs that wanted containers; empty if its own job wanted them."""
        return list(dict.fromkeys(decision.requester for decision in self.asked if decision.requester))

    @property
    def why_job(self) -> str:
        """Why the Preemptor last asked its job; empty if it did not."""
        if not self.asked or self.asked == [self.decision]:
            return ""
        last = self.asked[-1]
        return why(last, next(row for row in last.candidates if row["job"] == self.decision.job))

    @property
    def job(self) -> str:
        """The job whose task it is."""
        return self.chosen["job"]

    @property
    def t_s(self) -> float:
        """When it was chosen."""
        return self.decision.t_s

    @property
    def attempt(self) -> str:
        """Its name, or its container's if the journal does not have it."""
        return self.chosen["attempt"] or self.chosen["container"]

    def to_json(self) -> dict[str, Any]:
        """Its fields, with the numbers of decisions."""
        names = ("job", "task", "attempt", "container", "node", "place", "score_name", "score", "progress")
        after = ("outcome", "freed_s", "cost_s", "lost_s", "keys_done", "terminated_s", "saved_s")
        following = ("next_attempt", "next_node", "next_s", "next_cost_s")
        return {
            "decision": self.decision.decision,
            "t_s": self.decision.t_s,
            **{name: self.chosen[name] for name in names},
            "why": why(self.decision, self.chosen),
            "requesters": self.requesters,
            "why_job": self.why_job,
            "asked_in": [decision.decision for decision in self.asked],
            **{name: getattr(self, name) for name in (*after, *following)},
            "overdue_in": self.overdue.decision if self.overdue else None,
        }


def evictions(path: str | Path) -> list[Eviction]:
    """All evictions of one run, by time.  Raises ConfigError: it is not one finished run, or a file of it is broken."""
    found = the_run(path).path
    return find_evictions(rows_of(found, "attempts"), rows_of(found, "operations"), decisions_of(found))


def decisions_of(path: Path) -> list[Decision]:
    """The choices of victims of the run in this directory.  Raises ConfigError."""
    return decisions_in(rows_of(path, "decisions"))


def decisions_in(rows: Iterable[Row]) -> list[Decision]:
    """The choices in the rows of ``decisions.parquet``."""
    found: list[Decision] = []
    for row in rows:
        if not found or found[-1].decision != row["decision"]:
            found.append(Decision(**{name: row[name] for name in OF_A_CHOICE}))
        found[-1].candidates.append({name: value for name, value in row.items() if name not in OF_A_CHOICE})
    return found


def find_evictions(attempts: Iterable[Row], operations: Iterable[Row], decisions: Iterable[Decision]) -> list[Eviction]:
    """The evictions of the victims of ``decisions``; rows are those of the tables of the same run."""
    story = _Story(attempts, operations)
    asked: dict[str, list[Decision]] = defaultdict(list)
    """By job, the Preemptor's requests since it last gave back something."""
    last: dict[str, list[Decision]] = {}
    found: list[Eviction] = []
    killed: dict[str, int] = {}
    """By container, the place of its kill in ``found``."""
    for decision in sorted(decisions, key=_in_time):
        if decision.by == Chooser.PREEMPTOR:
            for candidate in decision.candidates:
                if candidate["chosen"]:
                    asked[candidate["job"]].append(decision)
            continue
        job = decision.job
        if decision.by == Chooser.SCHEDULER:
            (candidate,) = decision.candidates
            found += [story.eviction(decision, candidate, [decision])] if candidate["chosen"] else []
            continue
        last[job] = asked.pop(job, None) or last.get(job, [])
        because = [] if decision.by == Chooser.APPLICATION_MASTER else last[job]
        for candidate in decision.candidates:
            if not candidate["chosen"]:
                continue
            container = candidate["container"]
            if container not in killed:
                found.append(story.eviction(decision, candidate, because))
                if found[-1].outcome == "killed":
                    killed[container] = len(found) - 1
            elif decision.by == Chooser.RESOURCE_MANAGER:  # it was chosen before, and dies only once
                found[killed[container]] = replace(found[killed[container]], overdue=decision)
    return _joined(found)


def _in_time(decision: Decision) -> tuple[float, bool]:
    """Where news come at once, a job is asked and chooses at one instant, and the table has actors by their names."""
    return decision.t_s, decision.by != Chooser.PREEMPTOR


def _joined(found: list[Eviction]) -> list[Eviction]:
    """One eviction for each task, where a scheduler names one container of a job whose tasks go together."""
    own: dict[str, list[Decision]] = defaultdict(list)
    for eviction in found:
        if eviction.decision.by == Chooser.RELEASER:
            own[eviction.chosen["container"]].append(eviction.decision)
    named: dict[int, Decision] = {}
    """By the number of the job's choice."""
    left_out: set[int] = set()
    for said in (each.decision for each in found if each.decision.by == Chooser.SCHEDULER):
        choices = own[said.candidates[0]["container"]]
        choice = next((each for each in choices if each.decision not in named and each.t_s >= said.t_s), None)
        if choice is not None:
            named[choice.decision] = said
            left_out.add(said.decision)
    kept = (each for each in found if each.decision.decision not in left_out)
    return [replace(each, asked=[of]) if (of := named.get(each.decision.decision)) else each for each in kept]


def why(decision: Decision, candidate: Row) -> str:
    """Why a candidate was chosen or passed over, as one line: ``srt: 50.2 s left, 1st of 47``."""
    rule, by, candidates = decision.rule, decision.by, len(decision.candidates) + decision.left_out
    said = candidate.get("why")
    if said is not None and by == Chooser.SCHEDULER:
        return f"{rule}: {said.partition(chr(10))[0]}"
    name, score = candidate["score_name"], candidate["score"]
    parts = []
    if score is not None:
        parts.append(_SCORES[name].format(score) if name in _SCORES else f"{name} {score:g}")
    elif name is not None:
        parts.append(_NO_SCORE.get(name, "unknown"))
    place = f"no. {candidate['place']:.0f} of {candidates}"
    if rule == "pr":
        place = f"drawn among {candidates}"
    parts.append("the only one" if candidates == 1 else place)
    is_late = by == Chooser.RESOURCE_MANAGER and said is None
    late = "killed because a container was not given back in time, " if is_late else ""
    return f"{late}{rule}: {', '.join(parts)}" + (f"; {said}" if said else "")


class _Story:
    """What happened to attempts, by container and by task."""

    def __init__(self, attempts: Iterable[Row], operations: Iterable[Row]) -> None:
        self._attempts = {row["container"]: row for row in attempts}
        self._of_task: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        for row in self._attempts.values():
            self._of_task[row["job"], row["kind"], row["task"]].append(row)
        self._operations: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(operations, key=itemgetter("begin_s")):
            self._operations[row["container"]].append(row)

    def eviction(self, decision: Decision, chosen: Row, asked: list[Decision]) -> Eviction:
        container, t_s = chosen["container"], decision.t_s
        attempt = self._attempts.get(container, {})
        stop = _first_from(attempt.get("suspended_spans", ()), "stopped_s", t_s)
        outcome, freed_s, following = "ended", attempt.get("slot_freed_s"), None
        if stop is not None:
            outcome, freed_s = "suspended", stop["freed_s"]
            following = attempt if stop["resumed_s"] is not None else self._after(attempt)
        elif attempt.get("outcome") in ("checkpointed", "killed"):
            outcome, following = attempt["outcome"], self._after(attempt)
        next_s = following["first_key_s"] if following else None
        if stop is not None and following is attempt:
            next_s = stop["resumed_s"]
        resumed = following and self._operation(following["container"], ("resume", "schedule"), t_s)
        cost = self._operation(container, ("kill",) if outcome == "killed" else ("suspend",), t_s)
        return Eviction(
            decision=decision,
            chosen=chosen,
            asked=asked,
            outcome=outcome,
            freed_s=freed_s,
            cost_s=cost["total_s"] if cost and outcome != "ended" else None,
            lost_s=attempt.get("lost_s") or 0.0 if outcome == "killed" else 0.0,
            keys_done=None if outcome == "suspended" else attempt.get("keys_done"),
            terminated_s=attempt.get("terminated_s"),
            saved_s=attempt.get("saved_s"),
            next_attempt=following["attempt"] if following else None,
            next_node=following["node"] if following else None,
            next_s=next_s,
            next_cost_s=resumed["total_s"] if resumed else None,
            queue=attempt.get("queue", ""),
        )

    def _after(self, attempt: Row) -> Row | None:
        """The next attempt at the same task that did any work; if none did, the next attempt."""
        siblings = self._of_task[attempt["job"], attempt["kind"], attempt["task"]]
        later = [row for row in siblings if row["ready_s"] > attempt["ready_s"]]
        return next((row for row in later if row["first_key_s"] is not None), later[0] if later else None)

    def _operation(self, container: str, names: tuple[str, ...], from_s: float) -> Row | None:
        mine = [row for row in self._operations.get(container, ()) if row["operation"] in names]
        return _first_from(mine, "begin_s", from_s)


def _first_from(rows: Iterable[Row], time: str, from_s: float) -> Row | None:
    return next((row for row in rows if row[time] >= from_s), None)
