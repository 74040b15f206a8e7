"""natjam loops: finds what goes round, shrinks it, tells it, and finds nothing where there is nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from analysis.figures.loop import loop_figure, spans
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.files.whole_files import claimed_directory
from emulator.loops.changes import applied, argument, for_an_argument, single_fields, text_of
from emulator.loops.draw import Plan
from emulator.loops.fixes import fixes
from emulator.loops.play import RunningSetDetector
from emulator.loops.search import loop_of, search, shrunk, story, told
from emulator.policies.kueue.scheduler import workloads_player
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kueue import (
    DEFAULT_STRATEGIES,
    Cluster,
    ClusterQueue,
    FlavorQuotas,
    Kueue,
    Policy,
    Preemption,
    QueueingStrategy,
    Quota,
    ResourceGroup,
)
from tests.commands import run_natjam
from tests.peers import kueue as peer
from tests.peers.holding import records
from workloads.kueue.manifests import cluster_manifests
from workloads.kueue.state import read_kueue
from workloads.saved import write_saved

RECORDED = Path(__file__).resolve().parents[1] / "data/kueue/loops.jsonl.gz"
QUICK = ("hunt-1-839", "hunt-1-818", "hunt-1-1963", "hunt-1-284")


def times(most: int) -> Callable[[], bool]:
    numbers = iter(range(most))
    return lambda: next(numbers, None) is not None


def clusters(*names: str) -> list[Cluster]:
    """The configurations of recorded loops, without their workloads."""
    return [peer.cluster_of(each) for each in records(RECORDED) if each["name"] in names]


@pytest.fixture(scope="module")
def found() -> list[Plan]:
    """What is found in four of them, shrunk."""
    plans = []
    for cluster in clusters(*QUICK):
        searched = search(cluster, (), "1", times(300))
        assert searched.found is not None
        plans.append(shrunk(searched.found))
    return plans


def test_recorded_loops_are_found_from_their_configuration_and_shrunk(found: list[Plan]) -> None:
    for plan in found:
        assert len(plan.arrivals) <= 6
        for number in range(len(plan.arrivals)):
            less = (*plan.arrivals[:number], *plan.arrivals[number + 1 :])
            assert loop_of(replace(plan, arrivals=less)) is None


def test_what_is_found_goes_round_by_the_measure_of_the_records_too(found: list[Plan]) -> None:
    """The same set of workloads runs for the eleventh time, after evictions and without an arrival or an end."""
    for plan in found:
        player, detector = workloads_player(plan.cluster, plan.arrivals, plan.release_ns), RunningSetDetector()
        loop = next(loop for cycle in player.play() if (loop := detector.look(player, cycle)))
        by_state = loop_of(plan)
        assert by_state is not None
        assert set(loop.workloads) >= set(by_state.workloads)


def test_the_story_names_each_eviction_of_one_round_with_its_reason(found: list[Plan]) -> None:
    for plan in found:
        loop, log = told(plan)
        assert loop is not None
        lines = list(story(loop, log))
        for name in loop.workloads:
            assert any(line.strip().startswith(f"{name} (queue ") and " goes: " in line for line in lines), lines
        assert lines[-1].startswith("then the same state is back")


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    (cluster,) = clusters("hunt-1-839")
    first, second = (search(cluster, (), "1", times(300)) for _ in range(2))
    assert first == second
    assert search(cluster, (), "2", times(300)) != first


def test_changes_with_an_argument_leave_nothing_that_goes_round(found: list[Plan]) -> None:
    for plan in found:
        tried = fixes(plan, (), "1", times(20))
        assert len(tried.argued) >= 3
        for fix in tried.argued:
            assert fix.argument == argument(fix.cluster) is not None
            assert loop_of(replace(plan, cluster=fix.cluster)) is None
            assert search(fix.cluster, (), "1", times(30)).found is None
            assert fix.text


def test_a_field_that_is_named_ends_all_known_circles_and_was_searched_enough(
    found: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.loops.fixes.LEAST_PLAYS", 100)
    monkeypatch.setattr("emulator.loops.fixes._PLAYS_TO_KNOW", 50)
    plan = found[2]
    tried = fixes(plan, (), "1", times(900))
    assert tried.searched
    for fix in tried.searched:
        assert fix.plays >= 100
        assert loop_of(replace(plan, cluster=fix.cluster)) is None
    for fix in tried.refuted:
        assert fix.other is not None
        assert loop_of(replace(fix.other, cluster=fix.cluster)) is not None
    texts = [change.text for change in single_fields(plan.cluster, [plan.cluster.queues[0].name])]
    assert len(set(texts)) == len(texts)


def test_one_of_two_queues_that_leaves_the_cohort_ends_it_by_argument() -> None:
    """Others, in a cohort of three, are named together."""
    two = Cluster(tuple(queue(name, 4, Preemption(Policy.NEVER, Policy.ANY), "all") for name in "ab"))
    assert argument(two) is None
    for change in single_fields(two, "a"):
        assert (argument(change.made(two)) is not None) == ("cohortName" in change.text)
    three = replace(two, queues=(*two.queues, queue("c", 4, Preemption(Policy.LOWER_PRIORITY, Policy.ANY), "all", 2)))
    ways = [(text_of(changes), argument(applied(three, changes))) for changes in for_an_argument(three)]
    assert ways == [
        (
            "ClusterQueue b, spec.cohortName: null, and"
            " ClusterQueue c, spec.cohortName: null, and no borrowingLimit or lendingLimit",
            "no two queues share quota",
        ),
        (
            "ClusterQueues a, b and c, spec.resourceGroups, flavor default, resource cpu: borrowingLimit: 0",
            "no queue can borrow",
        ),
        (
            "ClusterQueues a, b and c, spec.preemption.reclaimWithinCohort: Never, and"
            " ClusterQueue c, spec.preemption.withinClusterQueue: Never",
            "no queue preempts",
        ),
    ]
    *others, preempting = three.queues
    own_only = replace(preempting, preemption=Preemption(Policy.LOWER_PRIORITY))
    quiet = (replace(each, preemption=Preemption()) for each in others)
    assert argument(replace(three, queues=(*quiet, own_only))) is None, "a loop was found in such a configuration"


def test_a_loop_is_told_with_its_own_tree_only() -> None:
    (cluster,) = clusters("hunt-1-818")
    alone = queue("alone", 4, Preemption(), None)
    other = queue("all", 4, Preemption(), "others")  # a queue may have the name of a cohort
    searched = search(replace(cluster, queues=(alone, *cluster.queues, other)), (), "1", times(300))
    assert searched.found is not None
    assert searched.found.cluster == cluster


# ---- where there is none ----


def queue(
    name: str, nominal: int, preemption: Preemption, cohort: str | None, limit: int | None = None
) -> ClusterQueue:
    quotas = {"cpu": Quota(nominal * 1000, limit)}
    groups = (ResourceGroup(("cpu",), (FlavorQuotas("default", quotas),)),)
    return ClusterQueue(name, cohort, groups, preemption=preemption)


def without_loops() -> Iterator[Cluster]:
    """Twenty configurations that cannot go round, by argument."""
    fairness = (None, DEFAULT_STRATEGIES)
    # One queue: whoever preempts is ahead of its victims in the queue, by priority or age, and so starts before them.
    policies = (Policy.LOWER_PRIORITY, Policy.LOWER_OR_NEWER_EQUAL_PRIORITY)
    for fair, policy, strategy in itertools.product(fairness, policies, QueueingStrategy):
        yield Cluster((replace(queue("q", 4, Preemption(policy), None), strategy=strategy),), (), fair)
    # Nobody may preempt.
    for fair, nominal in itertools.product(fairness, (1, 3, 6)):
        yield Cluster(tuple(queue(f"q{each}", nominal + each, Preemption(), "all") for each in range(3)), (), fair)
    # Nobody may borrow, so there is nothing to reclaim.
    for fair, nominal in itertools.product(fairness, (1, 3, 6)):
        reclaims = Preemption(Policy.NEVER, Policy.ANY)
        yield Cluster(tuple(queue(f"q{each}", nominal + each, reclaims, "all", 0) for each in range(3)), (), fair)


def test_nothing_is_found_where_nothing_can_go_round() -> None:
    tried = list(without_loops())
    assert len(tried) == 20
    for cluster in tried:
        searched = search(cluster, (), "1", times(60))
        assert searched.found is None
        assert searched.plays == 60
        assert argument(cluster) is not None
    assert search(tried[0], (), "1", times(60)).evictions > 0, "the one queue does preempt"


# ---- the command ----


def test_the_command_tells_writes_and_ends_with_1(tmp_path: Path) -> None:
    (cluster,) = clusters("hunt-1-818")
    queues, out = tmp_path / "mine.yaml", tmp_path / "found"
    write_saved(queues, Kueue(cluster), [])
    done = run_natjam("loops", queues, "--seconds", "2", "--out", out, status=1)
    assert "round and round:" in done.output
    assert "no circle is possible, by argument:" in done.output
    names = sorted(path.name for path in out.iterdir())
    assert names[0] == "00-queues.yaml"
    assert names[-4:] == ["apply.sh", "experiment.yaml", "loop.txt", "site.yaml"], "all at one instant: no picture"
    with pytest.raises(RunError, match="evictions go round in a circle"):
        simulated_history(resolve(load_experiment(out / "experiment.yaml")))
    assert len(names) >= 5
    again, losses = read_kueue([out / "00-queues.yaml"])
    read = replace(again.cluster, flavors=(), local_queues=(), namespaces=cluster.namespaces, pods_ready=None)
    assert read == replace(cluster, fair_sharing=None), "Kueue's own configuration is a comment there"
    assert losses == []


def test_the_command_says_how_much_it_searched_and_claims_no_more(tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(cluster_manifests(next(without_loops())))
    done = run_natjam("loops", queues, "--seconds", "1")
    assert "no loop found in " in done.output
    assert "does not prove that there is none" in done.output


def test_two_searches_do_not_share_a_directory(tmp_path: Path) -> None:
    (cluster,) = clusters("hunt-1-818")
    queues, out = tmp_path / "mine.yaml", tmp_path / "found"
    write_saved(queues, Kueue(cluster), [])
    with claimed_directory(out):
        done = run_natjam("loops", queues, "--seconds", "1", "--out", out, status=2)
        assert done.stderr == f"natjam: {out}: another natjam command is at work there; name another directory\n"
        assert [*out.iterdir()] == []


# ---- all of them ----


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_recorded_loops_are_found_within_two_minutes() -> None:
    assert peer.main(["search", str(RECORDED)]) == 0


def test_a_picture_has_each_admission_until_its_preemption() -> None:
    found = search(read_kueue([Path("docs/kueue-queues.yaml")])[0].cluster, [0, 1], "1", lambda: True).found
    assert found is not None
    loop, log = told(found)
    assert loop is not None
    decided = [(at_ns, decision) for at_ns, _, decision in log]
    drawn = list(spans(decided, loop.at_ns + 1))
    evictions = [(name, at_ns) for at_ns, decision in decided for name in decision.evicted]
    ended = [(each.name, end_ns) for each, _, end_ns in drawn if end_ns <= loop.at_ns]
    assert sorted(ended) == sorted(evictions) != []
    assert all(start_ns < end_ns for _, start_ns, end_ns in drawn)
    assert len(drawn) >= 2
    workloads = [arrival.workload for arrival in found.arrivals]
    [panel] = loop_figure(workloads, loop, log).axes
    assert len(panel.get_yticks()) == len(workloads)
    assert len(panel.patches) > len(drawn)  # the rounds after the first
