"""Holds recorded answers of YARN's own ResourceManager against natjam:

    yarn.py rounds POLICY.jsonl.gz RUNS.jsonl.gz

``rounds``: of each round of the preemption policy, what each queue is entitled to, what is obtained of it, and the
containers that are selected.  A round's queues are in its run, and so are the numbers of its requests.  Under the
default calculator only memory is compared.

Prints what differs, and ``N of M equal`` last; exit status 1 if any differs.  Where the records come from is in
tests/data/PROVENANCE.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.policies.resources import minus
from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.ideal import Need
from emulator.policies.yarn.options import YarnPreemption
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
        return next(self._differences(root, dict(zip(_SELECTORS, selected, strict=True))), None)

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
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
