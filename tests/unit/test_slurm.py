"""Slurm's decisions: held against recorded runs of a real one, and asked one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from analysis.papers.slurm_runs import clocks_of, hold, recorded_runs, simulated
from analysis.reproduce.claims import all_claims
from emulator.policies.schedulers.play import Costs, End, Execution, job_row
from emulator.policies.slurm.backfill import Plan, backfill_pass
from emulator.policies.slurm.controller import Controller, TimeSlices
from emulator.policies.slurm.main_scheduler import Decision, Outcome, decide, main_pass
from emulator.policies.slurm.placement import place
from emulator.policies.slurm.preemption import victims
from emulator.policies.slurm.scheduler import jobs_player
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting
from emulator.sites.slurm import ALL_OF_IT, SECOND_NS, Cluster, Job, Mode, Node, Partition, Settings, Weights
from tests.commands import run_natjam
from tests.peers import slurm as peers

RUNS = list(recorded_runs())
BEYOND = {"requeue-grace 2": "the record plans a job on another node while the victim on its node is in its grace"}
"""Runs that are beyond the bounds, and why."""
NODES = {f"n{number}": Node(8) for number in range(4)}
ALL = 0b1111
"""The set of them."""


def cluster(mode: Mode = Mode.REQUEUE, **settings: Any) -> Cluster:
    """Four nodes of eight CPUs and two partitions over all of them."""
    low, high = Partition("low", tuple(NODES), 1, mode), Partition("high", tuple(NODES), 10)
    given: dict[str, Any] = {
        "preempts": True,
        "cred_expire_ns": 5 * SECOND_NS,
        "sched_min_interval_ns": 0,
        "sched_interval_ns": SECOND_NS,
        "batch_sched_delay_ns": 0,
        "bf_interval_ns": SECOND_NS,
    } | settings
    return Cluster(NODES, (low, high), Settings(**given))


def job(name: str, nodes: int, cpus: int, length_s: float = 100, submit_s: float = 0, **more: Any) -> Job:
    partition = "high" if name.startswith("high") else "low"
    given: dict[str, Any] = {"limit_ns": 200 * SECOND_NS} | more
    return Job(name, partition, nodes, cpus, round(length_s * SECOND_NS), round(submit_s * SECOND_NS), **given)


def snapshot(of: Cluster, running: dict[str, tuple[Job, str]], waiting: list[Job]) -> Snapshot:
    """A cluster in which jobs have run since 0, on the named nodes, and others wait."""
    found = Snapshot(of)
    for number, (each, nodes) in enumerate(running.values(), 1):
        wait = Waiting(each, of.partition(each.partition), number)
        found.submit(wait)
        found.start(Running(wait, tuple(nodes.split()), 0, wait.limit_ns))
    for number, each in enumerate(waiting, len(running) + 1):
        found.submit(Waiting(each, of.partition(each.partition), number))
    return found


# ---- records ----


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['config']}-{run['seed']}")
def test_recorded_runs(run: dict[str, Any], request: pytest.FixtureRequest) -> None:
    held = hold(run)
    if reason := BEYOND.get(held.name):
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    assert held.beyond == []
    assert held.preempted[0] == held.preempted[1]


def test_reproduce_holds_every_run_as_a_claim_and_says_what_fails(tmp_path: Path) -> None:
    run_natjam("reproduce", "slurm", "--strict", "--out", tmp_path, status=1)
    (figure,) = json.loads((tmp_path / "claims.json").read_text())["figures"]
    failed = {claim["id"]: claim["why"] for claim in figure["claims"] if not claim["ok"]}
    assert set(failed) == {f"slurm.{name.replace(' ', '.')}" for name in BEYOND}
    assert re.search(r"completions: 0\.\d+ is below 0\.9; starts: 0\.\d+ is below 0\.9", *failed.values())
    assert len(figure["claims"]) == 12
    assert (tmp_path / "slurm-recorded.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['config']}-{run['seed']}")
def test_a_claim_has_the_figures_of_the_record(run: dict[str, Any]) -> None:
    held = hold(run)
    claim = all_claims().get(f"slurm.{held.config}.{held.seed}")
    assert (claim is not None) == held.counts
    if claim is not None:
        recorded = {name: theirs for name, (theirs, _) in held.means.items()} | {"lost": held.lost_s[0]}
        assert claim.published == pytest.approx({name: s for name, s in recorded.items() if s}, abs=0.0005)


def test_who_was_preempted_for_whom_is_compared() -> None:
    run = next(run for run in RUNS if run["config"] == "cancel")
    assert hold(run).by_whom[0] == hold(run).by_whom[1] != []
    lines = [line.replace("for JobId=15", "for JobId=16") for line in run["controller_says"]]
    theirs, ours = hold({**run, "controller_says": lines}).by_whom
    assert theirs != ours


def test_a_run_that_is_beyond_is_named_with_what_decided_it(capsys: pytest.CaptureFixture[str]) -> None:
    records = Path(str(resources.files("analysis"))) / "claims/slurm/runs-2.json"
    assert peers.main([str(records)]) == peers.main(["--turns-unread", str(records)]) == 1
    lines = capsys.readouterr().out.splitlines()
    beyond = next(number for number, line in enumerate(lines) if line.startswith("requeue-grace 2: "))
    assert lines[beyond + 1] == "   differs first: at 43.62 s low3 starts on n0 here"
    assert lines[beyond + 2].startswith("   missing: a rule when plans count on the end of a victim's grace")


def test_a_start_that_is_missing_or_late_is_beyond() -> None:
    run = next(run for run in RUNS if run["config"] == "requeue")
    within = hold(run).starts_within
    for starts in ([], [[run["jobs"][0]["starts"][0][0] + 1.5, "n0"]]):
        jobs = [{**run["jobs"][0], "starts": starts}, *run["jobs"][1:]]
        assert hold({**run, "jobs": jobs}).starts_within == [False, *within[1:]]
    assert within[0]


def test_a_job_that_fits_nowhere_is_refused_and_the_play_ends() -> None:
    run = next(run for run in RUNS if run["config"] == "requeue")
    smaller = {**run, "slurm_conf": run["slurm_conf"].replace("CPUs=8", "CPUs=4")}
    executions = simulated(smaller)
    refused = {each["name"] for each in run["jobs"] if each["cpus"] == 8}
    assert {name for name, each in executions.items() if not each} == refused
    assert {each["name"] for each, within in zip(run["jobs"], hold(smaller).within, strict=True) if within}.isdisjoint(
        refused
    )


# ---- one decision ----


def test_nodes_are_of_the_smallest_set_that_suffices_the_fullest_for_one_and_the_first_for_more() -> None:
    state = snapshot(cluster(), {}, [])

    def where(nodes: int, cpus: int, stopped_on: str = "", **free: int) -> tuple[str, ...] | None:
        waiting = Waiting(job("a", nodes, cpus), state.partitions["low"], 1, stopped_on=frozenset(stopped_on.split()))
        free = {"n0": 8, "n1": 6, "n2": 4, "n3": 8, **free}
        amounts = {name: (cpus, ALL_OF_IT) for name, cpus in free.items()}
        return place(state, waiting, state.mask(name for name in NODES if free[name] >= cpus), amounts.__getitem__)

    assert where(1, 4) == ("n2",)
    assert where(1, 5, n3=0) == ("n1",)
    assert where(1, 8, n1=8) == ("n3",)
    assert where(2, 4) == ("n0", "n1")
    assert where(3, 8) is None
    assert where(2, 8, n2=8, n1=0) == ("n2", "n3")
    assert where(2, 8, n2=0, n1=0) == ("n0", "n3")
    assert where(2, 4, "n3") == ("n0", "n3")
    assert where(2, 8, "n1") is None


def test_sets_of_nodes_are_compared_by_their_free_cpus() -> None:
    """As in ``gres-requeue 1`` at 49.6 s: two half free nodes have no more CPUs than a free one after them."""
    busy = {"a": (job("a", 2, 4), "n0 n1"), "b": (job("b", 1, 8), "n2")}
    state = snapshot(cluster(Mode.OFF), busy, [job("one", 1, 4), job("high-two", 1, 8)])
    assert [each.nodes for each in _carried_out(state, SECOND_NS)] == [("n3",), ("n0",)]
    state = snapshot(cluster(Mode.OFF), busy, [job("one", 1, 4)])
    assert [each.nodes for each in _carried_out(state, SECOND_NS)] == [("n0",)]


def test_nodes_of_a_higher_weight_are_taken_only_if_the_others_do_not_suffice() -> None:
    """slurm.conf's page, ``Weight``: those of the next lowest weight are added to those under consideration."""
    nodes = {f"n{number}": Node(8, weight=weight) for number, weight in enumerate((5, 5, 1, 3))}
    state = snapshot(replace(cluster(Mode.OFF), nodes=nodes), {}, [])

    def where(nodes: int, free: int = ALL) -> tuple[str, ...] | None:
        waiting = Waiting(job("a", nodes, 4), state.partitions["low"], 1)
        return place(state, waiting, free, state.amounts_of.__getitem__)

    assert [where(count) for count in (1, 2, 3)] == [("n2",), ("n2", "n3"), ("n0", "n1", "n2")]
    assert (where(1, 0b1011), where(1, 0b0011)) == (("n3",), ("n0",))


def test_the_smallest_are_tried_first_and_victims_are_on_the_nodes_where_the_job_fits_at_last() -> None:
    """Taken away at first are a, c and d, as b has two nodes; then d, which made it fit, and c, and then c and d."""
    running = {
        "a": (job("a", 1, 2), "n1"),
        "b": (job("b", 2, 2), "n0 n1"),
        "c": (job("c", 1, 8), "n2"),
        "d": (job("d", 1, 8), "n3"),
        "f": (job("f", 1, 2), "n0"),
        "e": (job("high-e", 2, 4), "n0 n1"),
    }
    assert _victims(cluster(), running, job("high", 2, 4)) == ["c", "d"]
    exempt = cluster(exempt_ns=15 * SECOND_NS)
    assert _victims(exempt, running, job("high", 2, 4), now_s=14) is None
    assert _victims(exempt, running, job("high", 2, 4), now_s=15) == ["c", "d"]


def test_who_made_the_job_fit_is_tried_first_the_next_time() -> None:
    """Taken away at first are a and b, then b alone, which is enough."""
    running = {
        "a": (job("a", 1, 2), "n0"),
        "b": (job("b", 1, 4), "n0"),
        "e": (job("high-e", 4, 2), "n0 n1 n2 n3"),
        "g": (job("high-g", 3, 6), "n1 n2 n3"),
    }
    assert _victims(cluster(), running, job("high", 1, 4)) == ["b"]
    assert _victims(cluster(strict_order=True), running, job("high", 1, 4)) == ["a", "b"]


def _victims(
    of: Cluster, running: dict[str, tuple[Job, str]], wanting: Job, now_s: int = 1, nodes: int = ALL
) -> list[str] | None:
    state = snapshot(of, running, [wanting])
    state.advance(now_s * SECOND_NS)
    found = victims(state, state.waiting[wanting.name], nodes)
    return None if found is None else [each.waiting.job.name for each in found]


def test_the_youngest_goes_first_if_the_site_says_so() -> None:
    jobs = [job("a", 4, 8), job("high", 1, 8, 10, 30)]
    jobs[:1] = [job(f"low{number}", 1, 8, 100, number) for number in range(4)]
    for youngest, victim in ((False, "low0"), (True, "low3")):
        executions = jobs_player(cluster(youngest_first=youngest), jobs).finish()
        assert [name for name, each in executions.items() if each[0].by == "high"] == [victim]


def test_a_blocked_job_blocks_its_partition_and_its_nodes_for_lower_tiers() -> None:
    running = {"high-a": (job("high-a", 3, 8), "n0 n1 n2")}
    waiting = [job("low0", 1, 1), job("high-b", 2, 8), job("high-c", 1, 1)]
    state = snapshot(cluster(), running, waiting)
    decisions = list(main_pass(state, SECOND_NS))
    assert [(each.job, each.outcome) for each in decisions] == [("high-b", Outcome.WAITS), ("low0", Outcome.WAITS)]
    assert decisions[0].why == "Resources: 1 of 4 nodes have 8 free CPUs, it needs 2, and no victims would make room"
    assert "4 nodes are kept for jobs before it" in decisions[1].why


def test_backfill_starts_what_delays_nobody() -> None:
    running = {"a": (job("a", 1, 8), "n0"), "b": (job("b", 1, 4), "n1"), "c": (job("c", 2, 8), "n2 n3")}
    whole = job("whole", 1, 8)  # planned on n0, when a's limit ends at 200 s
    long, short = job("long", 1, 4), job("short", 1, 4, limit_ns=50 * SECOND_NS)
    state = snapshot(cluster(Mode.OFF), running, [whole, long])
    first, second = _carried_out(state, SECOND_NS)
    assert (first.job, first.nodes, first.at_ns) == ("whole", ("n0",), 200 * SECOND_NS)
    assert (second.job, second.outcome, second.nodes) == ("long", Outcome.STARTS, ("n1",))
    state = snapshot(
        cluster(Mode.OFF), {**running, "b": (job("b", 1, 8), "n1"), "a": (job("a", 1, 4), "n0")}, [whole, long, short]
    )
    decisions = _carried_out(state, SECOND_NS)
    assert [(each.job, each.outcome) for each in decisions] == [
        ("whole", Outcome.WAITS),
        ("long", Outcome.WAITS),
        ("short", Outcome.STARTS),
    ]


def test_what_is_planned_for_later_is_kept_until_the_next_full_minute() -> None:
    """``whole`` is planned from 200 s for 200 s, so n0 is kept until 420 s, and not only until 360 s."""
    running = {"a": (job("a", 1, 8), "n0"), "b": (job("b", 3, 8, limit_ns=800 * SECOND_NS), "n1 n2 n3")}
    state = snapshot(cluster(Mode.OFF), running, [job("whole", 1, 8)])
    plan = Plan(state, SECOND_NS)
    assert plan.add(state.waiting["whole"]) == (("n0",), 200 * SECOND_NS)
    after = Waiting(job("next", 1, 8), state.partitions["low"], 9)
    state.submit(after)
    assert plan.add(after) == (("n0",), 420 * SECOND_NS)
    kept_from_now_on = Plan(state, SECOND_NS)
    kept_from_now_on.keep(state.mask(("n0",)), SECOND_NS, 201 * SECOND_NS)  # until 180 s, when a is still there
    assert kept_from_now_on.add(after) == (("n0",), 200 * SECOND_NS)


def test_no_plan_counts_on_the_memory_of_who_would_only_stop() -> None:
    """As in ``memory-suspend 2``, where a job of four nodes waited for memory and others started on its nodes."""
    for mode, expected in ((Mode.SUSPEND, ("n1", 900)), (Mode.OFF, ("n0", 200))):
        of = replace(cluster(mode, gang=True), nodes={name: Node(8, 4000) for name in NODES})
        running = {
            "low": (job("low", 1, 2, memory_mb=3000), "n0"),
            "high-a": (job("high-a", 3, 2, memory_mb=2500, limit_ns=900 * SECOND_NS), "n1 n2 n3"),
        }
        state = snapshot(of, running, [job("high", 1, 2, memory_mb=3500)])
        nodes, at_ns = Plan(state, SECOND_NS).add(state.waiting["high"]) or ((), 0)
        assert (*nodes, at_ns / SECOND_NS) == expected


def test_who_has_outlived_its_grace_is_the_first_to_end_in_a_plan() -> None:
    """The span that begins with it ends at 65 s, so n1 is taken at 60 s; else all that ends until 120 s would count,
    and n0 be taken."""
    limits_s = {"over": (1, "n2", 300), "a": (1, "n0", 100), "b": (1, "n1", 60), "c": (1, "n3", 400)}
    running = {
        name: (job(name, nodes, 8, limit_ns=limit_s * SECOND_NS), where)
        for name, (nodes, where, limit_s) in limits_s.items()
    }
    for ends_s, expected in ((5, (("n1",), 60)), (300, (("n0",), 100))):
        state = snapshot(cluster(Mode.OFF), running, [job("next", 1, 8)])
        state.move_end(state.running["over"], ends_s * SECOND_NS)
        plan = Plan(state, 50 * SECOND_NS)
        plan.keep(state.mask(("n2",)), 50 * SECOND_NS, 6000 * SECOND_NS)
        nodes, at_ns = plan.add(state.waiting["next"]) or ((), 0)
        assert (nodes, at_ns / SECOND_NS) == expected


def test_jobs_whose_ends_are_near_are_taken_away_together_and_farther_apart_each_time() -> None:
    """Spans are of 60 s from the first end, and of 120 s from the next one; with ``bf_window_linear`` of 10 s of 40 and
    50 s."""
    doubled, linear = cluster(Mode.OFF), cluster(Mode.OFF, bf_window_linear_ns=10 * SECOND_NS)
    for of, ends_s, expected in (
        (doubled, (10, 69, 400, 500), 69),
        (doubled, (10, 71, 190, 400), 190),
        (doubled, (10, 71, 192, 400), 71),
        (linear, (10, 49, 98, 400), 49),
        (linear, (10, 51, 100, 400), 100),
        (linear, (10, 51, 102, 400), 51),
    ):
        running = {
            f"r{number}": (job(f"r{number}", 1, 8, limit_ns=end_s * SECOND_NS), f"n{number}")
            for number, end_s in enumerate(ends_s)
        }
        state = snapshot(of, running, [job("next", 2, 8)])
        assert Plan(state, SECOND_NS).add(state.waiting["next"]) == (("n0", "n1"), expected * SECOND_NS)


def test_a_node_whose_jobs_are_all_leaving_is_given_to_nobody() -> None:
    """As in ``memory-requeue 1`` (nothing is started there) and ``multifactor-requeue 3`` (who chooses victims does not
    count on it)."""
    running = {"a": (job("a", 1, 4), "n0"), "b": (job("b", 1, 4), "n1"), "c": (job("c", 2, 8), "n2 n3")}
    small, high = job("small", 1, 4), job("high", 1, 8)
    state = snapshot(cluster(), running, [small, high])
    for name in "ab":
        state.send_off(state.running[name], SECOND_NS)
    assert decide(state, state.waiting["small"], state.mask(NODES), SECOND_NS).outcome is Outcome.WAITS
    assert decide(state, state.waiting["high"], state.mask(NODES), SECOND_NS).victims == ("c",)
    state.end(state.running["a"])
    assert decide(state, state.waiting["small"], state.mask(NODES), SECOND_NS).nodes == ("n0",)


def _carried_out(state: Snapshot, now_ns: int) -> list[Decision]:
    decisions = []
    for decision in backfill_pass(state, now_ns):
        decisions.append(decision)
        if decision.outcome is Outcome.STARTS:
            waiting = state.waiting[decision.job]
            state.start(Running(waiting, decision.nodes, now_ns, now_ns + waiting.limit_ns))
    return decisions


def test_gangs_take_turns() -> None:
    running = {"a": (job("a", 1, 6), "n0"), "b": (job("b", 1, 6), "n0"), "high": (job("high", 1, 2), "n0")}
    state = snapshot(cluster(), {}, [])
    for number, (each, nodes) in enumerate(running.values()):
        wait = Waiting(each, state.cluster.partition(each.partition), number)
        state.submit(wait)
        state.start(Running(wait, tuple(nodes.split()), 0, wait.limit_ns))
    turns = TimeSlices()
    found = [turns.active(state.running, state.amounts_of)]
    for _ in range(4):
        turns.change(state.running, found[-1])
        found.append(turns.active(state.running, state.amounts_of))
    assert [*map(sorted, found)] == [[name, "high"] for name in "aabab"]  # who runs at first is only marked then


def test_a_preemptor_blocks_others_until_its_victims_have_gone_and_then_they_are_looked_at_at_once() -> None:
    """As in ``requeue-defaults 1`` at 40.5 s, where the next run by the clock would be 3 s later."""
    delays = {"batch_sched_delay_ns": 3 * SECOND_NS, "sched_interval_ns": 60 * SECOND_NS, "backfills": False}
    jobs = [job("low0", 1, 8), job("low1", 3, 8), job("high0", 1, 4, 20, 9.9), job("high1", 4, 4, 20, 9.95)]
    executions = jobs_player(cluster(**delays), jobs, Costs(gone_ns=SECOND_NS // 10)).finish()
    at_s = {name: [one.start_ns / SECOND_NS for one in each] for name, each in executions.items()}
    assert (at_s["high0"], at_s["high1"]) == ([10.105], [10.205])  # the main scheduler's ticks come 5 ms late
    assert [executions[name][0].by for name in ("low0", "low1")] == ["high0", "high1"]
    assert [executions[name][0].end_ns for name in ("low0", "low1")] == [10_005_000_000, 10_105_000_000]


def test_what_the_main_loop_does_every_so_often_it_does_when_so_many_whole_seconds_have_gone() -> None:
    """It begins at 0.97 s of the wall's clock, in second 0; its turn at 30.02 s is the first of second 30."""
    ms = 1_000_000
    controller = Controller(cluster(), 570 * ms, 400 * ms, main_late_ns=2 * ms)
    assert controller.limit_ns(SECOND_NS) == 970 * ms + 29 * 1002 * ms
    assert controller.limit_ns(31 * SECOND_NS) == 970 * ms + 59 * 1002 * ms
    later = Controller(cluster(), 780 * ms, 400 * ms, main_late_ns=2 * ms)  # it begins in second 1
    assert later.limit_ns(SECOND_NS) == 1180 * ms + 30 * 1002 * ms


def test_runs_of_backfill_and_turns_of_the_main_loop_may_come_later_each_time() -> None:
    """The main loop's turn of 3 s comes at 3.035 s, and backfill's run at 3.3 s, which sees ``b``."""
    late = {"backfill_late_s": 0.1, "main_late_s": 0.01}
    executions = jobs_player(cluster(Mode.OFF), [job("a", 1, 1, 9, 2.9), job("b", 1, 1, 9, 3.2)], **late).finish()
    assert [executions[name][0].start_ns for name in "ab"] == [3_035_000_000, 3_300_000_000]


def test_a_requeued_job_goes_behind_those_of_its_priority_that_were_submitted_before() -> None:
    """Under ``priority/multifactor`` (its page: by priority, then submit time, then JobId); else by JobId."""
    jobs = [job("low0", 4, 8, 20), job("low1", 4, 8, 20, 1), job("high", 4, 8, 5, 2)]
    for weights, first in ((None, "low0"), (Weights(), "low1")):
        executions = jobs_player(cluster(weights=weights, cred_expire_ns=0), jobs).finish()
        starts_ns = {name: each[-1].start_ns for name, each in executions.items()}
        assert min(("low0", "low1"), key=starts_ns.__getitem__) == first


def test_ends_are_counted_from_whole_seconds() -> None:
    controller = Controller(cluster(), wall_ns=SECOND_NS // 4)
    controller.submit(job("low", 1, 8))
    running = controller.start(Decision("low", Outcome.STARTS, ("n0",)), 5 * SECOND_NS)
    assert running.end_ns == (4.75 + 200) * SECOND_NS


def test_the_clock_of_the_main_loop_is_read_from_the_lines_of_its_passes() -> None:
    """Of turns 10, 40 and 60; a start soon after a preemption is none, nor is a preemption by backfill."""
    run: dict[str, Any] = {
        **next(run for run in RUNS if run["config"] == "requeue"),
        "t0": 0.0,
        "controller_started": -10.0,
        "controller_says": [f"[1970-01-01T00:00:{at}] preempted JobId=1 for JobId=2" for at in ("20.030", "50.185")],
    }
    sched = [0.035, 20.11, 30.125]
    run["jobs"] = [{"allocated": [[at_s, "n0", "sched"] for at_s in sched]}]

    def main_loop(of: dict[str, Any], reads_turns: bool = True) -> list[float]:
        return [clocks_of(of, reads_turns)[name] for name in ("main_after_s", "main_late_s")]

    assert main_loop(run) == pytest.approx([0.005, 0.003])
    assert main_loop(run, reads_turns=False) == main_loop({**run, "jobs": []}) == [0.005, 0.002]
    assert main_loop(RUNS[0]) == [0.005, 0.001]
    run["slurm_conf"] += "AccountingStorageType=accounting_storage/slurmdbd"
    assert main_loop({**run, "jobs": []}) == [0.39, 0.003]


# ---- whole plays ----


def test_jobs_of_one_pass_are_launched_the_later_the_more_they_are() -> None:
    executions = jobs_player(
        cluster(), [job(f"low{n}", 1, 8) for n in range(3)], Costs(launch_ns=5, launch_more_ns=2)
    ).finish()
    assert {each[0].start_ns for each in executions.values()} == {9}


def test_who_has_begun_to_work_is_on_its_nodes_a_little_longer_whatever_ends_it() -> None:
    """Of ``low0`` the time limit is over when ``high0`` could be seen; ``low1`` is ended while it is launched."""
    jobs = [job("low0", 4, 8, 99, limit_ns=30 * SECOND_NS), job("high0", 4, 8, 6, 25)]
    executions = jobs_player(cluster(Mode.OFF), jobs, Costs(gone_ns=SECOND_NS // 10)).finish()
    assert (executions["low0"][0].end_ns, executions["high0"][0].start_ns) == (30_005_000_000, 31 * SECOND_NS)
    costs = Costs(launch_ns=2 * SECOND_NS, gone_ns=SECOND_NS // 10)
    executions = jobs_player(cluster(), [job("low1", 4, 8), job("high1", 4, 8, 6, 0.9)], costs).finish()
    assert (executions["low1"][0].end_ns, executions["high1"][0].start_ns) == (SECOND_NS, 3 * SECOND_NS)


def test_who_is_stopped_on_its_way_out_takes_no_more_turns() -> None:
    """The time limit of ``low`` is over as ``high`` is put over it; else turns would change for ever."""
    jobs = [job("low", 4, 8, 99, limit_ns=30 * SECOND_NS), job("high", 4, 8, 6, 30.002)]
    executions = jobs_player(cluster(Mode.SUSPEND, gang=True), jobs, Costs(gone_ns=SECOND_NS // 10)).finish()
    assert (executions["low"][0].end_ns, executions["high"][0].start_ns) == (30_005_000_000, 30_005_000_000)
    assert executions["high"][0].end_ns == 36_005_000_000


def with_grace(grace_s: int) -> Cluster:
    low, high = cluster().partitions
    return replace(cluster(), partitions=(replace(low, grace_ns=grace_s * SECOND_NS), high))


def test_a_victim_with_grace_that_nobody_waits_for_any_more_goes_when_limits_are_looked_at() -> None:
    """As in ``requeue-grace 2`` at 51.6 s."""
    first, short = job("low0", 1, 8, 500, limit_ns=None), job("low1", 1, 8, 13)
    others = job("low2", 2, 8, 100), job("high", 1, 8, 5, 12)
    executions = jobs_player(with_grace(10), [first, short, *others]).finish()
    assert (executions["high"][0].start_ns, executions["low0"][0].end_ns) == (13 * SECOND_NS, 30_005_000_000)


def test_a_victim_with_grace_works_until_it_is_over() -> None:
    of = with_grace(10)
    executions = jobs_player(of, [job("low", 4, 8, 60), job("high", 4, 8, 5, 20)]).finish()
    first, second = executions["low"]
    assert (first.end, first.end_ns, first.by) == (End.REQUEUED, 30_005_000_000, "high")
    assert executions["high"][0].start_ns == 30_005_000_000
    assert (second.start_ns, second.end) == (36 * SECOND_NS, End.DONE)  # cred_expire, in whole seconds
    mine = job_row(0, executions["low"])
    assert (mine["kills"], mine["lost_work_s"], mine["completion_s"]) == (1, 4 * 30.005, pytest.approx(96))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_nodes_are_never_over_full_and_work_is_done_once(mode: Mode, seed: int) -> None:
    random = Random(f"slurm-{seed}")
    of = cluster(mode, gang=mode is Mode.SUSPEND, time_slice_ns=5 * SECOND_NS)
    jobs = [
        job(
            f"{random.choice(('low', 'low', 'high'))}{number}",
            random.choice((1, 1, 2, 4)),
            random.choice((1, 2, 4, 8)),
            random.uniform(1, 60),
            random.uniform(0, 120),
            limit_ns=random.choice((30, 90)) * SECOND_NS,
        )
        for number in range(40)
    ]
    executions = jobs_player(of, jobs).finish()
    for each in jobs:
        *before, last = executions[each.name]
        assert all(one.end is End.REQUEUED for one in before)
        worked_ns = (last.end_ns or 0) - last.start_ns - sum(until - since for since, until in last.stopped)
        assert last.end in (End.DONE, End.TIMEOUT) or (mode is Mode.CANCEL and last.end is End.CANCELLED)
        if last.end is End.DONE:
            assert worked_ns == each.length_ns
        if last.end is End.TIMEOUT:  # limits are looked at every 30 s
            assert (each.limit_ns or 0) <= worked_ns < min(each.length_ns, (each.limit_ns or 0) + 30 * SECOND_NS)
    _never_over_full(jobs, executions)


def _never_over_full(jobs: list[Job], executions: Mapping[str, Sequence[Execution]]) -> None:
    cpus = {each.name: each.cpus for each in jobs}
    changes: list[tuple[int, int, str]] = []
    for name, each in executions.items():
        for one in each:
            edges = [one.start_ns, *(edge for stop in one.stopped for edge in stop), one.end_ns or 0]
            for since, until in list(pairwise(edges))[::2]:
                if since < until:
                    changes += [(since, cpus[name], node) for node in one.nodes]
                    changes += [(until, -cpus[name], node) for node in one.nodes]
    used = dict.fromkeys(NODES, 0)
    for _, change, node in sorted(changes):
        used[node] += change
        assert 0 <= used[node] <= NODES[node].cpus


def test_a_requeued_job_that_saves_goes_on_from_its_last_save() -> None:
    settings = Settings(preempts=True, cred_expire_ns=0)
    low, high = Partition("low", ("n0",), 1, Mode.REQUEUE), Partition("high", ("n0",), 10)
    cluster = Cluster({"n0": Node(1)}, (low, high), settings)
    jobs = [Job("a", "low", 1, 1, 600 * SECOND_NS), Job("b", "high", 1, 1, 60 * SECOND_NS, submit_ns=250 * SECOND_NS)]

    def last_end_and_lost_ns(costs: Costs) -> tuple[int, int]:
        executions = jobs_player(cluster, jobs, costs).finish()["a"]
        assert [one.end for one in executions] == [End.REQUEUED, End.DONE]
        return executions[-1].end_ns or 0, sum(one.lost_ns for one in executions)

    (plain_ns, lost_ns), (saved_ns, little_ns) = map(
        last_end_and_lost_ns, (Costs(), Costs(save_period_ns=100 * SECOND_NS))
    )
    assert 0 < little_ns < 100 * SECOND_NS < lost_ns
    assert plain_ns - saved_ns == lost_ns - little_ns == 200 * SECOND_NS


@pytest.mark.parametrize("late_ns", [0, 3_000_000, 400_000_000])
def test_schedulers_that_are_called_late_do_what_is_due_at_their_tick(late_ns: int) -> None:
    controller = Controller(cluster(bf_interval_ns=2 * SECOND_NS, sched_interval_ns=60 * SECOND_NS))
    for each in (job("low1", 3, 8), job("low2", 2, 8), job("low3", 1, 8, limit_ns=100 * SECOND_NS)):
        controller.submit(each)
    now_ns = controller.arm(SECOND_NS // 2) + late_ns
    assert _started(controller, now_ns) == ["low1"]  # at 1 s, the main scheduler's
    assert controller.arm(now_ns) == 2 * SECOND_NS
    now_ns = controller.tick_ns + late_ns
    assert _started(controller, now_ns) == ["low3"]  # behind low2, which is planned


def _started(controller: Controller, now_ns: int) -> list[str]:
    started = []
    for decision in controller.tick(now_ns):
        if decision.outcome is Outcome.STARTS:
            controller.start(decision, now_ns)
            started.append(decision.job)
    return started
