"""What kube-scheduler leaves open: which of equal nodes it takes, which victims go first, and what of theirs stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec.structs import replace

from emulator.sites.kubernetes import Bound, Pod
from emulator.vocabulary import Frozen

Ties = Callable[[Sequence[tuple[str, int]]], str]
"""Chooses a node among those with the highest score.  It gets the nodes in the scheduler's order, each with its score,
the lower ones too: kube-scheduler takes the head of its heap, which depends on all."""


def first_of_best(scored: Sequence[tuple[str, int]]) -> str:
    """The choice of a caller who wants the same answer each time."""
    return max(scored, key=lambda each: each[1])[0]


class Victims(StrEnum):
    """The pods of one priority that go first; budgets and priorities come before."""

    IMPORTANCE = "importance"
    """Those that started last, as in Kubernetes."""
    LEAST_WORK_LOST = "least-work-lost"
    """Those with the least time since their start, or since they last saved by themselves, all that go together."""
    LEAST_RESTORE_TIME = "least-restore-time"
    """Those that request the least memory, all that go together."""


class Terms(Frozen):
    """How victims are chosen, and what of theirs stays."""

    victims: Victims = Victims.IMPORTANCE
    holds: tuple[str, ...] = ()
    """Resources that a victim goes on holding: none if it is deleted."""

    def freed(self, pod: Pod) -> Pod:
        """What the eviction of a pod frees, as a pod that requests this."""
        if not self.holds:
            return pod
        return replace(pod, requests={name: n for name, n in pod.requests.items() if name not in self.holds})

    def held(self, pod: Pod) -> dict[str, int]:
        """What a pod that was evicted goes on holding."""
        return {name: n for name, n in pod.requests.items() if name in self.holds}

    def cost(self, bound: Bound, now_ns: int) -> int:
        """What its eviction costs, in the unit of ``victims``."""
        if self.victims is Victims.LEAST_RESTORE_TIME:
            return bound.pod.requests.get("memory", 0)
        ran_ns = 0 if bound.start_ns is None else now_ns - bound.start_ns
        return ran_ns if bound.pod.saves_ns is None else ran_ns % bound.pod.saves_ns


IN_KUBERNETES = Terms()
"""Victims are deleted."""
