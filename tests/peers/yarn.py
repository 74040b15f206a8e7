"""Holds recorded answers of YARN's own ResourceManager against natjam:

    yarn.py rounds POLICY.jsonl.gz RUNS.jsonl.gz
    yarn.py runs RUNS.jsonl.gz
    yarn.py machines RUNS.jsonl.gz ...
    yarn.py played RUNS.jsonl.gz ...
    yarn.py alike RUNS.jsonl.gz ...

``rounds``: of each round of the preemption policy, what each queue is entitled to, what is obtained of it, and the
containers that are selected.  A round's queues are in its run, and so are the numbers of its requests.  Under the
default calculator only memory is compared.

``runs``: the log of each run, which is played with the nodes, ApplicationMasters and phases of the record: every
allocation, reservation, mark and kill with its time, in the order of YARN.  Which reservation of a request is given up
first is Java's order of node ids.

``machines``: whole clusters, ten runs with phases that are drawn.  Of each kind of run how many jobs complete within
3% of the record in the mean, and how many containers were preempted; ``N of M`` jobs last.  Exit status 1 if these are
less than nine of ten, or preempted containers of a kind are off by more than 5%.  ``played``: the same without
machines: what chance leaves (``yarn_machines``).  ``alike``: whether both come to the same with the same phases: of how
many runs all jobs complete at the same times.

The others print what differs, and ``N of M equal`` last; exit status 1 if any differs.  Where the records come from is
in tests/data/PROVENANCE.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from heapq import heappop, heappush
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.policies.resources import minus
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.capacity import CapacityScheduler, Queue, Request, RunningApplication, StepKind
from emulator.policies.yarn.ideal import Need
from emulator.policies.yarn.monitor import PreemptionMonitor
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.users import QueueLimits
from emulator.policies.yarn.victims import Application, Held, select
from emulator.vocabulary import Resources
from tests.peers.holding import hold_records, records

Record = Mapping[str, Any]


def preemption_of(given: Record) -> YarnPreemption:
    """The settings of a run, by Hadoop's names."""
    named = {
        "total_preemption_per_round": "total_preemption_per_round",
        "natural_termination_factor": "natural_termination_factor",
        "max_ignored_over_capacity": "max_ignored_over_capacity",
        "intra-queue-preemption.enabled": "intra_queue",
        "intra-queue-preemption.max-allowable-limit": "intra_queue_max_allowable_limit",
        "intra-queue-preemption.minimum-threshold": "intra_queue_minimum_threshold",
        "select_based_on_reserved_containers": "select_based_on_reserved_containers",
        "additional_res_balance_based_on_reserved_containers": "additional_res_balance_based_on_reserved_containers",
    }
    return YarnPreemption(
        given["monitoring_interval"] / 1000,
        given["max_wait_before_kill"] / 1000,
        **{ours: given[theirs] for theirs, ours in named.items() if theirs in given},
    )


def amount_of(given: Sequence[int], calculator: str) -> Resources:
    """A pair of MB and cores as the calculator sees it."""
    return tuple(given if calculator == "dominant" else given[:1])


class Round:
    """A recorded round of the policy."""

    def __init__(self, record: Record, run: Record) -> None:
        self._record = record
        self._run = run
        self._calculator = record["resource_calculator"]

    def difference(self) -> str | None:
        """The first part of it that differs, in words."""
        root = self._queue("root", self._run["queues"])
        applications = {leaf.name: self._applications(leaf.name) for leaf in root.leaves}
        amounts = Amounts(self._amount(self._record["cluster"]))
        free = self._free(applications)
        selected = select(root, applications, free, preemption_of(self._record["preemption"]), amounts)
        return next(self._differences(root, dict(zip(_SELECTORS, selected, strict=False))), None)

    def _amount(self, given: Sequence[int]) -> Resources:
        return amount_of(given, self._calculator)

    def _queue(self, path: str, children: Sequence[Record]) -> Need:
        seen = self._record["queues"][path]
        parts = ("guaranteed", "max", "used", "pending", "pending_less_reserved")
        return Need(
            path,
            *(self._amount(seen[part]) for part in parts),
            priority=seen.get("priority", 0),
            is_disabled=seen.get("disabled", False),
            children=tuple(self._queue(f"{path}.{child['name']}", child.get("queues", ())) for child in children),
        )

    def _applications(self, queue: str) -> list[Application]:
        return [
            Application(
                seen["name"],
                seen["priority"],
                self._amount(seen["pending"]),
                tuple(self._held(seen["name"], each) for each in seen["containers"]),
                tuple(self._held(seen["name"], each, "reserved:") for each in seen["reserved"]),
            )
            for seen in self._record["queues"][queue]["apps"]
        ]

    def _held(self, job: str, given: Sequence[Any], kind: str = "") -> Held:
        label, node = given[0], str(given[3])
        name = f"{kind}{job}/{label}" + (f"@{node}" if kind else "")
        if label == "am":
            return Held(name, self._amount(given[1:3]), node, is_master=True)
        tasks = next(each["tasks"] for each in self._run["jobs"] if each["name"] == job)
        attempts = next(each["attempts"] for each in self._run["answer"]["jobs"] if each["name"] == job)
        log = self._run["answer"]["log"]
        return Held(
            name,
            self._amount(given[1:3]),
            node,
            tasks[int(label.split(".")[0])].get("priority", 10),
            1 + next(number for number, each in enumerate(attempts) if f"{each[0]}.{each[1]}" == label),
            number=next((n for n, each in enumerate(log) if each[1] in _GIVES and each[2:4] == [job, label]), 0),
        )

    def _free(self, applications: Mapping[str, Sequence[Application]]) -> dict[str, Resources]:
        sizes = enumerate(self._run["nodes"])
        free = {str(number): self._amount((each["memory_mb"], each["vcores"])) for number, each in sizes}
        for each in (held for of in applications.values() for one in of for held in one.containers):
            free[each.node] = minus(free[each.node], each.amount)
        return free

    def _differences(self, queue: Need, selected: Mapping[str, list[str]]) -> Iterator[str]:
        yield from self._of_queue(queue)
        for selector, ours in selected.items():
            theirs = self._record["selected"].get(selector, [])
            if sorted(ours) != sorted(theirs):
                yield f"{selector} {sorted(ours)}, recorded {sorted(theirs)}"

    def _of_queue(self, queue: Need) -> Iterator[str]:
        seen = self._record["queues"][queue.name]
        parts = {"ideal": queue.ideal, "to_preempt": queue.to_preempt, "to_obtain": queue.to_obtain}
        for part, ours in parts.items():
            if part in seen and ours != (theirs := self._amount(seen[part])):
                yield f"{queue.name}: {part} {ours}, recorded {theirs}"
        for child in queue.children:
            yield from self._of_queue(child)


_SELECTORS = ("ReservedContainerCandidatesSelector", "FifoCandidatesSelector", "IntraQueueCandidatesSelector")
_GIVES = ("allocate", "fulfil")


# ---- whole runs ----

_UNRESERVED_FIRST = (5, 0, 2, 8, 6, 4, 10, 7, 1, 11, 3, 9)
"""Java's order of node ids: which of the reservations of a request is given up first."""
_ROUND_ORDER = ("unreserve", "mark", "preempt")
_KINDS = ("end", "up", "submit", "node", "master", "policy")
"""What happens at one millisecond, in this order."""


@dataclass(eq=False)
class _Job:
    """A job, and its ApplicationMaster."""

    index: int
    given: Record
    application: RunningApplication
    to_ask: list[tuple[int, int]]
    """Tasks and the numbers of their attempts that it asks for in its next call."""
    left: int
    asked: int = 0
    allocated: list[Request] = field(default_factory=list)
    """What it learns of in its next call."""
    completed: list[tuple[Request, bool]] = field(default_factory=list)
    """Containers that have ended, and whether by themselves."""


@dataclass(eq=False)
class _Process:
    """A container on its node."""

    job: _Job
    request: Request
    is_over: bool = False
    is_killed: bool = False
    """Whether the scheduler has given it up."""
    knows: bool = False
    """Whether its node knows that."""
    number: int = 0


def _unreserved_first(node: str) -> int:
    return _UNRESERVED_FIRST.index(int(node))


class Played:
    """A run with the nodes, ApplicationMasters and phases of the record, and natjam's decisions."""

    def __init__(self, run: Record, gives_up_first: Callable[[str], int] = _unreserved_first) -> None:
        self._run = run
        self._amount = partial(amount_of, calculator=run["resource_calculator"])
        self._now = 0
        self.log: list[list[Any]] = []
        self._queues: dict[str, Queue] = {}
        root = run.get("root", {})
        self._scheduler = CapacityScheduler(
            self._queue({"name": "root", "capacity": 100, "queues": run["queues"], **root}, None),
            self._amount((1024, 1)),
            run["offswitch"],
            gives_up_first,
        )
        for number, each in enumerate(run["nodes"]):
            self._scheduler.add_node(str(number), self._amount((each["memory_mb"], each["vcores"])))
        if run["preemption"] is not None:
            self._monitor = PreemptionMonitor(self._scheduler, preemption_of(run["preemption"]))
        self._processes: dict[str, dict[Request, _Process]] = {node: {} for node in self._scheduler.nodes}
        self._jobs: dict[str, _Job] = {}
        self.finished_ms: dict[str, int] = {}
        """When each job's ApplicationMaster called last."""
        self._events: list[tuple[int, int, int, int, Callable[[], None]]] = []

    def _queue(self, given: Record, parent: Queue | None) -> Queue:
        queue = Queue(
            f"{parent.name}.{given['name']}" if parent else "root",
            Fraction(str(given["capacity"])) / 100,
            Fraction(str(given.get("maximum", 100))) / 100,
            given.get("priority", 0),
            given.get("ordering_policy") == "priority-utilization",
            given.get("ordering_policy") == "fair",
            given.get("disable_preemption", False),
            QueueLimits(
                given.get("user_limit_factor", 100.0),
                given.get("minimum_user_limit_percent", 100.0),
                maximum_am_resource_percent=given.get("maximum_am_resource_percent", 1.0),
            ),
        )
        if parent:
            parent.add(queue)
        for child in given.get("queues", ()):
            self._queue(child, queue)
        self._queues[given["name"]] = queue
        return queue

    def difference(self) -> str | None:
        """The first line of the log that differs, in words."""
        self.play()
        for number, (ours, theirs) in enumerate(zip_longest(self.log, self._run["answer"]["log"])):
            if ours != theirs:
                return f"line {number}: {ours}, recorded {theirs}"
        return None

    def play(self, to_end: bool = False) -> None:
        """Play the run as long as was recorded, or to the end of all its jobs."""
        run = self._run
        for index, phase in enumerate(run["phases"]["nodes"]):
            self._at(phase, "node", index, partial(self._heartbeat, str(index)))
        for index, job in enumerate(run["jobs"]):
            self._at(job["submit_ms"], "submit", index, partial(self._submit, index, job))
        if run["preemption"] is not None:
            self._at(run["phases"]["policy"], "policy", 0, self._round)
        last = run["answer"]["end"]
        while len(self.finished_ms) < len(run["jobs"]) if to_end else self._events[0][0] <= last:
            self._now, *_, what = heappop(self._events)
            what()

    def _at(self, at_ms: int, kind: str, index: int, what: Callable[[], None]) -> None:
        heappush(self._events, (at_ms, _KINDS.index(kind), index, next(self._numbers), what))

    @cached_property
    def _numbers(self) -> Iterator[int]:
        return count()

    def _note(self, kind: str, request: Request, node: str) -> None:
        self.log.append([self._now, kind, request.application.name, request.name, int(node)])

    # ---- jobs ----

    def _submit(self, index: int, given: Record) -> None:
        master = self._amount((given["am"]["memory_mb"], given["am"]["vcores"]))
        queue = self._queues[given["queue"]]
        user = given.get("user", "u")
        application = self._scheduler.submit(given["name"], queue, given.get("priority", 0), user)
        self._scheduler.ask(Request(application, "am", master, 0, 0))
        tasks = [(task, 0) for task in range(len(given["tasks"]))]
        self._jobs[given["name"]] = _Job(index, given, application, tasks, len(tasks))

    def _call(self, job: _Job) -> None:
        """The ApplicationMaster's heartbeat."""
        for task, attempt in job.to_ask:
            given = job.given["tasks"][task]
            amount = self._amount((-(-given["memory_mb"] // 1024) * 1024, given["vcores"]))
            job.asked += 1
            name, priority = f"{task}.{attempt}", given.get("priority", 10)
            self._scheduler.ask(Request(job.application, name, amount, priority, job.asked))
        job.to_ask.clear()
        for request in job.allocated:
            process = _Process(job, request)
            self._processes[request.node][request] = process
            length = job.given["tasks"][int(request.name.split(".")[0])]["length_ms"]
            self._at(self._now + self._run["launch_ms"], "up", job.index, partial(self._start, process, length))
        job.allocated.clear()
        for request, by_itself in sorted(job.completed, key=lambda pair: pair[0].container):
            if by_itself:
                job.left -= 1
            elif not request.is_master:
                task, attempt = map(int, request.name.split("."))
                job.to_ask.append((task, attempt + 1))
        job.completed.clear()
        if job.left:
            self._at(self._next_call_ms(job), "master", job.index, partial(self._call, job))
            return
        self.finished_ms[job.given["name"]] = self._now
        master = next(each for each in job.application.held.values() if each.is_master)
        process = self._processes[master.node][master]
        self._at(self._now, "end", job.index, partial(self._end, process))

    def _next_call_ms(self, job: _Job) -> int:
        """A second later, or at the phase of its second calls if the run has that."""
        if "masters" not in self._run["phases"]:
            return self._now + 1000
        phase = self._run["phases"]["masters"][job.index]
        return phase + ((self._now - phase) // 1000 + 1) * 1000

    def _start(self, process: _Process, length: int) -> None:
        if not process.is_over:
            self._at(self._now + length, "end", process.job.index, partial(self._end, process))

    def _end(self, process: _Process) -> None:
        process.is_over = True

    # ---- nodes and the policy ----

    def _heartbeat(self, node: str) -> None:
        scheduler, processes = self._scheduler, self._processes[node]
        done = sorted((each for each in processes.values() if each.is_over), key=_by_container)
        for process in done:
            del processes[process.request]
            if process.is_killed:
                self._note("freed", process.request, node)
                scheduler.free(process.request)
        for process in (each for each in done if not each.is_killed):
            self._note("complete", process.request, node)
            scheduler.free(process.request)
            process.job.completed.append((process.request, True))
            if process.request.is_master:
                scheduler.end(process.job.application)
        for kind, request, where in scheduler.heartbeat(node):
            self._note(kind.value, request, where)
            if kind in (StepKind.ALLOCATE, StepKind.FULFIL):
                self._allocated(request)
        for process in processes.values():
            process.is_over |= process.is_killed
        self._at(self._now + 1000, "node", int(node), partial(self._heartbeat, node))

    def _allocated(self, request: Request) -> None:
        job = self._jobs[request.application.name]
        if not request.is_master:
            job.allocated.append(request)
            return
        self._processes[request.node][request] = _Process(job, request)
        up = self._now + self._run["am_launch_ms"]
        first = up + self._run["phases"]["jobs"][job.index]
        self._at(first, "master", job.index, partial(self._call, job))

    def _round(self) -> None:
        before, found = len(self.log), self._monitor.round(self._now * 1_000_000)
        for kind, request, node in found.given_up:
            self._note(kind.value, request, node)
        for request in found.marked:
            self._note("mark", request, request.node)
        for request in found.killed:
            self._kill(self._jobs[request.application.name], request)
        self.log[before:] = sorted(self.log[before:], key=_in_round)
        self._at(self._now + self._run["preemption"]["monitoring_interval"], "policy", 0, self._round)

    def _kill(self, job: _Job, request: Request) -> None:
        self._note("preempt", request, request.node)
        job.completed.append((request, False))
        self._processes[request.node][request].is_killed = True


def _by_container(process: _Process) -> tuple[int, int]:
    return process.job.index, process.request.container


def _in_round(line: Sequence[Any]) -> tuple[int, str, tuple[int, ...], int]:
    _, kind, job, label, node = line
    return _ROUND_ORDER.index(kind), job, (-1,) if label == "am" else tuple(map(int, label.split("."))), node


def differs_in_run(run: Record) -> str | None:
    """The first line of a run's log that differs."""
    return Played(run).difference()


def rounds(policy: str, runs: str) -> int:
    """Hold the rounds of a file against natjam; returns the exit status."""
    cases = {run["name"]: run for run in records(runs)}

    def differs(record: Record) -> str | None:
        return Round(record, cases[record["name"].split("@")[0]]).difference()

    named = ({**record, "name": f"{record['case']}@{record['t']}"} for record in records(policy))
    return hold_records(named, differs)


def main(arguments: Sequence[str]) -> int:
    """Hold the files; returns the exit status."""
    match arguments:
        case ["rounds", policy, runs]:
            return rounds(policy, runs)
        case ["runs", runs]:
            return hold_records(records(runs), differs_in_run)
        case ["machines" | "played" as which, *paths] if paths:
            from tests.peers import yarn_machines

            runs_of = yarn_machines.simulated if which == "machines" else yarn_machines.played
            return yarn_machines.hold((run for path in paths for run in records(path)), runs_of, seeds=10)
        case ["alike", *paths] if paths:
            from tests.peers import yarn_machines

            return hold_records((run for path in paths for run in records(path)), yarn_machines.differs_in_machines)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
