"""The queue of a storage device, driven as a simulation drives it: each operation ends when it is due."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.application_master.devices import DeviceQueue


@dataclass
class Simulated:
    """A device, and what has happened on it."""

    queue: DeviceQueue
    now_ns: int = 0
    begun_at_ns: dict[str, int] = field(default_factory=dict)
    """In the order in which they began."""
    ended_at_ns: dict[str, int] = field(default_factory=dict)
    busy_ns: int = 0
    """Time with at least one active operation."""

    def until(self, at_ns: int | None) -> None:
        """End what is due up to an instant; None: everything."""
        while (due := self.queue.next_due()) and (at_ns is None or due[0] <= at_ns):
            self._pass_to(due[0])
            self.queue.end(due[1], self.now_ns)
            self.ended_at_ns[due[1]] = self.now_ns
            self._look()
        self._pass_to(max(self.now_ns, at_ns or 0))

    def submit(self, name: str, work_ns: int) -> None:
        self.queue.submit(name, work_ns, self.now_ns)
        self._look()

    def _pass_to(self, now_ns: int) -> None:
        self.busy_ns += (now_ns - self.now_ns) * bool(self.queue.active)
        self.now_ns = now_ns

    def _look(self) -> None:
        self.queue.validate()
        for name in sorted(self.queue.active - self.begun_at_ns.keys(), key=int):
            self.begun_at_ns[name] = self.now_ns


arrivals = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500)), min_size=1, max_size=15)
"""Time since the one before, work."""
several = st.integers(1, 5)


def run(at_once: int, operations: list[tuple[int, int]]) -> tuple[Simulated, list[int]]:
    device, submitted = Simulated(DeviceQueue(at_once)), []
    for number, (gap_ns, work_ns) in enumerate(operations):
        device.until(device.now_ns + gap_ns)
        submitted.append(device.now_ns)
        device.submit(str(number), work_ns)
    device.until(None)
    return device, submitted


@given(operations=arrivals)
def test_one_at_a_time_each_takes_its_work_after_the_one_before(operations: list[tuple[int, int]]) -> None:
    device, submitted = run(1, operations)
    free_ns = 0
    for number, (_, work_ns) in enumerate(operations):
        begins_ns = max(free_ns, submitted[number])
        free_ns = begins_ns + work_ns
        assert device.begun_at_ns[str(number)] == begins_ns
        assert device.ended_at_ns[str(number)] == free_ns


@given(at_once=several, operations=arrivals)
def test_the_device_is_never_idle_while_there_is_work_and_never_does_more_than_it_can(
    at_once: int, operations: list[tuple[int, int]]
) -> None:
    device, _ = run(at_once, operations)
    assert [*device.begun_at_ns] == [str(number) for number in range(len(operations))], "in the order they came"
    work_ns = sum(work for _, work in operations)
    roundings = len(operations)
    assert work_ns <= device.busy_ns <= work_ns + roundings
    for number, (_, work) in enumerate(operations):
        active_ns = device.ended_at_ns[str(number)] - device.begun_at_ns[str(number)]
        assert work <= active_ns <= at_once * work + roundings


@given(at_once=several, operations=arrivals, work_ns=st.integers(0, 500))
def test_the_foretold_wait_is_the_wait(at_once: int, operations: list[tuple[int, int]], work_ns: int) -> None:
    device = Simulated(DeviceQueue(at_once))
    for number, (gap_ns, work) in enumerate(operations):
        device.until(device.now_ns + gap_ns // 8)
        device.submit(str(number), work)
    foretold_ns, submitted_ns, last = device.queue.wait_ns(device.now_ns), device.now_ns, str(len(operations))
    device.submit(last, work_ns)
    device.until(None)
    roundings = len(operations) + 1
    assert foretold_ns <= device.begun_at_ns[last] - submitted_ns <= foretold_ns + roundings


@given(at_once=several, operations=arrivals, ends=st.lists(st.integers(0, 14), max_size=10))
def test_operations_that_end_early_or_late_leave_a_queue_that_goes_on(
    at_once: int, operations: list[tuple[int, int]], ends: list[int]
) -> None:
    queue, now_ns, here = DeviceQueue(at_once), 0, set()
    for number, (gap_ns, work_ns) in enumerate(operations):
        now_ns += gap_ns
        queue.submit(str(number), work_ns, now_ns)
        here.add(str(number))
        for name in {str(end) for end in ends} & here:
            queue.end(name, now_ns)
            here.discard(name)
        queue.validate()
        assert queue.wait_ns(now_ns) >= 0
    while due := queue.next_due():
        queue.end(due[1], max(now_ns, due[0]) + 5)
        now_ns = max(now_ns, due[0]) + 5
        queue.validate()
        here.discard(due[1])
    assert here == set()
    assert queue.wait_ns(now_ns) == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="0 operations"):
        DeviceQueue(0)
    queue = DeviceQueue()
    queue.submit("a", 5, 10)
    with pytest.raises(ValueError, match="here already"):
        queue.submit("a", 5, 10)
    with pytest.raises(ValueError, match="is before"):
        queue.submit("b", 5, 9)
    with pytest.raises(KeyError):
        queue.end("b", 11)
