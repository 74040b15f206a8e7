"""YARN's FairScheduler by the documentation of Hadoop 3.4: shares, orders, and when who preempts whom."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import pytest

from emulator.policies.yarn.capacity import CapacityScheduler, Request
from emulator.policies.yarn.monitor import PreemptionMonitor, Round
from emulator.policies.yarn.options import (
    ROOT,
    FairQueue,
    OrderingPolicy,
    YarnOptions,
    YarnParent,
    YarnPreemption,
    YarnQueue,
    YarnQueueSettings,
)
from emulator.policies.yarn.tree import tree_of
from emulator.sites.yarn import fair_shares

ALL_AT_ONCE = YarnPreemption(1, 5, 1, 1, 0)
CLUSTER_GB = 40


@pytest.mark.parametrize(
    ("queues", "shares"),
    [
        ([(1, 0, 40), (1, 0, 40)], [20, 20]),
        ([(3, 0, 40), (1, 0, 40)], [30, 10]),
        ([(1, 0, 5), (1, 0, 40), (2, 0, 40)], [5, Fraction(35, 3), Fraction(70, 3)]),
        ([(1, 25, 40), (1, 0, 40), (1, 0, 40)], [25, 7.5, 7.5]),
        ([(1, 25, 40), (1, 0, 5), (1, 0, 40)], [25, 5, 10]),
        ([(0, 0, 40), (1, 0, 40)], [0, 40]),
        ([(1, 0, 5), (1, 0, 5)], [5, 5]),
    ],
)
def test_shares_follow_weights_within_their_limits(queues: list, shares: list) -> None:
    assert fair_shares(Fraction(CLUSTER_GB), [(Fraction(a), Fraction(b), Fraction(c)) for a, b, c in queues]) == shares


class Site:
    """Queues of a cluster of 40 GB, and jobs of one container size."""

    def __init__(self, settings: dict[str, YarnQueueSettings], parents: dict[str, YarnParent] | None = None) -> None:
        inside = {name for each in (parents or {}).values() for name in each.queues}
        names = ("prod", "adhoc", *inside - {"prod", "adhoc"})
        queues = {name: YarnQueue(1 / len(names)) for name in names}
        of_all = {ROOT: YarnQueueSettings(fair=FairQueue()), **settings}
        self.queues = tree_of(YarnOptions(queues=queues, settings=of_all, parents=parents or {}))
        self.scheduler = CapacityScheduler(self.queues[ROOT], (1,), 100)
        self.scheduler.add_node("n", (CLUSTER_GB,))

    def job(self, name: str, queue: str, containers: int, priority: int = 0) -> None:
        """A job asks for so many containers, and gets what is free."""
        application = self.scheduler.submit(name, self.queues[queue], priority)
        for number in range(1, containers + 1):
            self.scheduler.ask(Request(application, str(number), (1,), 1, number))
        self.scheduler.heartbeat("n")

    def held(self) -> dict[str, int]:
        """How many containers each job holds."""
        jobs = (each for queue in self.queues.values() for each in queue.applications)
        return {each.name: len(each.held) for each in jobs}

    def rounds(self, *, last: int, threshold: float = 0.0) -> list[Round]:
        """The rounds of so many seconds."""
        monitor = PreemptionMonitor(
            self.scheduler, YarnPreemption(1, 5, 1, 1, 0, cluster_utilization_threshold=threshold)
        )
        return [monitor.round(second * 10**9) for second in range(last + 1)]


def taken(rounds: list[Round]) -> tuple[int, int, int]:
    """How many containers are killed, at which second the first is marked, and at which it is killed."""
    marked = next((second for second, each in enumerate(rounds) if each.marked), -1)
    killed = next((second for second, each in enumerate(rounds) if each.killed), -1)
    return sum(len(each.killed) for each in rounds), marked, killed


class TestPreemption:
    HALF: ClassVar = FairQueue(fair_share_preemption_timeout_s=10)

    def full(self, prod: FairQueue, **others: YarnQueueSettings) -> Site:
        site = Site({"prod": YarnQueueSettings(fair=prod), **others})
        site.job("long", "adhoc", 60)
        site.job("urgent", "prod", 30)
        return site

    def test_a_queue_preempts_half_of_its_fair_share_when_it_has_starved(self) -> None:
        assert taken(self.full(self.HALF).rounds(last=30)) == (10, 10, 15), "half of 20, and after the wait"

    def test_the_threshold_says_how_much(self) -> None:
        all_of_it = FairQueue(fair_share_preemption_timeout_s=10, fair_share_preemption_threshold=1)
        assert taken(self.full(all_of_it).rounds(last=30)) == (20, 10, 15)

    def test_times_and_thresholds_are_inherited(self) -> None:
        above = FairQueue(fair_share_preemption_timeout_s=10, fair_share_preemption_threshold=0.25)
        site = self.full(FairQueue(), root=YarnQueueSettings(fair=above))
        assert taken(site.rounds(last=30)) == (5, 10, 15)

    def test_the_minimum_has_its_own_time(self) -> None:
        minimum = FairQueue(min_share=0.2, min_share_preemption_timeout_s=3)
        assert taken(self.full(minimum).rounds(last=30)) == (8, 3, 8)

    def test_without_a_time_never(self) -> None:
        rounds = self.full(FairQueue()).rounds(last=30)
        assert taken(rounds) == (0, -1, -1)
        (shortage,) = rounds[-1].reasons.shortages(str)
        assert shortage.queue == "prod"
        assert shortage.why.endswith("it never preempts (fairSharePreemptionTimeout is not set)")

    def test_a_queue_that_waits_says_for_how_long(self) -> None:
        (shortage,) = self.full(self.HALF).rounds(last=5)[-1].reasons.shortages(str)
        assert shortage.why.endswith(
            "it preempts when it has been below its share for 10 s (fairSharePreemptionTimeout)"
        )

    def test_nothing_is_taken_from_a_queue_that_does_not_allow_it(self) -> None:
        site = self.full(self.HALF, adhoc=YarnQueueSettings(disable_preemption=True))
        rounds = site.rounds(last=30)
        assert taken(rounds) == (0, -1, -1)
        assert "allowPreemptionFrom" in next(rounds[-1].reasons.shortages(str)).why

    def test_nothing_is_taken_while_the_cluster_is_used_too_little(self) -> None:
        site = Site({"prod": YarnQueueSettings(fair=self.HALF)})
        site.job("long", "adhoc", 32)
        application = site.scheduler.submit("large", site.queues["prod"], 0)
        site.scheduler.ask(Request(application, "1", (11,), 1, 1))
        assert not taken(site.rounds(last=30, threshold=0.9))[0], "32 of 40"
        assert taken(site.rounds(last=30, threshold=0.8))[0] == 2

    def test_a_queue_with_its_share_is_not_counted_as_starving_from_before(self) -> None:
        site = self.full(self.HALF)
        monitor = PreemptionMonitor(site.scheduler, ALL_AT_ONCE)
        for second in (0, 5, 5000, 5005):  # nobody asked for anything in between
            assert not monitor.round(second * 10**9).marked


class TestOrders:
    def test_shares_are_those_of_queues_that_want_something(self) -> None:
        site = Site({}, {"p": YarnParent(("prod", "idle"))})
        site.job("first", "prod", 60)
        assert site.held() == {"first": 40}
        monitor = PreemptionMonitor(site.scheduler, ALL_AT_ONCE)
        of_queue = {leaf.name: leaf.guaranteed[0] for leaf in monitor.round(0).reasons.root.leaves}
        assert of_queue == {"prod": 40, "idle": 0, "adhoc": 0}

    @pytest.mark.parametrize(
        ("prod", "adhoc", "counts"),
        [
            (FairQueue(), FairQueue(), {"a": 20, "b": 20}),
            (FairQueue(3), FairQueue(), {"a": 30, "b": 10}),
            (FairQueue(), FairQueue(1, 0.75), {"a": 10, "b": 30}),
        ],
    )
    def test_queues_by_weight_and_those_below_their_minimum_first(
        self, prod: FairQueue, adhoc: FairQueue, counts: dict[str, int]
    ) -> None:
        site = Site({"prod": YarnQueueSettings(fair=prod), "adhoc": YarnQueueSettings(fair=adhoc)})
        site.scheduler.remove_node("n")
        for name, queue in (("a", "prod"), ("b", "adhoc")):
            application = site.scheduler.submit(name, site.queues[queue], 0)
            for number in range(1, 61):
                site.scheduler.ask(Request(application, str(number), (1,), 1, number))
        site.scheduler.add_node("n", (CLUSTER_GB,))
        site.scheduler.heartbeat("n")
        assert site.held() == counts

    @pytest.mark.parametrize(
        ("policy", "counts"),
        [
            (None, {"old": 20, "new": 20}),
            (OrderingPolicy.FAIR, {"old": 20, "new": 20}),
            (OrderingPolicy.FIFO, {"old": 30, "new": 10}),
        ],
    )
    def test_jobs_of_a_queue(self, policy: OrderingPolicy | None, counts: dict[str, int]) -> None:
        site = Site({"prod": YarnQueueSettings(ordering_policy=policy)})
        site.scheduler.remove_node("n")
        for name, count in (("old", 30), ("new", 60)):
            application = site.scheduler.submit(name, site.queues["prod"], 0)
            for number in range(1, count + 1):
                site.scheduler.ask(Request(application, str(number), (1,), 1, number))
        site.scheduler.add_node("n", (CLUSTER_GB,))
        site.scheduler.heartbeat("n")
        assert site.held() == counts

    def test_drf_goes_by_the_dominant_share(self) -> None:
        settings = {name: YarnQueueSettings(ordering_policy=OrderingPolicy.DRF) for name in (ROOT, "prod", "adhoc")}
        settings[ROOT] = YarnQueueSettings(ordering_policy=OrderingPolicy.DRF, fair=FairQueue())
        queues = tree_of(YarnOptions(queues={"prod": YarnQueue(0.5), "adhoc": YarnQueue(0.5)}, settings=settings))
        scheduler = CapacityScheduler(queues[ROOT], (1, 1), 100)
        for name, amount in (("prod", (1, 4)), ("adhoc", (3, 1))):  # Ghodsi et al., Dominant Resource Fairness, Fig. 3
            application = scheduler.submit(name, queues[name], 0)
            for number in range(1, 10):
                scheduler.ask(Request(application, str(number), amount[::-1], 1, number))
        scheduler.add_node("n", (18, 9))
        scheduler.heartbeat("n")
        assert {name: len([*queues[name].held]) for name in ("prod", "adhoc")} == {"prod": 3, "adhoc": 2}
