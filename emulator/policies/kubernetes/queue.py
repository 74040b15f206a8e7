"""The pods that wait: ready for an attempt, backing off after one, or set aside until something changes.

After a failure a pod is set aside, with the filters that refused it on some node.  It is ready again when what one of
these looks at may have changed: a pod leaves a node, or gets one; or a pod of at least its priority loses its
nomination; or five minutes after its attempt.  Back-off only changes the order: a scheduler with nobody else to look at
does not wait for it to end.

A pod of a gang is held until as many of it are there as have to start together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import Filter, FitError
from emulator.policies.kubernetes.topology import matches_all
from emulator.sites.kubernetes import Pending, Pod
from emulator.vocabulary import SECOND_NS

MAX_BACKOFF_S = 10
MAX_ASIDE_NS = 300 * SECOND_NS


def backoff_end_s(pending: Pending) -> int:
    """The last second in which a pod backs off: 1, 2, 4, 8, then always 10 after its failure; -1 without one."""
    if not pending.failures:
        return -1
    return pending.since_ns // SECOND_NS + min(1 << min(pending.failures - 1, 4), MAX_BACKOFF_S)


_OF_AFFINITY = (Filter.AFFINITY, Filter.ANTI_AFFINITY)


def refusing(fit_errors: Iterable[FitError]) -> tuple[str, ...]:
    """The filters that refuse a pod on some node where others may help; a node that is too small is none."""
    filters = {each.filter for each in fit_errors if not (each.filter is Filter.RESOURCES and each.is_hard)}
    return tuple(sorted(filters))


def _helps_by_leaving(pending: Pending, other: Pod) -> bool:
    """Whether what refused a pod may have changed because another has left its node."""
    pod, refused = pending.pod, pending.refused
    if Filter.RESOURCES in refused:
        return True
    if Filter.PORTS in refused and any(port.conflicts(its) for port in pod.ports for its in other.ports):
        return True
    if Filter.SPREAD in refused and _is_spread(pod, other):
        return True
    if not any(each in refused for each in _OF_AFFINITY):
        return False
    pairs = (pod.anti_affinity, other), (other.anti_affinity, pod)
    return any(terms and matches_all(terms, those) for terms, those in pairs)


def _helps_by_coming(pending: Pending, other: Pod) -> bool:
    """The same because another has got a node."""
    pod, refused = pending.pod, pending.refused
    if Filter.SPREAD in refused and _is_spread(pod, other):
        return True
    by_affinity = pod.affinity and any(each in refused for each in _OF_AFFINITY)
    return bool(by_affinity) and matches_all(pod.affinity, other)


def _is_spread(pod: Pod, other: Pod) -> bool:
    """Whether a pod is one of those among which another has to be spread."""
    return any(each.is_required and each.matches(pod, other) for each in pod.spread)


class Queue:
    """kube-scheduler's queue, with a time handed in for what depends on it."""

    def __init__(self, pending: Iterable[Pending] = ()) -> None:
        self._waiting: dict[str, Pending] = {}
        self._active: list[tuple[int, int, str]] = []
        self._backing_off: list[tuple[int, int, int, str]] = []
        self._unschedulable: dict[str, None] = {}
        self._held: dict[str, None] = {}
        """Those that are not looked at before more of their group are there."""
        self._groups: dict[str, dict[str, None]] = {}
        """All that wait of each group."""
        for each in pending:
            self.add(each)

    def add(self, pending: Pending) -> None:
        """A pod comes, or comes back from an attempt."""
        self._enter(pending)
        if pending.aside:
            self._unschedulable[pending.pod.name] = None
        else:
            self._make_ready(pending)

    def hold(self, pending: Pending) -> None:
        """A pod comes that is not looked at before its group is released."""
        self._enter(pending)
        self._held[pending.pod.name] = None

    def release(self, group: str) -> None:
        """All of a group are ready."""
        for name in self._groups[group]:
            if name in self._held or name in self._unschedulable:
                self._held.pop(name, None)
                self._wake_one(name)

    def members(self, group: str) -> int:
        """How many of a group wait."""
        return len(self._groups.get(group, ()))

    def pop(self, now_ns: int) -> Pending | None:
        """The pod for the next attempt: of the highest priority, then the one whose last attempt is longest ago.

        If there is none, the pod whose back-off ends first.
        """
        while self._backing_off and self._backing_off[0][0] < now_ns // SECOND_NS:
            heappush(self._active, heappop(self._backing_off)[1:])
        if self._active:
            return self._exit(heappop(self._active)[-1])
        return self._exit(heappop(self._backing_off)[-1]) if self._backing_off else None

    def pop_group(self, group: str) -> list[Pending]:
        """All that wait of a group, in the order in which they came, for one attempt."""
        return self._take([*self._groups.get(group, ())])

    def discard(self, name: str) -> None:
        """A pod is deleted, if it waits here."""
        if name in self._waiting:
            self._take([name])

    def _take(self, names: Sequence[str]) -> list[Pending]:
        taken = {name: self._exit(name) for name in names}
        for name in names:
            self._unschedulable.pop(name, None)
            self._held.pop(name, None)
        self._active = [each for each in self._active if each[-1] not in taken]
        self._backing_off = [each for each in self._backing_off if each[-1] not in taken]
        heapify(self._active)
        heapify(self._backing_off)
        return list(taken.values())

    def _enter(self, pending: Pending) -> None:
        self._waiting[pending.pod.name] = pending
        if pending.pod.group:
            self._groups.setdefault(pending.pod.group, {})[pending.pod.name] = None

    def _exit(self, name: str) -> Pending:
        pending = self._waiting.pop(name)
        if pending.pod.group:
            del self._groups[pending.pod.group][name]
        return pending

    def denominate(self, name: str) -> Pod:
        """A waiting pod loses its nomination; the pod."""
        pending = self._waiting[name] = replace(self._waiting[name], nominated=None)
        return pending.pod

    def pod_left(self, pod: Pod) -> None:
        """A pod has left its node."""
        self._wake(lambda pending: _helps_by_leaving(pending, pod))

    def pod_bound(self, pod: Pod) -> None:
        """A pod has got a node."""
        self._wake(lambda pending: _helps_by_coming(pending, pod))

    def nomination_lost(self, pod: Pod) -> None:
        """A pod no longer waits for its node."""
        self._wake(lambda pending: pending.pod.priority <= pod.priority and _helps_by_leaving(pending, pod))

    def flush(self, now_ns: int) -> None:
        """Make those ready whose last attempt is more than five minutes ago; kube-scheduler looks every 30 seconds."""
        self._wake(lambda pending: now_ns - pending.since_ns > MAX_ASIDE_NS)

    @property
    def has_ready(self) -> bool:
        """Whether a cycle would find a pod."""
        return bool(self._active or self._backing_off)

    @property
    def has_unschedulable(self) -> bool:
        """Whether anybody waits for a change."""
        return bool(self._unschedulable)

    def _wake(self, wakes: Callable[[Pending], bool]) -> None:
        for name in [name for name in self._unschedulable if wakes(self._waiting[name])]:
            self._wake_one(name)

    def _wake_one(self, name: str) -> None:
        self._unschedulable.pop(name, None)
        pending = self._waiting[name] = replace(self._waiting[name], aside=False)
        self._make_ready(pending)

    def _make_ready(self, pending: Pending) -> None:
        heappush(self._backing_off, (backoff_end_s(pending), -pending.pod.priority, pending.since_ns, pending.pod.name))
