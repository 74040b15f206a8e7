"""Which changes of a configuration end loops: those after which an argument says so, and single fields that are tried.

A single field that ends the loop that was found may leave rarer ones.  So it must also end many others that the
configuration has.  Then further ones are searched with it: among drawn workloads, and near every loop that is known,
those with other changes included.  What is left is not proven to have none; ``Fix.plays`` says how much was searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from emulator.loops.changes import Change, applied, argument, for_an_argument, single_fields, text_of
from emulator.loops.draw import Plan
from emulator.loops.search import Search, loop_of, shrunk
from emulator.sites.kueue import Cluster, Workload

LEAST_PLAYS, MAX_PLAYS = 2000, 20_000
"""A fix without an argument is searched for other loops with so many plays, or is not named."""
_MAX_KNOWN, _PLAYS_TO_KNOW = 60, 1000
"""Loops of the configuration as it is that a fix must end, and plays to find them."""
_MAX_SEARCHED, _PLAYS_TO_CHOOSE = 3, 200
"""Fixes that are searched to the end, so that each gets enough plays: those that had the fewest evictions in the first
plays.  The fewer are left, the less can go round."""
_BATCH = 50


@dataclass(slots=True)
class Fix:
    """Changes that end the loops of a configuration that are known."""

    cluster: Cluster
    """With them."""
    changes: tuple[Change, ...]
    argument: str | None
    """Why nothing can go round with them, if that can be said: no search is needed then."""
    search: Search | None = None
    """For other loops with it."""
    other: Plan | None = None
    """Another loop that was found with it."""

    @property
    def plays(self) -> int:
        """Played with it so far."""
        return 0 if self.search is None else self.search.plays

    @property
    def evictions(self) -> float:
        """The evictions of a play with it."""
        return 0.0 if self.search is None else self.search.evictions / max(1, self.search.plays)

    @property
    def text(self) -> str:
        """For a line of output."""
        return text_of(self.changes)


@dataclass(slots=True)
class Fixes:
    """What was tried to end the loops of a configuration."""

    loops: int
    """The loops of the configuration, which each fix ends."""
    argued: list[Fix]
    """By argument, those with fewest fields first."""
    searched: list[Fix] = field(default_factory=list)
    """One field each, for which no argument is known, and enough plays found no other loop."""
    refuted: list[Fix] = field(default_factory=list)
    """One field each, with which another loop was found."""
    dropped: list[Fix] = field(default_factory=list)
    """One field each, not searched enough to say either."""


def fixes(
    plan: Plan,
    priorities: Sequence[int],
    seed: str,
    goes_on: Callable[[], bool],
    like: Sequence[Workload] = (),
) -> Fixes:
    """The fixes of a shrunk loop and of others of its configuration; searched while ``goes_on`` allows it.

    One after another gets the least plays; then all get the same number.  ``like``: see ``Search``.
    """
    known = _known(plan, Search(plan.cluster, priorities, f"{seed}/known", like), goes_on)
    taking_part = {arrival.workload.queue for arrival in plan.arrivals}
    singles = [_fix(plan.cluster, [change]) for change in single_fields(plan.cluster, taking_part)]
    singles = [fix for fix in singles if fix.argument or not any(_goes_round(loop, fix) for loop in known)]
    argued = {fix.text: fix for fix in singles if fix.argument}
    argued.update((fix.text, fix) for fix in (_fix(plan.cluster, each) for each in for_an_argument(plan.cluster)))
    trial = _Trial(priorities, seed, goes_on, like, known)
    trial.search([fix for fix in singles if not fix.argument])
    return Fixes(len(known), [*argued.values()], trial.searched, trial.refuted, trial.dropped)


def _fix(cluster: Cluster, changes: Sequence[Change]) -> Fix:
    changed = applied(cluster, changes)
    return Fix(changed, tuple(changes), argument(changed))


def _known(plan: Plan, searched: Search, goes_on: Callable[[], bool]) -> list[Plan]:
    """The loop, and others of the same configuration."""
    known, few = [plan], _times(_PLAYS_TO_KNOW, goes_on)
    while len(known) < _MAX_KNOWN:
        searched.go_on(few)
        if searched.found is None:
            break
        known.append(searched.found)
    return known


@dataclass(slots=True)
class _Trial:
    """Searches for loops with each of some fixes."""

    priorities: Sequence[int]
    seed: str
    goes_on: Callable[[], bool]
    like: Sequence[Workload]
    known: list[Plan]
    """Loops that were found, of the configuration as it is or with some change."""
    searched: list[Fix] = field(default_factory=list)
    refuted: list[Fix] = field(default_factory=list)
    dropped: list[Fix] = field(default_factory=list)

    def search(self, fixes: Sequence[Fix]) -> None:
        """Sort them by what is found: first among all of them, then among the few that had fewest evictions."""
        for fix in fixes:
            fix.search = Search(fix.cluster, self.priorities, f"{self.seed}/{fix.text}", self.like)
        left = sorted(self._left_after(_PLAYS_TO_CHOOSE, fixes), key=lambda fix: fix.evictions)
        chosen = left[:_MAX_SEARCHED]
        self.dropped += left[_MAX_SEARCHED:]
        for fix in chosen:
            while fix.other is None and fix.plays < LEAST_PLAYS and self.goes_on():
                self._play(fix, chosen)
        for fix in self._left_after(MAX_PLAYS, [fix for fix in chosen if fix.other is None]):
            (self.dropped if fix.plays < LEAST_PLAYS else self.searched).append(fix)
        self.refuted += [fix for fix in fixes if fix.other is not None]

    def _left_after(self, plays: int, fixes: Sequence[Fix]) -> list[Fix]:
        """Those with which so many plays find nothing."""
        left = list(fixes)
        while self.goes_on() and any(fix.plays < plays for fix in left):
            for fix in left:
                self._play(fix, left)
            left = [fix for fix in left if fix.other is None]
        return left

    def _play(self, fix: Fix, left: Sequence[Fix]) -> None:
        """Play a few more times with a fix; what goes round is held against the others too."""
        if fix.other is not None or fix.search is None:
            return
        fix.search.go_on(_times(_BATCH, self.goes_on), self.known)
        if fix.search.found is None:
            return
        loop = shrunk(fix.search.found)
        self.known.append(loop)
        for each in left:
            if each.other is None and (each is fix or _goes_round(loop, each)):
                each.other = loop


def _goes_round(plan: Plan, fix: Fix) -> bool:
    return loop_of(replace(plan, cluster=fix.cluster)) is not None


def _times(most: int, goes_on: Callable[[], bool]) -> Callable[[], bool]:
    """``goes_on``, but not more often than that."""
    numbers = iter(range(most))
    return lambda: next(numbers, None) is not None and goes_on()
