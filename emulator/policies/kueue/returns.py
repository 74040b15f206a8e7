"""When evictions go round in a circle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Protocol

from emulator.sites.kueue import Workload
from emulator.vocabulary import Frozen

MOST_RETURNS = 10
MOST_EVICTIONS, MOST_IN_VAIN = 1000, 100
"""Of one workload, while nobody arrives or ends; ``IN_VAIN``: if it starts anew each time."""
_MOST_NAMED = 5


class Loop(Frozen):
    """What comes back again and again."""

    at_ns: int
    since_ns: int
    """The last arrival or end before."""
    period_ns: int
    workloads: tuple[str, ...]
    """Those that were evicted."""
    cycles: tuple[int, int] = (0, 0)
    """The cycle after which it was so for the first time, and the one after which it was so again."""


class Played(Protocol):
    """What is played."""

    @property
    def running(self) -> Iterable[str]:
        """The workloads that run now."""
        ...

    @property
    def cycles(self) -> int:
        """Run so far."""
        ...

    def state(self) -> Hashable:
        """All that decides what happens next."""
        ...


class Returns(ABC):
    """Looks for what comes back."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[int, ...]] = {}
        self.evicted: list[str] = []
        """Since the last arrival or end, in order; the player adds to it."""
        self._since_ns = 0

    def forget(self, now_ns: int) -> None:
        """Somebody arrived or ended: what was before cannot come back."""
        self._seen, self.evicted, self._since_ns = {}, [], now_ns

    @abstractmethod
    def look(self, played: Played, now_ns: int) -> Loop | None:
        """After each cycle that started or evicted somebody."""

    def _loop(self, now_ns: int, then_ns: int, evicted: Iterable[str], cycles: tuple[int, int] = (0, 0)) -> Loop:
        return Loop(now_ns, self._since_ns, now_ns - then_ns, tuple(sorted(set(evicted))), cycles)


class RunningReturns(Returns):
    """The same workloads run for the eleventh time: the measure of the recorded days."""

    def look(self, played: Played, now_ns: int) -> Loop | None:
        """Count what runs now."""
        key = frozenset(played.running)
        times, last_ns = self._seen.get(key, (0, 0))
        self._seen[key] = times + 1, now_ns
        return None if times < MOST_RETURNS else self._loop(now_ns, last_ns, self.evicted)


class StateReturns(Returns):
    """The whole state came back, with evictions between: from here it goes the same way for ever."""

    def look(self, played: Played, now_ns: int) -> Loop | None:
        """Compare with every state since the last arrival or end."""
        if not self.evicted:
            return None
        now = now_ns, played.cycles, len(self.evicted)
        then_ns, then_cycle, then_evicted = self._seen.setdefault(played.state(), now)
        evicted = self.evicted[then_evicted:]
        return self._loop(now_ns, then_ns, evicted, (then_cycle, played.cycles)) if evicted else None


class Evictions:
    """Counts the evictions of each workload: where states cannot be compared, too many of one are a circle."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def forget(self) -> None:
        """Somebody arrived or ended."""
        self._counts.clear()

    def count(self, workload: Workload, in_vain: bool) -> bool:
        """It is evicted; whether that is one time too often.  ``in_vain``: it starts anew each time."""
        key = workload.name, workload.queue
        self._counts[key] += 1
        return self._counts[key] > (MOST_IN_VAIN if in_vain else MOST_EVICTIONS)

    def circle(self) -> str:
        """Those that were evicted about as often as the one that was most often, and how often."""
        counts = self._counts.most_common()
        found = [(key, count) for key, count in counts if 2 * count >= counts[0][1]]
        named = [f"{name} of queue {queue} {count} times" for (name, queue), count in found[:_MOST_NAMED]]
        return ", ".join(named) + (f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else "")
