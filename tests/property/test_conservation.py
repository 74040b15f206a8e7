"""What the tables of any experiment must conserve, judged from the tables alone, without the machines that made them.

No node holds more than it has at any instant.  No gang stays half running: fewer of its tasks than it needs at once
hold containers only while they start, or while they give these up.  What an attempt held its container for is useful
work, lost work, or a wait for its start and its input: nothing is missing, and nothing is counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest
from cluster_cases import BAD_NETWORK, CALM, Case, cases, run, sized, storms, with_gangs, with_sized_gangs
from hypothesis import given
from msgspec import structs
from simulated import make_job, make_settings

from emulator.core.messages import Outcome
from emulator.core.settings import NodeSettings, Settings
from emulator.policies.resources import fits
from emulator.records.history import AttemptRow, History
from emulator.records.journal import merge
from emulator.sim.cost_model import CostModel
from emulator.vocabulary import MASTER, SECOND_NS, Resources
from tests.examples import drawn, fixed
from tests.histories import fold

Span = tuple[int, int]
"""From and until when, in emulated nanoseconds."""
_ONE_CONTAINER = 1000
"""Amounts are thousandths, where all containers have one size those of a container."""


def running_spans(row: AttemptRow) -> Iterator[Span]:
    """When the attempt's process ran in its container."""
    if row.launched_ns is None or row.ended_ns is None:
        return
    since_ns = row.launched_ns
    for span in row.suspended_spans:
        yield since_ns, span.stopped_ns
        since_ns = row.ended_ns if span.resumed_ns is None else span.resumed_ns
    yield since_ns, row.ended_ns


def stopped_spans(row: AttemptRow) -> Iterator[Span]:
    """When it was stopped."""
    for span in row.suspended_spans:
        if row.ended_ns is not None:
            yield span.stopped_ns, row.ended_ns if span.resumed_ns is None else span.resumed_ns


def check_nodes(history: History, settings: Settings) -> None:
    """No node holds more than it has at any instant."""
    for node in settings.nodes:
        changes = sorted(_changes(node, [row for row in history.attempts if row.node == node.name]))
        capacity = node.resources if node.resource_names else (_ONE_CONTAINER * node.containers,)
        held = (0,) * len(capacity)
        for at_ns, _, amount in changes:  # what ends at an instant is free at that instant
            held = tuple(map(sum, zip(held, amount, strict=True)))
            assert fits(held, capacity), f"{node.name} holds {held} of {capacity} at {at_ns} ns"
        assert not any(held)


def _changes(node: NodeSettings, rows: Iterable[AttemptRow]) -> Iterator[tuple[int, int, Resources]]:
    """When what the node holds becomes less (0) or more (1), and by what."""
    for row in rows:
        running = tuple(each.thousandths for each in row.request) if node.resource_names else (_ONE_CONTAINER,)
        if row.kind == MASTER and node.unmanaged_masters:
            continue
        stopped = node.held_when_stopped(running)
        for amount, spans in ((running, running_spans(row)), (stopped, stopped_spans(row))):
            for since_ns, until_ns in spans:
                yield since_ns, 1, amount
                yield until_ns, 0, tuple(-each for each in amount)


def check_attempts(history: History) -> None:
    """Useful work, lost work and waits add up to what the attempts held their containers for."""
    for row in history.attempts:
        held_ns = sum(until_ns - since_ns for since_ns, until_ns in running_spans(row))
        begun_ns = row.ended_ns if row.first_key_ns is None or row.kind == MASTER else row.first_key_ns
        waiting_ns = sum(
            max(0, min(until_ns, begun_ns) - since_ns)
            for since_ns, until_ns in running_spans(row)
            if begun_ns is not None
        )
        assert row.busy_ns == held_ns
        assert row.useful_ns + row.lost_ns + waiting_ns == held_ns, row


def check_jobs(history: History) -> None:
    """A job has what its attempts have."""
    for job in history.jobs:
        rows = [row for row in history.attempts if row.job == job.name and row.kind != MASTER]
        assert job.useful_ns == sum(row.useful_ns for row in rows)
        assert job.lost_work_ns == sum(row.lost_ns for row in rows)


def half_running_ns(history: History, job: str, minimum: int) -> int:
    """The longest time for which some tasks of a gang held containers, and fewer than had to.

    It must start whole: with its minimum, or all tasks that are left.  Tasks that end by themselves evict nobody, so
    from then on fewer may run; others that start raise the number again.
    """
    rows = [row for row in history.attempts if row.job == job and row.kind != MASTER]
    left, running, needed = sum(task.job == job for task in history.tasks), 0, 0
    started, released, succeeded = Counter[int](), Counter[int](), Counter[int]()
    for row in rows:
        for since_ns, until_ns in running_spans(row):
            started[since_ns] += 1
            released[until_ns] += 1
        if row.outcome is Outcome.SUCCEEDED and row.ended_ns is not None:
            succeeded[row.ended_ns] += 1
    half_since_ns, longest_ns = None, 0
    for at_ns in sorted({*started, *released}):
        left -= succeeded[at_ns]
        needed = min(needed, running - succeeded[at_ns])
        running += started[at_ns] - released[at_ns]
        needed = min(minimum, left, max(needed, running) if needed else minimum) if running else 0
        if running >= needed:
            longest_ns = max(longest_ns, 0 if half_since_ns is None else at_ns - half_since_ns)
            half_since_ns = None
        elif half_since_ns is None:
            half_since_ns = at_ns
    return longest_ns


def check(case: Case) -> History:
    """All of it, for one experiment.  Its tables."""
    cluster = run(case)
    history = fold(merge(cluster.records), cluster.jobs.values())
    check_nodes(history, case.settings)
    check_attempts(history)
    check_jobs(history)
    return history


def check_gangs(case: Case) -> None:
    """Also that no gang stays half running: for no longer than a job has to give what was reclaimed, and two heartbeats
    (one more of its own, and one of a node)."""
    history, protocol = check(case), case.settings.protocol
    bound_ns = protocol.kill_timeout_ns + 2 * protocol.heartbeat_ns
    for job in case.jobs:
        if job.facts.gang is not None:
            assert half_running_ns(history, job.name, job.facts.gang) <= bound_ns, job.name


EQUAL = cases(CALM | BAD_NETWORK) | storms() | cases(CALM | BAD_NETWORK, shared=True)
SIZED = cases(CALM | BAD_NETWORK).flatmap(sized)
GANGS = with_gangs(cases(CALM)) | with_sized_gangs(cases(CALM).flatmap(sized))


@given(EQUAL)
@fixed
def test_equal_containers(case: Case) -> None:
    check(case)


@given(SIZED)
@fixed
def test_containers_of_several_sizes(case: Case) -> None:
    check(case)


@given(GANGS)
@fixed
def test_gangs(case: Case) -> None:
    check_gangs(case)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@given(EQUAL | SIZED | GANGS)
@drawn
def test_the_same_at_length(case: Case) -> None:
    check(case)


# ---- what the checks find ----


def gang_of_two() -> tuple[Case, History]:
    """A gang of two that is suspended once, whole: a node has four containers, of which ApplicationMasters take two."""
    cluster = make_settings(containers=4, memory_gb=8, mechanism="suspend")
    gang, urgent = (
        make_job("gang", "research", 0.0, (), (20.0, 20.0)),
        make_job("urgent", "production", 8.0, (), (4.0, 4.0)),
    )
    jobs = structs.replace(gang, facts=structs.replace(gang.facts, gang=2)), urgent
    case = Case(cluster, jobs, CostModel(), None)
    return case, check(case)


def _changed(history: History, attempt: str, **fields: object) -> History:
    rows = [structs.replace(row, **fields) if row.attempt == attempt else row for row in history.attempts]
    return structs.replace(history, attempts=rows)


def test_they_hold_of_a_gang_that_is_stopped_and_resumes() -> None:
    case, history = gang_of_two()
    assert sum(len(row.suspended_spans) for row in history.attempts) == 2
    assert half_running_ns(history, "gang", 2) <= case.settings.protocol.heartbeat_ns


@pytest.mark.parametrize(
    ("fields", "finds"),
    [
        ({"suspended_spans": ()}, lambda history, case: check_nodes(history, case.settings)),
        ({"suspended_spans": ()}, lambda history, _: check_attempts(history)),
        ({"useful_ns": 0}, lambda history, _: check_attempts(history)),
        ({"lost_ns": 1}, lambda history, _: check_attempts(history)),
        ({"useful_ns": 0}, lambda history, _: check_jobs(history)),
    ],
)
def test_they_find_a_table_in_which_something_is_missing_or_twice(
    fields: dict[str, object], finds: Callable[[History, Case], None]
) -> None:
    case, history = gang_of_two()
    with pytest.raises(AssertionError):
        finds(_changed(history, "gang/r000.0", **fields), case)


def test_they_find_a_gang_of_which_one_task_was_taken() -> None:
    _, history = gang_of_two()
    one = _changed(history, "gang/r000.0", ended_ns=5 * SECOND_NS, suspended_spans=(), outcome=Outcome.KILLED)
    (other,) = [row for row in history.attempts if row.attempt == "gang/r001.0"]
    until_ns = other.suspended_spans[0].stopped_ns
    assert half_running_ns(one, "gang", 2) >= until_ns - 5 * SECOND_NS > SECOND_NS
