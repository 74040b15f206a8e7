"""The queue of one storage device.

Theory of operation
-------------------
Dumps and restores of a node use its one device (adaptive-checkpointing, section 5.2.2).  At most ``at_once`` of them
are active together and share its speed evenly; the others wait in the order of arrival.  An operation has a *work*: the
nanoseconds it would take alone.  While n operations are active, each gets an n-th of the device.  So its due time
changes whenever an operation begins or ends, and ``next_due`` must be called again.  A simulation ends an operation
when it is due.  A live driver ends it when it has really ended, earlier or later, and the queue continues from there.

Progress is counted as *service*: what one operation has received that was active all the time.  The unit is
1/lcm(1..at_once) ns, so an n-th of it is a whole number.  Nothing is rounded except the times returned, which are
rounded up.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Operation:
    work_ns: int
    due_service: int = 0


class DeviceQueue:
    """The queue of one device; times are emulated nanoseconds and never go back."""

    def __init__(self, at_once: int = 1) -> None:
        if at_once < 1:
            raise ValueError(f"a device that does {at_once} operations at once")
        self.active: set[str] = set()
        """The operations that use the device; the others wait."""
        self._at_once = at_once
        self._unit = math.lcm(*range(1, at_once + 1))
        self._operations: dict[str, _Operation] = {}
        self._waiting: deque[str] = deque()
        self._service = 0
        self._now_ns = 0

    def submit(self, name: str, work_ns: int, now_ns: int) -> None:
        """Add an operation, which begins now if it need not wait.  Raises ValueError if there is already one with that
        name."""
        if name in self._operations:
            raise ValueError(f"operation {name} is here already")
        self._advance(now_ns)
        self._operations[name] = _Operation(work_ns)
        self._waiting.append(name)
        self._begin()

    def end(self, name: str, now_ns: int) -> None:
        """End an operation: it is done, has failed, or is no longer wanted.  Raises KeyError if it is unknown."""
        if name not in self._operations:
            raise KeyError(name)
        self._advance(now_ns)
        del self._operations[name]
        if name in self.active:
            self.active.discard(name)
            self._begin()
        else:
            self._waiting.remove(name)

    def next_due(self) -> tuple[int, str] | None:
        """When the first active operation is due, and its name, if no other begins or ends; None: none is active."""
        if not self.active:
            return None
        due_service, name = min((self._operations[name].due_service, name) for name in self.active)
        return self._now_ns + self._until(due_service, len(self.active)), name

    def wait_ns(self, now_ns: int) -> int:
        """How long an operation that came at ``now_ns`` would wait, if no operation ends early or late."""
        service = self._service_at(now_ns)
        dues = [max(service, self._operations[name].due_service) for name in self.active]
        heapq.heapify(dues)
        waiting = [self._operations[name].work_ns * self._unit for name in self._waiting]
        units = 0
        for work in [*waiting, 0]:
            if len(dues) == self._at_once:
                due_service = heapq.heappop(dues)
                units += (due_service - service) * (len(dues) + 1)
                service = due_service
            heapq.heappush(dues, service + work)
        return -(-units // self._unit)

    def validate(self) -> None:
        """Raise AssertionError if an invariant does not hold."""
        assert len(self.active) <= self._at_once
        assert not self._waiting or len(self.active) == self._at_once, "the device idles while operations wait"
        assert self.active.isdisjoint(self._waiting)
        assert self.active.union(self._waiting) == self._operations.keys()

    def _begin(self) -> None:
        while self._waiting and len(self.active) < self._at_once:
            name = self._waiting.popleft()
            operation = self._operations[name]
            operation.due_service = self._service + operation.work_ns * self._unit
            self.active.add(name)

    def _advance(self, now_ns: int) -> None:
        if now_ns < self._now_ns:
            raise ValueError(f"instant {now_ns} is before {self._now_ns}")
        self._service = self._service_at(now_ns)
        self._now_ns = now_ns

    def _service_at(self, now_ns: int) -> int:
        if not self.active:
            return self._service
        return self._service + (now_ns - self._now_ns) * (self._unit // len(self.active))

    def _until(self, due_service: int, sharing: int) -> int:
        """Nanoseconds until the service is ``due_service`` with ``sharing`` active operations; 0 if it is past."""
        return max(0, -(-(due_service - self._service) * sharing // self._unit))
