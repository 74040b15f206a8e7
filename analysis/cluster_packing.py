"""How a cluster packs what its jobs ask for, before anything runs, for ``natjam workload inspect`` of an experiment.

What is wanted at a time is what tasks would hold if each started when its job is submitted and ran for its length.  At
the instant at which most is wanted of the scarcest resource, the tasks are placed one after another, in the order of
submission, each on the first node with room.  What is then free, although tasks wait, is lost to fragmentation.

Where all containers have one size, they are the only resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
from rich.table import Table

from analysis.curves import Curve, summed
from emulator.core.job import JobSpec
from emulator.core.settings import NodeSettings
from emulator.display.tables import ALWAYS, names, new_table, numbers
from emulator.policies.resources import (
    PARTS,
    WHOLE_PPM,
    count_fitting,
    dominant_ppm,
    first_fit,
    fits,
    minus,
    times,
    total,
    written,
)
from emulator.vocabulary import Resources

_ROWS = 30
"""Most rows of a table."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tasks of one group of a job."""

    job: str
    request: Resources
    tasks: int
    gang: int | None
    """How many of the job's tasks start together."""
    submit_ns: int
    lengths_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """What jobs ask for, and the nodes that they are to run on."""

    names: tuple[str, ...]
    nodes: tuple[Resources, ...]
    wanted: tuple[Wanted, ...]
    """In the order of submission."""

    @property
    def capacity(self) -> Resources:
        """What all nodes have together."""
        return total(self.nodes, self.names)

    def over_time(self, resource: int) -> Curve:
        """How much of a resource is wanted, by time in seconds."""
        spans = [(each.submit_ns, each.submit_ns + length, each.request[resource]) for each, length in self._tasks()]
        starts, ends, amounts = (numpy.array(column, dtype=numpy.int64) for column in zip(*spans, strict=True))
        return summed(numpy.concatenate([starts, ends]) / 1e9, numpy.concatenate([amounts, -amounts]))

    def peak(self, resource: int) -> tuple[float, int]:
        """When most of a resource is wanted, and how much."""
        times_s, amounts = self.over_time(resource)
        most = int(numpy.argmax(amounts))
        return float(times_s[most]), int(amounts[most])

    @property
    def scarcest(self) -> int:
        """The resource of which, at its peak, the largest share of the cluster is wanted."""
        shares = [self.peak(each)[1] / (all_of or 1) for each, all_of in enumerate(self.capacity)]
        return shares.index(max(shares))

    def placed_at(self, at_s: float) -> tuple[list[Resources], int, list[Resources]]:
        """The requests at a time, how many of them find room at once, and what each node then has left."""
        alive = [
            each.request
            for each, length in self._tasks()
            if each.submit_ns <= round(at_s * 1e9) < each.submit_ns + length
        ]
        return alive, *first_fit(alive, self.nodes)

    def _tasks(self) -> Iterator[tuple[Wanted, int]]:
        return ((each, length) for each in self.wanted for length in each.lengths_ns)


def packing_of(jobs: Sequence[JobSpec], nodes: Sequence[NodeSettings]) -> Packing:
    """What these jobs ask for, on these nodes."""
    has_sizes = bool(nodes[0].resources)
    wanted = [
        Wanted(
            job.name,
            group.request or (PARTS,),
            group.count,
            job.facts.gang,
            job.submit_ns,
            tuple(job.length_ns(group, task) for task in range(group.count)),
        )
        for job in jobs
        for group in job.facts.groups
    ]
    return Packing(
        nodes[0].resource_names if has_sizes else ("containers",),
        tuple(node.resources or (node.containers * PARTS,) for node in nodes),
        tuple(sorted(wanted, key=lambda each: each.submit_ns)),
    )


def tables(packing: Packing) -> Iterator[Table | str]:
    """The parts of the report: requests, gangs, resources, and how the peak is packed."""
    yield _requests(packing)
    if any(each.gang for each in packing.wanted):
        yield _gangs(packing)
    yield _resources(packing)
    yield _at_the_peak(packing)


def _requests(packing: Packing) -> Table:
    columns = [*names("request"), *numbers("jobs", "tasks", importance=4), *numbers("nodes\nlarge enough")]
    columns += numbers("fit on the\nempty cluster", "then left over", importance=3)
    by_request: dict[Resources, list[Wanted]] = {}
    for each in packing.wanted:
        by_request.setdefault(each.request, []).append(each)
    largest = sorted(by_request, key=lambda request: (-dominant_ppm(request, packing.capacity), request))
    title = "what tasks ask for"
    if len(largest) > _ROWS:
        title += f": the largest {_ROWS} of {len(largest):,} different requests"
    table = new_table(title, columns)
    for request in largest[:_ROWS]:
        found = by_request[request]
        counts = [count_fitting(request, node) for node in packing.nodes]
        left = [minus(node, times(count, request)) for node, count in zip(packing.nodes, counts, strict=True)]
        table.add_row(
            written(request, packing.names),
            f"{len({each.job for each in found}):,}",
            f"{sum(each.tasks for each in found):,}",
            f"{sum(map(bool, counts)):,} of {len(counts):,}",
            f"{sum(counts):,}",
            _shares(total(left, packing.names), packing),
        )
    return table


def _gangs(packing: Packing) -> Table:
    gangs = Counter[tuple[str, int]]()
    held: dict[str, list[Resources]] = {}
    for each in packing.wanted:
        if each.gang is not None:
            gangs[each.job, each.gang] += each.tasks
            held.setdefault(each.job, []).extend([each.request] * each.tasks)
    shares = {job: dominant_ppm(total(held[job], packing.names), packing.capacity) for job, _ in gangs}
    columns = [
        *names("job"),
        *numbers("tasks", "at once", importance=ALWAYS),
        *numbers("of the cluster", "find room\nin it empty"),
    ]
    title = "gangs" if len(gangs) <= _ROWS else f"the largest {_ROWS} of {len(gangs):,} gangs"
    table = new_table(title, columns)
    for (job, minimum), tasks in sorted(gangs.items(), key=lambda gang: -shares[gang[0][0]])[:_ROWS]:
        placed, _ = first_fit(held[job], packing.nodes)
        table.add_row(job, f"{tasks:,}", f"{minimum:,}", f"{shares[job] / WHOLE_PPM:.1%}", f"{placed:,}")
    return table


def _resources(packing: Packing) -> Table:
    columns = [*names("resource"), *numbers("cluster", "largest\nnode", "largest\nrequest")]
    columns += [
        *numbers("most wanted\nat once", "of the\ncluster", importance=4),
        *numbers("at, s"),
        *numbers("wanted until\nthe last end"),
    ]
    table = new_table("what is wanted of each resource, if every task starts when it is submitted", columns)
    span_ns = max(each.submit_ns + max(each.lengths_ns) for each in packing.wanted) - packing.wanted[0].submit_ns
    for place, name in enumerate(packing.names):
        capacity, (at_s, most) = packing.capacity[place], packing.peak(place)
        work = sum(each.request[place] * sum(each.lengths_ns) for each in packing.wanted)
        table.add_row(
            name,
            *(f"{amount / PARTS:,g}" for amount in (capacity, max(node[place] for node in packing.nodes))),
            f"{max(each.request[place] for each in packing.wanted) / PARTS:,g}",
            f"{most / PARTS:,g}",
            _percent(most, capacity),
            f"{at_s:,.1f}",
            _percent(work, capacity * span_ns),
        )
    return table


def _at_the_peak(packing: Packing) -> str:
    name = packing.names[packing.scarcest]
    at_s, _ = packing.peak(packing.scarcest)
    alive, placed, left = packing.placed_at(at_s)
    said = f"at {at_s:,.1f} s, when most {name} is wanted, {placed:,} of {len(alive):,} tasks find room"
    if placed == len(alive):
        return f"{said}: the cluster holds all that is ever wanted"
    smallest = min(alive, key=lambda request: dominant_ppm(request, packing.capacity))
    lost = [node for node in left if not fits(smallest, node)]
    return (
        f"{said}; {_shares(total(left, packing.names), packing)} is then free, of which"
        f" {_shares(total(lost, packing.names), packing)} is on nodes where no other of these tasks has room"
    )


def _shares(amounts: Resources, packing: Packing) -> str:
    """Shares of the cluster: ``12% cpu, 0% gpu``."""
    shares = zip(packing.names, amounts, packing.capacity, strict=True)
    return ", ".join(f"{_percent(amount, all_of)} {name}" for name, amount, all_of in shares)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
