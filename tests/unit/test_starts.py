"""The queue of starts: a few at a time, in order, and nobody who is stuck holds up the rest."""

from __future__ import annotations

from emulator.live.tasks.containers import ContainerProcess
from emulator.live.tasks.supervisor import StartQueue

TIMEOUT_NS = 1000


def queue(*names: str) -> tuple[StartQueue, dict[str, ContainerProcess]]:
    """A queue two wide in which these containers wait."""
    containers = {name: ContainerProcess(name, "reduce", 0, {}, 0) for name in names}
    starts = StartQueue(2, TIMEOUT_NS)
    for container in containers.values():
        starts.add(container)
    return starts, containers


def taken(starts: StartQueue, now_ns: int) -> list[str]:
    """All that may start now."""
    found = []
    while (container := starts.take(now_ns)) is not None:
        found.append(container.id)
    return found


def test_as_many_start_as_the_queue_is_wide_and_the_next_when_one_has_settled() -> None:
    starts, containers = queue("a", "b", "c", "d")
    assert taken(starts, 10) == ["a", "b"]
    assert starts.wait_real_ns(10) == TIMEOUT_NS
    starts.settled(containers["b"])
    starts.settled(containers["b"])
    assert starts.wait_real_ns(11) == 0
    assert taken(starts, 11) == ["c"]
    starts.settled(containers["a"])
    assert taken(starts, 12) == ["d"]
    assert starts.wait_real_ns(12) is None


def test_one_that_takes_long_gives_up_its_turn() -> None:
    starts, _ = queue("a", "b", "c", "d", "e")
    assert taken(starts, 0) == ["a", "b"]
    assert starts.wait_real_ns(400) == TIMEOUT_NS - 400
    assert taken(starts, TIMEOUT_NS - 1) == []
    assert taken(starts, TIMEOUT_NS) == ["c", "d"]


def test_one_that_ends_waits_no_more_and_holds_nobody_up() -> None:
    starts, containers = queue("a", "b", "c", "d")
    assert taken(starts, 0) == ["a", "b"]
    starts.forget(containers["c"])
    starts.forget(containers["a"])
    assert taken(starts, 1) == ["d"]


def test_one_is_in_the_queue_once_and_may_have_another_turn() -> None:
    starts, containers = queue("a")
    starts.add(containers["a"])
    assert taken(starts, 0) == ["a"]
    starts.add(containers["a"])
    assert taken(starts, 0) == ["a"]
    assert starts.wait_real_ns(0) is None
