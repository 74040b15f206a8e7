"""An allocation that chooses a node for each request, through the whole machine: grants and strict contracts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from simulated import SECOND_NS, Chaos, make_job, make_settings, run_checked

from emulator.core.decisions import LEAST_WAIT_NS, PolicyError
from emulator.core.messages import JobFinished, KillContainer
from emulator.core.settings import Settings
from emulator.policies.allocation_forms import CycleAllocation
from emulator.policies.views import ClusterView, CycleDecision

RANK = {"production": 0, "research": 1}


def first_fit(view: ClusterView) -> CycleDecision:
    """The most urgent job first, on the first node with room; for production, the newest reduces of research go."""
    free = {node.name: node.free for node in view.nodes.values()}
    coming = sum(node.capacity - node.free for node in view.nodes.values())
    coming -= sum(job.containers for job in view.jobs.values())
    grants, takes = [], []
    for job in sorted(view.jobs.values(), key=lambda job: (RANK[job.facts.queue], job.order)):
        for _ in range(job.pending):
            node = next((name for name, left in free.items() if left), None)
            if node is not None:
                free[node] -= 1
                grants.append((job.name, node))
            elif coming > 0:
                coming -= 1
            elif job.facts.queue == "production":
                takes += _newest(view, leave_out=takes)
    return CycleDecision(tuple(grants), tuple(takes), view.now_ns + SECOND_NS)


def _newest(view: ClusterView, leave_out: list[str]) -> list[str]:
    tasks = (task for job in view.jobs.values() if job.facts.queue == "research" for task in view.tasks(job.name))
    running = [task for task in tasks if task.group == "reduce" and task.container not in leave_out]
    return [max(running, key=lambda task: (task.started_ns, task.container)).container] if running else []


def cycles(mechanism: str, function=first_fit, **options: object) -> Settings:
    base = make_settings(nodes=2, containers=3, mechanism=mechanism, **options)  # type: ignore
    own = CycleAllocation("mine:RECORD", function, "a test")
    return replace(base, scheduler=replace(base.scheduler, allocation=own))


JOBS = (
    make_job("long", "research", 0.0, (1.0,), (40.0,) * 6),
    make_job("urgent", "production", 15.0, (1.0,), (5.0,) * 3),
)


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint", "suspend"])
def test_requests_get_nodes_and_containers_are_taken_by_name(mechanism: str) -> None:
    run = run_checked(cycles(mechanism), JOBS)
    told = (record.message for record in run.records if isinstance(record.message, JobFinished))
    ends_ns = {finished.job: finished.finish_ns for finished in told}
    assert ends_ns["urgent"] < 40 * SECOND_NS < ends_ns["long"]


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint"])
def test_no_node_is_asked_for_its_heartbeat_and_leaving_heartbeats_out_changes_nothing(mechanism: str) -> None:
    thrifty, every = (run_checked(cycles(mechanism), JOBS, every_heartbeat=every) for every in (False, True))
    assert thrifty.records == every.records


def test_one_that_always_wants_the_next_nanosecond_is_asked_less_often() -> None:
    asked_ns: set[int] = set()

    def hasty(view: ClusterView) -> CycleDecision:
        asked_ns.add(view.now_ns)
        return structs.replace(first_fit(view), valid_until_ns=view.now_ns + 1)

    run = run_checked(cycles("kill", hasty), JOBS)
    assert len(run.finished_jobs) == len(JOBS)
    assert len(asked_ns) < 2 * run.kernel.now_ns / LEAST_WAIT_NS


def test_a_time_that_is_none_is_refused() -> None:
    def vague(view: ClusterView) -> CycleDecision:
        return structs.replace(first_fit(view), valid_until_ns="soon")

    with pytest.raises(PolicyError, match="returned 'soon'; it must return as valid_until_ns None or a whole number"):
        run_checked(cycles("kill", vague), JOBS)


@pytest.mark.parametrize("seed", range(6))
def test_it_holds_in_a_network_that_loses_and_delays(seed: int) -> None:
    chaos = Chaos(seed, drop=10, duplicate=10, delay_ns=SECOND_NS)
    run = run_checked(cycles("checkpoint" if seed % 2 else "kill", seed=seed), JOBS, chaos=chaos)
    assert len(run.finished_jobs) == len(JOBS)


def test_a_victim_is_killed_by_name() -> None:
    run = run_checked(cycles("kill"), JOBS)
    kills = [record.message for record in run.records if isinstance(record.message, KillContainer)]
    assert {kill.why for kill in kills} >= {"preempted by name"}


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (None, "it must return a CycleDecision"),
        (CycleDecision((("nobody", "node-1"),)), "pairs of a job and a node"),
        (CycleDecision((("long", "node-9"),)), "pairs of a job and a node"),
        (CycleDecision(takes=("container-9",)), "containers of the tasks"),
        (CycleDecision((("long", "node-1"),) * 4), "a container of node-1, full"),
    ],
)
def test_what_cannot_be_is_refused(decision: CycleDecision, words: str) -> None:
    def decide(view: ClusterView) -> CycleDecision:
        return decision if "long" in view.jobs and view.nodes["node-1"].free else CycleDecision()

    with pytest.raises(PolicyError, match=words):
        run_checked(cycles("kill", decide), (make_job("long", "research", 0.0, (1.0,) * 8, ()),))
