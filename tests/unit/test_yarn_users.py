"""Worked examples of the limits of users, of the documentation of Hadoop 3.4's CapacityScheduler.

Runs of several users are in ``test_yarn_records``.

https://hadoop.apache.org/docs/r3.4.1/hadoop-yarn/hadoop-yarn-site/CapacityScheduler.html, "Queue Properties".
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from emulator.policies.yarn.amounts import Amounts
from emulator.policies.yarn.capacity import CapacityScheduler, Request
from emulator.policies.yarn.options import YarnOptions, YarnQueue, YarnQueueSettings
from emulator.policies.yarn.tree import tree_of
from emulator.policies.yarn.users import (
    QueueLimits,
    QueueUse,
    masters_limit,
    may_start,
    to_give_up,
    user_limit,
    user_masters_limit,
)

CLUSTER = Amounts((1000,))
SMALLEST = (1,)
ONE, TENTH = Fraction(1), Fraction(1, 10)


def limit_of(
    limits: QueueLimits, held: int, active: int, users: Fraction, of: Fraction = ONE, weight: Fraction = ONE
) -> int:
    """What one user may hold of a queue that is guaranteed this part of the cluster, may have all of it, and holds so
    much, so much of it by its active users."""
    guaranteed = (int(1000 * of),)
    use = QueueUse(guaranteed, (1000,), Fraction(held, 1000), (active,), users)
    return user_limit(limits, use, weight, SMALLEST, CLUSTER)[0]


@pytest.mark.parametrize(("users", "percent"), [(1, 100), (2, 50), (3, 33), (4, 25), (5, 25), (40, 25)])
def test_documented_minimum_user_limit_percent_of_25(users: int, percent: int) -> None:
    """Two users may use at most 50% of the queue each, three 33%, four or more 25%."""
    found = limit_of(QueueLimits(minimum_user_limit_percent=25), 1000, 1000, Fraction(users))
    assert 0 <= found - 1000 * percent / 100 <= 5, "up to the growth by one container, and a third is no percent"


def test_documented_minimum_user_limit_percent_of_100_imposes_no_limit() -> None:
    assert limit_of(QueueLimits(), 900, 900, Fraction(7)) == 1000


@pytest.mark.parametrize(("factor", "most"), [(1.0, 400), (2.0, 800), (0.5, 200), (None, 901)])
def test_documented_user_limit_factor(factor: float | None, most: int) -> None:
    """With 1 a single user never has more than the queue's capacity, however idle the cluster is; more with more, less
    with less; -1 disables it, so that the limit grows with what the queue holds."""
    assert limit_of(QueueLimits(user_limit_factor=factor), 900, 900, ONE, of=Fraction(2, 5)) == most


def test_documented_weight_of_a_user() -> None:
    """A user of weight 1.5 gets 50% more than two others."""
    limits = QueueLimits(minimum_user_limit_percent=1, user_weights={"a": 1.5})
    a, b = (limit_of(limits, 1000, 1000, Fraction(7, 2), weight=limits.weight_of(user)) for user in "ab")
    assert (a, b) == (429, 286)


def test_a_user_who_asks_for_nothing_leaves_his_part_to_the_active_ones() -> None:
    """Of 1,000 one holds 200 and asks for no more: two active ones share what they hold, 800."""
    assert limit_of(QueueLimits(minimum_user_limit_percent=10), 1000, 800, Fraction(2)) == 401


def test_a_queue_whose_guarantee_is_less_than_a_container_makes_progress() -> None:
    assert limit_of(QueueLimits(user_limit_factor=1.0), 0, 0, ONE, of=Fraction(1, 5000)) == 1


@pytest.mark.parametrize(
    ("held", "reserved", "found"), [(9, 0, 0), (10, 5, 0), (12, 0, None), (12, 1, None), (12, 2, 2)]
)
def test_who_holds_more_than_his_limit_gets_nothing_unless_he_gives_up_what_is_reserved(
    held: int, reserved: int, found: int | None
) -> None:
    given_up = to_give_up((10,), (held,), (reserved,), CLUSTER)
    assert given_up == (None if found is None else (found,))


class TestApplicationMasters:
    def test_documented_maximum_am_resource_percent(self) -> None:
        """0.1 is 10% of the queue; of a queue's users each has his part of what it is guaranteed."""
        limits = QueueLimits(minimum_user_limit_percent=25, user_limit_factor=1.0)
        assert masters_limit(TENTH, (1000,), SMALLEST) == (100,)
        parts = [user_masters_limit(limits, TENTH, (1000,), users, ONE, SMALLEST) for users in (1, 2, 4, 8)]
        assert parts == [(100,), (50,), (25,), (25,)]

    def test_one_may_always_start(self) -> None:
        assert may_start((7,), (0,), (5,))
        assert may_start((2,), (3,), (5,))
        assert not may_start((3,), (3,), (5,))

    def test_without_a_factor_a_user_has_the_queues_part(self) -> None:
        limits = QueueLimits(minimum_user_limit_percent=25)
        assert user_masters_limit(limits, TENTH, (1000,), 4, ONE, SMALLEST) == (100,)


@pytest.mark.parametrize(
    ("of_queues", "running"),
    [
        ({}, {"a": 3, "b": 2}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 2, "b": 0}, {"a": 2, "b": 0}),
        ({"root": 2, "b": 1}, {"a": 2, "b": 0}),
    ],
)
def test_so_many_applications_of_a_queue_run_at_once(of_queues: dict[str, int], running: dict[str, int]) -> None:
    """``max-parallel-apps``: others wait until one of them is gone; those of a parent are those of its queues."""
    settings = {name: YarnQueueSettings(max_parallel_apps=most) for name, most in of_queues.items()}
    queues = tree_of(YarnOptions(queues={"a": YarnQueue(0.5), "b": YarnQueue(0.5)}, settings=settings))
    scheduler = CapacityScheduler(queues["root"], SMALLEST, 100)
    scheduler.add_node("n", (1000,))
    masters = [(name, number) for name, count in (("a", 3), ("b", 2)) for number in range(count)]
    for name, number in masters:
        application = scheduler.submit(f"{name}{number}", queues[name], 0)
        scheduler.ask(Request(application, "am", (1,), 0, 0))
    scheduler.heartbeat("n")
    assert {name: sum(bool(each.held) for each in queues[name].applications) for name in ("a", "b")} == running
    for _ in masters:  # each leaves room for another, but where none may run
        for request in [request for name in ("a", "b") for request in queues[name].held]:
            scheduler.free(request)
            scheduler.end(request.application)
        scheduler.heartbeat("n")
        scheduler.heartbeat("n")
    waiting = {name: len(queues[name].applications) for name in ("a", "b")}
    assert waiting == {"a": 0, "b": 2 if of_queues.get("b") == 0 else 0}
