"""The pods that wait: ready for an attempt, backing off after one, or set aside until something changes.

After a failure a pod is set aside.  It is ready again when a pod leaves a node, if there is a node where it would fit
without others; when a pod of at least its priority loses its nomination; or five minutes after its attempt.  Back-off
only changes the order: a scheduler with nobody else to look at does not wait for it to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from emulator.policies.kubernetes.model import Pending

SECOND_NS = 10**9
MOST_BACKOFF_S = 10
MOST_ASIDE_NS = 300 * SECOND_NS


def backoff_end_s(pending: Pending) -> int:
    """The last second in which a pod backs off: 1, 2, 4, 8, then always 10 after its failure; -1 without one."""
    if not pending.failures:
        return -1
    return pending.since_ns // SECOND_NS + min(1 << min(pending.failures - 1, 4), MOST_BACKOFF_S)


class Queue:
    """kube-scheduler's queue, with a time handed in for what depends on it."""

    def __init__(self, pending: Iterable[Pending] = ()) -> None:
        self._waiting: dict[str, Pending] = {}
        self._active: list[tuple[int, int, str]] = []
        self._backing_off: list[tuple[int, int, int, str]] = []
        self._aside: dict[str, None] = {}
        for each in pending:
            self.add(each)

    def add(self, pending: Pending) -> None:
        """A pod comes, or comes back from an attempt."""
        name = pending.pod.name
        self._waiting[name] = pending
        if pending.aside:
            self._aside[name] = None
        else:
            self._make_ready(pending)

    def pop(self, now_ns: int) -> Pending | None:
        """The pod for the next attempt: of the highest priority, then the one whose last attempt is longest ago.

        If there is none, the pod whose back-off ends first.
        """
        while self._backing_off and self._backing_off[0][0] < now_ns // SECOND_NS:
            heappush(self._active, heappop(self._backing_off)[1:])
        if self._active:
            return self._waiting.pop(heappop(self._active)[-1])
        return self._waiting.pop(heappop(self._backing_off)[-1]) if self._backing_off else None

    def discard(self, name: str) -> None:
        """A pod is deleted, if it waits here."""
        if self._waiting.pop(name, None) is None:
            return
        self._aside.pop(name, None)
        self._active = [each for each in self._active if each[-1] != name]
        self._backing_off = [each for each in self._backing_off if each[-1] != name]
        heapify(self._active)
        heapify(self._backing_off)

    def denominate(self, name: str) -> int:
        """A waiting pod loses its nomination; its priority."""
        pending = self._waiting[name] = replace(self._waiting[name], nominated=None)
        return pending.pod.priority

    def pod_left(self) -> None:
        """A pod has left its node."""
        self._wake(lambda pending: pending.may_fit)

    def nomination_lost(self, priority: int) -> None:
        """A pod of this priority no longer waits for its node."""
        self._wake(lambda pending: pending.may_fit and pending.pod.priority <= priority)

    def look(self, now_ns: int) -> None:
        """Make those ready whose last attempt is more than five minutes ago; kube-scheduler looks every 30 seconds."""
        self._wake(lambda pending: now_ns - pending.since_ns > MOST_ASIDE_NS)

    @property
    def has_ready(self) -> bool:
        """Whether a cycle would find a pod."""
        return bool(self._active or self._backing_off)

    @property
    def has_aside(self) -> bool:
        """Whether anybody waits for a change."""
        return bool(self._aside)

    def pending(self) -> tuple[Pending, ...]:
        """All that wait: the ready ones, those that back off, and those that are set aside."""
        names = [*(key[-1] for key in sorted(self._active)), *(key[-1] for key in sorted(self._backing_off))]
        return tuple(self._waiting[name] for name in (*names, *self._aside))

    def _wake(self, wakes: Callable[[Pending], bool]) -> None:
        for name in [name for name in self._aside if wakes(self._waiting[name])]:
            del self._aside[name]
            pending = self._waiting[name] = replace(self._waiting[name], aside=False)
            self._make_ready(pending)

    def _make_ready(self, pending: Pending) -> None:
        heappush(self._backing_off, (backoff_end_s(pending), -pending.pod.priority, pending.since_ns, pending.pod.name))
