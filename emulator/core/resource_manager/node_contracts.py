"""Contracts about room on single nodes: what jobs were asked to give there, and have not given yet.

Theory of operation
-------------------
Where containers have several sizes, a contract asks a job for at least so much of a node; the job's ApplicationMaster
chooses the tasks.  Whatever of the job's leaves the node pays for it, the oldest contract first, also a task that has
ended by itself.  What was taken by name does not: it is counted apart.

The ApplicationMaster is told what its job may keep of each such node
(``emulator.core.resource_manager.cluster_state.ClusterState.answer``): what it holds less what it owes.  That stays
right whatever is lost, late or repeated, and whichever of the two hears first that a task has left: what has left is
neither held nor owed.  When less is needed than was asked for, the newest contracts are lowered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.policies.resources import common, lacking, minus, plus
from emulator.vocabulary import Resources


@dataclass(slots=True)
class OpenContract:
    """What ``job`` still owes on ``node``."""

    job: str
    node: str
    amount: Resources
    since_ns: int
    grace_ns: int
    """How much later it is too old: the job may give its tasks so long to end."""


class NodeContracts:
    """Part of what the ResourceManager knows; see the module's theory of operation."""

    def __init__(self, kill_timeout_ns: int) -> None:
        self.changes = 0
        """Grows whenever a contract is lowered because less is needed."""
        self._kill_timeout_ns = kill_timeout_ns
        self._open: list[OpenContract] = []
        """Oldest first."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, contract: OpenContract) -> None:
        """The job owes so much more there."""
        self._open.append(contract)

    def jobs(self) -> list[str]:
        """Jobs that owe something."""
        return list(dict.fromkeys(each.job for each in self._open))

    def owed_by(self, job: str) -> dict[str, Resources]:
        """What the job owes, by node."""
        owed: dict[str, Resources] = {}
        for each in self._open:
            if each.job == job:
                owed[each.node] = plus(owed[each.node], each.amount) if each.node in owed else each.amount
        return owed

    def freed(self, job: str, node: str, room: Resources) -> None:
        """The job has left so much of the node."""
        for each in self._open:
            if (each.job, each.node) == (job, node):
                each.amount, room = lacking(each.amount, room), lacking(room, each.amount)
        self._keep_those_that_owe()

    def lower(self, node: str, needed: Resources) -> list[str]:
        """No more than this is still needed there; returns the jobs that owe less now."""
        spared: list[str] = []
        for each in self._open:
            if each.node == node:
                amount = common(each.amount, needed)
                needed = minus(needed, amount)
                if amount != each.amount:
                    each.amount = amount
                    spared.append(each.job)
        self.changes += len(spared)
        self._keep_those_that_owe()
        return spared

    def nodes(self) -> list[str]:
        """Nodes on which something is owed."""
        return list(dict.fromkeys(each.node for each in self._open))

    def forget_job(self, job: str) -> None:
        """The job has ended."""
        self._open = [each for each in self._open if each.job != job]

    def forget_node(self, node: str) -> None:
        """The node is lost, with all that was there."""
        self._open = [each for each in self._open if each.node != node]

    # ---- time ----

    @property
    def due_ns(self) -> int | None:
        """When the first of them will be too old; None: there is none."""
        return min(map(self._expires_ns, self._open), default=None)

    def expire(self, now_ns: int) -> Iterator[OpenContract]:
        """Those that are too old, which are forgotten."""
        late = [each for each in self._open if self._expires_ns(each) <= now_ns]
        self._open = [each for each in self._open if each not in late]
        yield from late

    def wait_anew(self, now_ns: int) -> None:
        """The ResourceManager was away: nobody could hear of them, so their time begins again."""
        for each in self._open:
            each.since_ns = now_ns

    def _expires_ns(self, contract: OpenContract) -> int:
        return contract.since_ns + self._kill_timeout_ns + contract.grace_ns

    def _keep_those_that_owe(self) -> None:
        self._open = [each for each in self._open if any(each.amount)]
