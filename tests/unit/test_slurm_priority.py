"""Priorities and fair shares: the worked examples of Slurm's documentation, each named as such, and recorded ones."""

from __future__ import annotations

from collections import Counter

import pytest

from emulator.policies.slurm.priority import FairShares, Priorities, age_factor, billed, decay, size_factor
from emulator.policies.slurm.scheduler import jobs_player
from emulator.sites.slurm import (
    DAY_NS,
    MINUTE_NS,
    SECOND_NS,
    Association,
    Cluster,
    Job,
    Node,
    Partition,
    Qos,
    Settings,
    Weights,
)

CLASSIC = [
    Association("root"),
    Association("A", parent="root", shares=40),
    Association("B", parent="A", shares=30),
    Association("C", parent="A", shares=10),
    Association("D", parent="root", shares=60),
    Association("E", parent="D", shares=25),
    Association("F", parent="D", shares=35),
    *(Association(account, user) for account, user in ("B1", "C2", "C3", "E4", "F5")),
]
"""The accounts of the example in classic_fair_share.html; user 1 is in account B, and so on."""
USED = {("B", "1"): 20.0, ("C", "2"): 25.0, ("E", "4"): 25.0, ("F", "5"): 30.0}


def test_the_example_of_classic_fair_share_html() -> None:
    found = FairShares(CLASSIC).classic(USED)
    effective = {"1": 0.3875 / 0.3, "2": 0.275 / 0.05, "3": 0.15 / 0.05, "4": 0.375 / 0.25, "5": 0.4458 / 0.35}
    expected = {user: pytest.approx(2**-ratio, abs=1e-4) for user, ratio in effective.items()}
    assert {user: factor for (_, user), factor in found.items()} == expected
    assert FairShares(CLASSIC).classic(USED, dampening=2)["C", "3"] == pytest.approx(2**-1.5)
    assert set(FairShares(CLASSIC).classic({}).values()) == {1.0}


def test_fair_tree_html_all_children_of_the_account_with_the_higher_level_go_first() -> None:
    """A has 40 of 100 shares for 45 of 100 usage, D 60 for 55; below A, C has 10 of 40 for 25 of 45, B 30 for 20."""
    found = FairShares(CLASSIC).fair_tree(USED)
    assert {user: factor for (_, user), factor in found.items()} == {"5": 1.0, "4": 0.8, "1": 0.6, "3": 0.4, "2": 0.2}


def test_fair_tree_html_ties() -> None:
    """Users that tie have one rank; accounts that tie are ranked as one; a user that ties with an account has the rank
    of the first below it."""
    tied = [Association("root"), Association("a", parent="root"), Association("b", parent="root")]
    users = [Association("a", "1"), Association("a", "2"), Association("b", "3"), Association("root", "4")]
    shares = FairShares([*tied, *users])
    unused = shares.fair_tree({})
    assert set(unused.values()) == {1.0}
    one_used = shares.fair_tree({("a", "1"): 10.0, ("b", "3"): 10.0, ("root", "4"): 10.0})
    assert one_used == {("a", "2"): 1.0, ("root", "4"): 1.0, ("a", "1"): 0.25, ("b", "3"): 0.5}


def test_the_example_of_tres_billing_weights_in_slurm_conf() -> None:
    """One CPU and 6 GB under CPU=1.0,Mem=0.25G,GRES/gpu=2.0 are 2.5, with MAX_TRES 1.5."""
    tres, weights = Counter(cpu=1, mem=6 * 1024), {"cpu": 1.0, "mem": 0.25 / 1024, "gpu": 2.0}
    assert billed(tres, weights) == pytest.approx(2.5)
    assert billed(tres, weights, only_most=True) == pytest.approx(1.5)
    assert billed(Counter(cpu=3), {}) == 3


def test_the_configuration_example_of_priority_multifactor_html() -> None:
    """The age reaches 1 after two weeks, larger jobs have more, QOS does not count, usage does not decay."""
    weights = Weights(age=1000, fair_share=10000, job_size=1000, partition=1000, qos=0, max_age_ns=14 * DAY_NS)
    assert age_factor(7 * DAY_NS, weights.max_age_ns) == 0.5
    assert age_factor(28 * DAY_NS, weights.max_age_ns) == 1.0
    assert decay(DAY_NS, 0) == 1.0
    assert decay(7 * DAY_NS, 7 * DAY_NS) == 0.5
    partitions = (Partition("p", ("n0", "n1"), job_factor=5), Partition("q", ("n0", "n1"), job_factor=10))
    cluster = Cluster({"n0": Node(8), "n1": Node(8)}, partitions, qos=(Qos("vip", priority=9),))
    priorities = Priorities(cluster, weights, 0)
    job = Job("j", "p", 1, 8, SECOND_NS, qos="vip", nice=100)
    assert priorities.of(job, 0) == 500 + 500 - 100
    priorities.calculate(7 * DAY_NS, ())
    assert priorities.of(job, 0) == 500 + 500 + 500 - 100


def test_the_sizes_ages_and_partitions_of_recorded_priorities() -> None:
    """As seen in ``multifactor`` 1 of the recorded sites, of four nodes of eight CPUs."""
    weights = Weights(age=1000, job_size=1000, partition=1000, max_age_ns=2 * MINUTE_NS, calc_period_ns=MINUTE_NS)
    nodes = tuple(f"n{number}" for number in range(4))
    partitions = Partition("low", nodes), Partition("mid", nodes, job_factor=3), Partition("high", nodes, 10)
    cluster = Cluster(dict.fromkeys(nodes, Node(8)), partitions)
    priorities = Priorities(cluster, weights, 0)
    low, mid = Job("a", "low", 2, 8, SECOND_NS), Job("b", "mid", 1, 4, SECOND_NS, nice=-300)
    assert (priorities.of(low, 0), priorities.of(mid, 0)) == (833, 1187 + 300)
    assert not priorities.is_due(MINUTE_NS - 1)
    priorities.calculate(MINUTE_NS + 20 * SECOND_NS, ())
    assert priorities.of(low, 30 * SECOND_NS) == 1083  # an age of 30 s: of the period's end, not of now
    assert size_factor(2, 16, 4, 32, favors_small=True) == 0.5
    assert priorities.of(Job("c", "low", 1, 1, SECOND_NS, priority=7), 0) == 7
    assert priorities.of(Job("d", "low", 1, 1, SECOND_NS, nice=5000), 0) == 1


def test_the_priority_of_an_association_counts_as_a_share_of_the_highest() -> None:
    """priority_multifactor.html, Association Factor; ``NO_NORMAL_ASSOC`` leaves it as it is."""
    users = Association("a", "u", priority=10), Association("a", "v", priority=40)
    cluster = Cluster({"n": Node(8)}, (Partition("p", ("n",)),), associations=users)
    mine = Job("j", "p", 1, 1, SECOND_NS, user="u", account="a")
    assert Priorities(cluster, Weights(assoc=1000), 0).of(mine, 0) == 250
    assert Priorities(cluster, Weights(assoc=1000, flags=("no_normal_assoc",)), 0).of(mine, 0) == 10_000
    assert Priorities(cluster, Weights(assoc=1000), 0).of(Job("k", "p", 1, 1, SECOND_NS), 0) == 1


def test_who_has_used_more_goes_later_and_usage_decays() -> None:
    """Two users with equal shares: the second one's job overtakes the first one's, which came before."""
    weights = Weights(fair_share=1000, calc_period_ns=MINUTE_NS, half_life_ns=10 * MINUTE_NS)
    users = (Association("root"), Association("a", parent="root"), Association("a", "u"), Association("a", "v"))
    settings = Settings(weights=weights)
    cluster = Cluster({"n": Node(8)}, (Partition("p", ("n",)),), settings, associations=users)

    def job(name: str, user: str, submit_s: int) -> Job:
        return Job(name, "p", 1, 8, 600 * SECOND_NS, submit_s * SECOND_NS, 660 * SECOND_NS, user=user, account="a")

    jobs = [job("first", "u", 0), job("again", "u", 10), job("other", "v", 20)]
    executions = jobs_player(cluster, jobs).finish()
    assert sorted(executions, key=lambda name: executions[name][0].start_ns) == ["first", "other", "again"]
    basic = Cluster({"n": Node(8)}, (Partition("p", ("n",)),), associations=users)
    executions = jobs_player(basic, jobs).finish()
    assert sorted(executions, key=lambda name: executions[name][0].start_ns) == ["first", "again", "other"]
