"""The shares and the preemption of YARN's FairScheduler, by the documentation of Hadoop 3.4; no run of it was recorded.

The queues of a parent that hold or ask for anything share what it has in proportion to their weights, each at least its
``minResources`` and at most its ``maxResources``: their fair shares.  One that has been below its minimum for
``minSharePreemptionTimeout``, or below ``fairSharePreemptionThreshold`` of its fair share for
``fairSharePreemptionTimeout``, preempts until it has that much.  It takes from queues that hold more than their fair
shares and have ``allowPreemptionFrom``; nothing while no resource of the cluster is used up to
``preemption.cluster-utilization-threshold``.

The documentation does not say which containers go.  Here they are those that the CapacityScheduler's policy would take
(``victims``), with what a queue may preempt as its demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from emulator.policies.resources import common, lacking, plus, total
from emulator.policies.yarn.amounts import Amounts, exact
from emulator.policies.yarn.capacity import Queue
from emulator.policies.yarn.ideal import Need
from emulator.policies.yarn.options import YarnPreemption
from emulator.sites.yarn import fair_shares
from emulator.vocabulary import Resources


class Starvation:
    """Since when each queue has been below its shares."""

    def __init__(self, queues: Iterable[Queue], preemption: YarnPreemption) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._preemption = preemption
        self._since_ns: dict[tuple[str, str], int] = {}
        """By queue, and the setting that says how long it may be so."""
        self._last_ns = 0

    def limit(self, root: Need, amounts: Amounts, now_ns: int) -> dict[str, str]:
        """Set what each queue is guaranteed to its fair share, and what it asks for to what it may preempt.

        Returns why queues that are below their shares do not preempt yet.
        """
        if now_ns - self._last_ns > self._preemption.interval_ns:
            self._since_ns.clear()  # there was no round because nobody asked for anything
        self._last_ns, root.guaranteed = now_ns, amounts.whole
        waits: dict[str, str] = {}
        used = max(
            (Fraction(held, each) for held, each in zip(root.used, amounts.whole, strict=True) if each), default=0
        )
        self._limit(root, used >= exact(self._preemption.cluster_utilization_threshold), amounts, now_ns, waits)
        return waits

    def _limit(self, need: Need, is_used: bool, amounts: Amounts, now_ns: int, waits: dict[str, str]) -> None:
        if not need.children:
            owed = self._owed(need, amounts, now_ns, waits)
            need.pending = need.pending_less_reserved = owed if is_used else amounts.none
            if not is_used and amounts.some(owed):
                waits[need.name] = "the cluster is used too little (preemption.cluster-utilization-threshold)"
            return
        active = [child for child in need.children if any(child.used) or any(child.pending)]
        queues = [self._queues[child.name] for child in active]
        shares = [
            fair_shares(
                Fraction(whole),
                [(exact(each.of_fair.weight), Fraction(each.least[n]), Fraction(each.maximum[n])) for each in queues],
            )
            for n, whole in enumerate(need.guaranteed)
        ]
        of_active = dict(zip((child.name for child in active), zip(*shares, strict=True), strict=False))
        for child in need.children:
            child.guaranteed = tuple(map(int, of_active.get(child.name, amounts.none)))
            self._limit(child, is_used, amounts, now_ns, waits)
        need.pending = need.pending_less_reserved = total((child.pending for child in need.children), amounts.none)

    def _owed(self, need: Need, amounts: Amounts, now_ns: int, waits: dict[str, str]) -> Resources:
        """What a queue may preempt."""
        queue, owed = self._queues[need.name], amounts.none
        fair, wants = queue.of_fair, plus(need.used, need.pending)
        threshold = amounts.part(need.guaranteed, exact(fair.fair_share_preemption_threshold or 0))
        for setting, seconds, share in (
            ("minSharePreemptionTimeout", fair.min_share_preemption_timeout_s, queue.least),
            ("fairSharePreemptionTimeout", fair.fair_share_preemption_timeout_s, threshold),
        ):
            lacks = lacking(common(share, wants), need.used)
            if not any(lacks[: None if queue.is_dominant else 1]):
                self._since_ns.pop((need.name, setting), None)
                continue
            since_ns = self._since_ns.setdefault((need.name, setting), now_ns)
            if seconds is None:
                waits[need.name] = f"it never preempts ({setting} is not set)"
            elif now_ns - since_ns < exact(seconds) * 10**9:
                waits[need.name] = f"it preempts when it has been below its share for {seconds:g} s ({setting})"
            else:
                owed = tuple(map(max, owed, lacks))
        if amounts.some(owed):
            waits.pop(need.name, None)
        return owed
