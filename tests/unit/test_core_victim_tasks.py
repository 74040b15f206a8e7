"""Cost-aware eviction: the ResourceManager ranks the tasks of all victim jobs (adaptive-checkpointing, 5.2.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from manager_bench import Bench, sent
from msgspec import structs
from simulated import SECOND_NS, make_settings

from analysis.evictions import evictions, why
from analysis.whole_run import run_experiment
from emulator.core.messages import Ask, ContainerReport, ContainerState, KillContainer, Outcome, SubmitJob
from emulator.experiment.load import load_experiment
from emulator.policies.mechanism import Adaptive, adaptive
from emulator.policies.task_eviction import cost_aware
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import REDUCE, JobFacts, Mechanism, Tier, map_reduce
from tests.views import cluster, task_view

MEMORY_BYTES, DUMP_S = 100, 10
TIER = Tier("", write_bytes_s=10, read_bytes_s=10)


def ranked(**options: object) -> Bench:
    """Job a has three reduces on node-1, job b three on node-2; production wants four containers."""
    settings = make_settings(nodes=2, containers=3, task_eviction="cost-aware", unmanaged_masters=True, **options)  # type: ignore
    bench = Bench(replace(settings, tier=TIER))
    for job, node in (("a", "node-1"), ("b", "node-2")):
        bench(SubmitJob(JobFacts(job, "research", groups=map_reduce(0, 3), memory_bytes=MEMORY_BYTES)))
        bench.ask(job, Ask(((REDUCE, 3),)))
        bench.node(node)
        bench.ask(job, Ask())
    bench.submit("p", "production", reduces=4)
    bench.ask("p", Ask(((REDUCE, 4),)))
    bench.tick()
    return bench


def told(bench: Bench) -> dict[str, dict[str, int]]:
    """By job, the containers asked back since the last call, with the wait for the device, seconds."""
    found = {}
    for job in ("a", "b"):
        answer = bench.ask(job, Ask())
        if answer is not None:
            assert answer.reclaim == 0
            assert tuple(name for name, _ in answer.device_queues) == answer.named
            found[job] = {name: queue_ns // SECOND_NS for name, queue_ns in answer.device_queues}
    return found


def freed(bench: Bench, container: str) -> ContainerReport:
    held = bench.machine.state.containers[container]
    return ContainerReport(
        held.id, held.job, held.group.name, held.node, 5, ContainerState.DONE, outcome=Outcome.CHECKPOINTED
    )


def test_each_next_dump_goes_where_the_fewest_wait_and_its_job_is_told_how_long() -> None:
    asked = told(ranked())
    assert {job: sorted(waits.values()) for job, waits in asked.items()} == {"a": [0, DUMP_S], "b": [0, DUMP_S]}


def test_a_container_leaves_the_queue_when_its_slot_is_free() -> None:
    bench = ranked()
    asked = told(bench)
    for container in asked["a"]:
        bench.node("node-1", freed(bench, container))
    for wanted in (4, 3):  # the first is answered with the two freed, the second is what it then wants
        bench.ask("p", Ask(((REDUCE, wanted),)))
    bench.tick()
    again = told(bench)
    assert list(again) == ["a"], "both dumps of b are still in front of its third"
    assert list(again["a"].values()) == [0]


def test_the_container_named_is_killed_if_it_is_not_given_in_time() -> None:
    bench = ranked()
    asked = {name for waits in told(bench).values() for name in waits}
    killed = [kill.container for _ in range(10) for kill in sent(bench.tick(), KillContainer)]
    assert set(killed) == asked
    assert not told(bench), "nothing is withdrawn, and nothing else asked for meanwhile"


def test_the_cheapest_of_all_tasks_goes_first() -> None:
    costs = (40, 10, 30)
    tasks = tuple(structs.replace(task_view(place), image_memory_ns=cost) for place, cost in enumerate(costs))
    assert cost_aware(cluster(), tasks, Random(1)) == ("c1", "c2", "c0")


def test_an_image_counts_as_all_memory_or_as_what_has_changed() -> None:
    task = structs.replace(task_view(0, started_ns=0), image_memory_ns=200, image_overhead_ns=20)
    view = cluster(now_ns=100)
    assert adaptive(view, task, options=Adaptive()).mechanism is Mechanism.KILL
    assert adaptive(view, task, options=Adaptive(image_cost="changed")).mechanism is Mechanism.IMAGE


EXPERIMENT = """\
name: queues
engine: sim
overheads: yarn-3
protocol: {kill_timeout_s: 600}
cluster: {nodes: 1, containers_per_node: 4, container_memory_gb: 1, application_masters: outside}
storage: {tier: {write_mb_s: 107.3741824, read_mb_s: 107.3741824}}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
  job_eviction: pr
  task_eviction: EVICTION
  mechanism: adaptive
workload:
  jobs:
    - {name: one, queue: research, reduces: 2, reduce_s: 100}
    - {name: two, queue: research, reduces: 2, reduce_s: 100}
    - {name: production, queue: production, submit_s: 36, reduces: 4, reduce_s: 20}
"""


def test_algorithm_1_counts_the_dumps_of_all_jobs(tmp_path: Path) -> None:
    """Ten seconds to write, ten to read; thirty have been worked.  Behind two dumps an image costs more than the work,
    behind none it costs less.  Each job alone knows of its own dumps only."""
    saved = {}
    for eviction in ("random", "cost-aware"):
        path = tmp_path / f"{eviction}.yaml"
        path.write_text(EXPERIMENT.replace("EVICTION", eviction))
        attempts = simulated_history(resolve(load_experiment(path))).attempts
        saved[eviction] = sum(row.outcome is Outcome.CHECKPOINTED for row in attempts if row.kind == REDUCE)
    assert saved == {"random": 4, "cost-aware": 2}


def test_who_wanted_the_containers_is_explained_once_and_no_kill_is_told(tmp_path: Path) -> None:
    path = tmp_path / "explained.yaml"
    path.write_text(EXPERIMENT.replace("EVICTION", "cost-aware"))
    run_experiment(load_experiment(path), tmp_path / "run", lambda status: None)
    found = evictions(tmp_path / "run")
    assert [eviction.requesters for eviction in found] == [["production"]] * len(found)
    assert len(found) == 4
    whys = [why(eviction.decision, eviction.chosen) for eviction in found]
    assert all(text.startswith("cost-aware: an image costs ") for text in whys)
