"""When evictions go round in a circle."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from emulator.vocabulary import Frozen

MOST_RETURNS = 10


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


class Returns(Protocol):
    """Looks for what comes back."""

    evicted: list[str]
    """Since the last arrival or end, in order; the player adds to it."""

    def forget(self, now_ns: int) -> None:
        """Somebody arrived or ended: what was before cannot come back."""
        ...

    def look(self, played: Played, now_ns: int) -> Loop | None:
        """After each cycle that started or evicted somebody."""
        ...


class RunningReturns:
    """The same workloads run for the eleventh time: the measure of the recorded days."""

    def __init__(self) -> None:
        self.forget(0)

    def forget(self, now_ns: int) -> None:
        """Begin anew."""
        self._since_ns = now_ns
        self._times: dict[frozenset[str], int] = {}
        self._last_ns: dict[frozenset[str], int] = {}
        self.evicted: list[str] = []

    def look(self, played: Played, now_ns: int) -> Loop | None:
        """Count what runs now."""
        key = frozenset(played.running)
        self._times[key] = self._times.get(key, 0) + 1
        last_ns = self._last_ns.get(key, 0)
        self._last_ns[key] = now_ns
        if self._times[key] <= MOST_RETURNS:
            return None
        return Loop(now_ns, self._since_ns, now_ns - last_ns, tuple(sorted(set(self.evicted))))


class StateReturns:
    """The whole state came back, with evictions between: from here it goes the same way for ever."""

    def __init__(self) -> None:
        self.forget(0)

    def forget(self, now_ns: int) -> None:
        """Begin anew."""
        self._since_ns = now_ns
        self._seen: dict[Hashable, tuple[int, int, int]] = {}
        self.evicted: list[str] = []

    def look(self, played: Played, now_ns: int) -> Loop | None:
        """Compare with every state since the last arrival or end."""
        if not self.evicted:
            return None
        state = played.state()
        now = now_ns, played.cycles, len(self.evicted)
        then_ns, then_cycle, then_evicted = self._seen.setdefault(state, now)
        evicted = self.evicted[then_evicted:]
        if not evicted:
            return None
        cycles = then_cycle, played.cycles
        return Loop(now_ns, self._since_ns, now_ns - then_ns, tuple(sorted(set(evicted))), cycles)
