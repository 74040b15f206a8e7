"""Why a round of YARN's preemption policy takes what it takes, and why not more, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from operator import gt
from typing import NamedTuple, TypeAlias

from emulator.policies.resources import common, lacking, plus
from emulator.policies.yarn.amounts import Amounts, exact, single
from emulator.policies.yarn.capacity import Request
from emulator.policies.yarn.ideal import Need
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.victims import Selected
from emulator.vocabulary import Resources, counted

Words: TypeAlias = Callable[[Resources], str]
"""An amount in words."""


class Verdict(Enum):
    """What becomes of a queue that holds more than its guarantee or its ideal assignment."""

    SPARED = "disable_preemption"
    IGNORED = "max_ignored_over_capacity"
    TOO_LITTLE = "too little for a container"
    TAKEN = "taken"


class Shortage(NamedTuple):
    """A queue that lacks what it is guaranteed, or entitled to, and why it still does."""

    queue: str
    verdicts: tuple[tuple[str, Verdict | str], ...]
    """Of the queues that hold more than they are entitled to, or guaranteed; or why it does not preempt yet."""
    why: str


class Reasons(NamedTuple):
    """Why a round takes what it takes, for those who want it in words."""

    root: Need
    """The queues, and what was computed for each."""
    selected: Selected
    preemption: YarnPreemption
    amounts: Amounts
    wanted: Sequence[Request]
    """The containers that it selects."""
    killed: Collection[Request]
    """Those of them that are killed in it; the others are marked."""
    is_fair: bool = False
    """Whether the FairScheduler decides."""
    waits: Mapping[str, str] = {}
    """Under the FairScheduler, why queues that are below their shares do not preempt yet."""

    def of(self, request: Request, words: Words) -> str:
        """Why a container is taken, in a line."""
        name, queue = request.label, request.application.queue.name
        if name in self.selected.for_reserved:
            return f"it makes free what is reserved on {request.node}"
        if name in self.selected.inside_queues:
            return f"applications of queue {queue} of higher priority lack what it holds"
        own = next(leaf for leaf in self.root.leaves if leaf.name == queue)
        short = ", ".join(leaf.name for leaf in self.root.leaves if any(map(gt, leaf.ideal, leaf.used)))
        holds = f"holds {words(own.used)} and is entitled to {words(own.ideal)}"
        return f"queue {queue} {holds}; this round takes {words(own.to_obtain)} for {short}"

    def in_words(self, words: Words) -> str:
        """The round: of each queue that gives or lacks, what it has, is entitled to and gives, a line each."""
        lines = list[str]()
        for leaf in self.root.leaves:
            verdict = self._verdict(leaf)
            if verdict is not None or any(self._short(leaf)):
                taken = "" if verdict is None else f"; {self._taken(leaf, verdict, words)}"
                lines.append(
                    f"queue {leaf.name} {self._guaranteed(leaf, words)}, holds {words(leaf.used)}, asks for"
                    f" {words(leaf.pending)} more and is entitled to {words(leaf.ideal)}{taken}"
                )
        return "\n".join(lines)

    def shortages(self, words: Words) -> Iterator[Shortage]:
        """The queues that lack something while others hold more than they are entitled to, or guaranteed."""
        verdicts = [(leaf, verdict) for leaf in self.root.leaves if (verdict := self._verdict(leaf))]
        gives = "; ".join(
            f"queue {leaf.name} {self._guaranteed(leaf, words)}, holds {words(leaf.used)} and is entitled to"
            f" {words(leaf.ideal)}: {self._taken(leaf, verdict, words)}"
            for leaf, verdict in verdicts
        )
        for leaf in self.root.leaves if verdicts else ():
            if any(self._short(leaf)):
                has = f"{self._guaranteed(leaf, words)}, holds {words(leaf.used)} and asks for"
                yield Shortage(
                    leaf.name,
                    tuple((giver.name, verdict) for giver, verdict in verdicts),
                    f"queue {leaf.name} {has} {words(leaf.pending)} more; {gives}",
                )

        beyond = any(self.amounts.more(leaf.used, leaf.guaranteed) for leaf in self.root.leaves)
        for leaf in self.root.leaves if beyond else ():
            if (wait := self.waits.get(leaf.name)) is not None:
                has = f"{self._guaranteed(leaf, words)} and holds {words(leaf.used)}"
                yield Shortage(leaf.name, ((leaf.name, wait),), f"queue {leaf.name} {has}: {wait}")

    def _guaranteed(self, leaf: Need, words: Words) -> str:
        return f"{'has a fair share of' if self.is_fair else 'is guaranteed'} {words(leaf.guaranteed)}"

    def _short(self, leaf: Need) -> Resources:
        """What a queue asks for and lacks of what it is entitled to, or guaranteed."""
        entitled = tuple(map(max, leaf.guaranteed, leaf.ideal))
        return lacking(common(plus(leaf.used, leaf.pending), entitled), leaf.used)

    def _verdict(self, leaf: Need) -> Verdict | None:
        """What becomes of what a queue holds beyond its ideal assignment, or has spared; None: it has neither."""
        more, amounts = self.amounts.more, self.amounts
        if leaf.is_disabled and more(leaf.used, leaf.guaranteed):
            return Verdict.SPARED
        if not more(leaf.used, leaf.ideal):
            return None
        if not more(leaf.used, amounts.part(leaf.guaranteed, 1 + exact(self.preemption.max_ignored_over_capacity))):
            return Verdict.IGNORED
        return Verdict.TAKEN if self._count(self.wanted)[leaf.name] else Verdict.TOO_LITTLE

    def _taken(self, leaf: Need, verdict: Verdict, words: Words) -> str:
        preemption = self.preemption
        if verdict is Verdict.SPARED:
            return f"nothing is taken of it ({'allowPreemptionFrom' if self.is_fair else 'disable_preemption'})"
        if verdict is Verdict.IGNORED:
            ignored = f"max_ignored_over_capacity {preemption.max_ignored_over_capacity:g}"
            return f"nothing is taken of it, since it is not beyond its guarantee by more than that share ({ignored})"
        allowed = self.amounts.part(self.amounts.whole, single(preemption.total_preemption_per_round))
        beyond, asked = lacking(leaf.used, leaf.ideal), leaf.to_preempt
        limits = []
        if asked != beyond:
            limits.append(f"at most {words(allowed)} in all, total_preemption_per_round")
        if leaf.to_obtain != asked:
            limits.append(f"{preemption.natural_termination_factor:g} of {words(asked)}, natural_termination_factor")
        because = f" ({'; '.join(limits)})" if limits else ""
        said = f"this round takes {words(leaf.to_obtain)} of the {words(beyond)} beyond that{because}"
        if verdict is Verdict.TOO_LITTLE:
            return f"{said}, and no container that may go fits into this"
        killed, wanted = (self._count(each)[leaf.name] for each in (self.killed, self.wanted))
        setting = "waitTimeBeforeKill" if self.is_fair else "max_wait_before_kill"
        after = f"killed if still wanted after {preemption.max_wait_before_kill_s:g} s ({setting})"
        fates = [f"{killed} killed"] if killed else []
        fates += [f"{counted(wanted - killed, 'container')} marked, {after}"] if wanted > killed else []
        return f"{said}: {', '.join(fates)}"

    @staticmethod
    def _count(requests: Collection[Request]) -> Counter[str]:
        """How many of them each queue has."""
        return Counter(request.application.queue.name for request in requests)
