"""Clusters of nodes with resources, and containers of the sizes that their tasks ask for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from experiment_files import complaints
from manager_bench import Bench, sent
from msgspec import structs
from simulated import SECOND_NS
from simulated import make_settings as settings_of

from emulator.chaos.runner import judge
from emulator.chaos.schedule import Fault, FaultKind
from emulator.core.messages import (
    ApplicationHeartbeat,
    Ask,
    ContainerReport,
    ContainerState,
    JobState,
    KillContainer,
    NodeLost,
    Outcome,
    Start,
    SubmitJob,
)
from emulator.core.resource_manager.cluster_state import masters_that_block
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment, dump_experiment
from emulator.experiment.warnings import whole_numbers_warning
from emulator.policies.resources import dominant_ppm
from emulator.records.measures import busy_share, sized_work_share, wasted_share
from emulator.resolved import resolve
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.session import simulate, simulated_history
from emulator.vocabulary import REDUCE, JobFacts, Resources, map_reduce

SIZED = """\
name: sized
engine: sim
overheads: hadoop-0.23
cluster:
  node_groups:
  - {count: 2, resources: {cpu: 8, memory_gb: 32}, labels: {flavor: standard}}
  - {count: 1, resources: {cpu: 16, memory_gb: 64, gpu: 4}, labels: {flavor: gpu}}
scheduler:
  allocation:
    name: soft-cap
    queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}
workload:
  jobs:
  - {name: train, queue: research, reduces: 5, reduce_s: 20, resources: {cpu: 3.5, memory_gb: 8, gpu: 1}}
  - {name: wide, queue: production, reduces: 2, reduce_s: 10, memory_gb: 24, resources: {cpu: 7}}
  - {name: small, queue: production, maps: 9, map_s: 3, reduces: 2, reduce_s: 5}
"""
SOFT_CAP = "  allocation:\n    name: soft-cap\n"
TAKES_BACK = """\
name: takes-back
engine: sim
overheads: none
cluster:
  application_masters: outside
  node_groups:
  - {count: 1, resources: {cpu: 8, memory_gb: 32}}
  - {count: 1, resources: {cpu: 16, memory_gb: 64, gpu: 4}}
scheduler:
  mechanism: MECHANISM
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}
workload:
  jobs:
  - {name: train, queue: research, reduces: 5, reduce_s: 60, resources: {cpu: 2, memory_gb: 8, gpu: 1}}
  - {name: fill, queue: research, reduces: 8, reduce_s: 60, resources: {cpu: 1, memory_gb: 4}}
  - {name: urgent, queue: production, submit_s: 20, reduces: 1, reduce_s: 5, resources: {cpu: 1, memory_gb: 4, gpu: 2}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sized.yaml"
    path.write_text(text)
    return path


def test_nodes_and_requests_are_vectors_in_the_order_of_the_file(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, SIZED))
    settings = resolve(experiment).settings
    assert [node.resources for node in settings.nodes] == [(8000, 32000, 0)] * 2 + [(16000, 64000, 4000)]
    assert settings.nodes[2].labels == (("flavor", "gpu"),)
    assert settings.nodes[2].memory_bytes == 64 << 30
    assert settings.nodes[0].stopped_hold == (False, True, True)
    assert settings.master_request == (1000, 1000, 0)
    assert [queue.capacity for queue in settings.scheduler.queues] == [250_000, 750_000]
    requests = {job.name: job.facts.groups[-1].request for job in expand(experiment, 1)}
    assert requests == {"train": (3500, 8000, 1000), "wide": (7000, 24000, 0), "small": (1000, 1000, 0)}


def test_what_is_filled_in_is_read_again_as_it_is(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, SIZED))
    assert (experiment.cluster.nodes, experiment.cluster.containers) == (3, 32)
    again = load_experiment(written(tmp_path, dump_experiment(experiment)))
    assert again == experiment


def test_a_run_packs_each_node(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path, SIZED))
    rows = simulated_history(resolve(experiment)).attempts
    train = [row for row in rows if row.job == "train" and row.kind != "am"]
    assert {row.node for row in train} == {"node-3"}
    assert len(train) == 5
    assert sorted(row.ready_ns for row in train)[4] >= min(row.slot_freed_ns or 0 for row in train)  # of four gpu


@pytest.mark.parametrize(("mechanism", "taken"), [("kill", 2), ("checkpoint", 2), ("suspend", 0), ("wait", 0)])
def test_just_enough_is_taken_back_on_the_node_where_an_urgent_task_fits(
    tmp_path: Path, mechanism: str, taken: int
) -> None:
    """A stopped process keeps its gpu, so none is stopped for one.  A fifth task waits for the room that is made."""
    experiment = load_experiment(written(tmp_path, TAKES_BACK.replace("MECHANISM", mechanism)))
    rows = [row for row in simulated_history(resolve(experiment)).attempts if row.kind != "am"]
    victims = [row for row in rows if row.outcome is not Outcome.SUCCEEDED]
    (urgent,) = [row for row in rows if row.job == "urgent"]
    assert [(row.job, row.node) for row in victims] == [("train", "node-2")] * taken
    first_end_ns = min(row.ended_ns or 0 for row in rows if row.job == "train" and row not in victims)
    assert (urgent.ready_ns < first_end_ns) == (taken > 0)
    assert all(row.slot_freed_ns is not None and row.slot_freed_ns <= urgent.ready_ns for row in victims)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("gpu: 1}", "gpu: 5}", "sized.yaml:14: workload.jobs.0.resources: a task that asks for 3.5 cpu, 8 memory_gb, 5"
         " gpu fits no empty node: the nearest, of node_groups.1, lacks 1 gpu; lower it, or add larger nodes"),
        ("gpu: 1}", "gpus: 1}", "sized.yaml:14: workload.jobs.0.resources.gpus: no node has 'gpus'; did you mean"
         " 'gpu'? (resources: cpu, memory_gb, gpu)"),
        ("cpu: 3.5", "cpu: 3.1234", "workload.jobs.0.resources.cpu: has more than three decimals"),
        ("memory_gb: 24, resources: {cpu: 7}", "memory_gb: 24, resources: {memory_gb: 2}",
         "workload.jobs.1.resources.memory_gb: a task that uses 24 GB asks for 2; raise it"),
        ("cluster:\n", "cluster:\n  slots: {map: 1, reduce: 1}\n", "cluster.slots: counts containers of one size"),
        ("cluster:\n", "cluster:\n  nodes: 4\n", "cluster.nodes: node_groups say 3, not 4; remove it"),
        ("cluster:\n", "cluster:\n  suspended_hold: [disk]\n", "cluster.suspended_hold.0: no node has 'disk'"),
        ("name: soft-cap\n", "name: fair\n", "scheduler.allocation: fair counts containers of one size"),
        ("{capacity: 0.25}", "{capacity: 0.02, maximum: 0.03}", "queues.production.maximum: an ApplicationMaster takes"
         " 0.03125 of the cluster"),
        ("reduces: 5,", "reduces: 5, gang: true,", "workload.jobs.0.gang: with node_groups ApplicationMasters could"
         " block the nodes of gangs; set cluster.application_masters: outside"),
        (SOFT_CAP, "  mechanism: {name: adaptive, among: [kill, wait]}\n" + SOFT_CAP.replace("soft-cap", "two-queue"),
         "scheduler.mechanism.among: with node_groups the room that victims leave is reserved"),
        ("engine: sim", "engine: fluid", "cluster.node_groups: the fluid engine has no nodes"),
        ("cpu: 3.5, memory_gb: 8, gpu: 1", "cpu: 15.5, memory_gb: 8, gpu: 1", "one node is large enough, and an"
         " ApplicationMaster there leaves 0.5 cpu too little"),
        ("cpu: 3.5, memory_gb: 8, gpu: 1", "cpu: 0, memory_gb: 0", "a task that asks for nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    path = written(tmp_path, SIZED.replace(before, after, 1))
    assert any(message in line for line in complaints(path)), complaints(path)


def test_resources_need_node_groups(tmp_path: Path) -> None:
    head, _, rest = SIZED.partition("cluster:\n")
    text = head + "cluster: {nodes: 2, containers_per_node: 4}\n" + rest[rest.index("scheduler:") :]
    lines = complaints(written(tmp_path, text))
    assert any("workload.jobs.0.resources: all containers of this cluster have one size" in line for line in lines)


def test_the_dominant_share_of_one_resource_is_a_count() -> None:
    for used in range(13):
        assert dominant_ppm((1000 * used,), (12_000,)) == used * 1_000_000 // 12
    assert dominant_ppm((1000, 8000, 0), (10_000, 20_000, 0)) == 400_000


MASTERS = """\
name: masters
engine: sim
overheads: none
cluster: {node_groups: [{count: 2, resources: {cpu: 8}}]}
scheduler:
  mechanism: wait
  allocation: {name: ALLOCATION, queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}}
workload:
  jobs:
  - {name: large, queue: production, reduces: 8, reduce_s: 5, master_resources: {cpu: 6}}
  - {name: usual, queue: production, submit_s: 60, reduces: 8, reduce_s: 5}
"""


@pytest.mark.parametrize("allocation", ["two-queue", "yarn-capacity"])
def test_an_application_master_takes_what_its_job_says(tmp_path: Path, allocation: str) -> None:
    """Beside one of six cores there are two more on its node, and eight on the other."""
    text = MASTERS.replace("ALLOCATION", allocation)
    history = simulated_history(resolve(load_experiment(written(tmp_path, text))))
    beside = dict[str, int]()
    for job in ("large", "usual"):
        rows = [row for row in history.attempts if row.job == job]
        (node,) = {row.node for row in rows if row.kind == "am"}
        there = [row for row in rows if row.kind != "am" and row.node == node]
        beside[job] = max(sum(a.ready_ns <= b.ready_ns < (a.ended_ns or 0) for a in there) for b in there)
    assert beside["large"] == 2 < beside["usual"]


def test_an_application_master_that_fits_no_node_is_refused(tmp_path: Path) -> None:
    text = MASTERS.replace("ALLOCATION", "two-queue").replace("cpu: 6", "cpu: 9")
    with pytest.raises(ConfigError, match=r"workload.jobs.0.master_resources: an ApplicationMaster"):
        load_experiment(written(tmp_path, text))


def test_masters_never_block_all_nodes_for_a_task() -> None:
    assert masters_that_block((4000,), (1000,), (1000,)) == 4  # one size: all the containers
    assert masters_that_block((8000, 8000), (8000, 1000), (1000, 1000)) == 1
    assert masters_that_block((8000, 8000), (2000, 7500), (1000, 250)) == 3
    assert masters_that_block((8000, 8000), (9000, 0), (1000, 1000)) == 0


def test_the_resource_of_which_most_is_used_says_how_busy_the_cluster_was(tmp_path: Path) -> None:
    """Two tasks hold all GPUs.  Counted as containers of the usual size they would be a quarter of the node."""
    text = TAKES_BACK.replace("MECHANISM", "wait").replace("cpu: 8, memory_gb: 32}", "cpu: 8, memory_gb: 32, gpu: 4}")
    text = text[: text.index("  - {count: 1, resources: {cpu: 16")] + text[text.index("scheduler:") :]
    text = text[: text.index("  - {name: train")]
    text += "  - {name: train, queue: research, reduces: 2, reduce_s: 60, resources: {cpu: 2, memory_gb: 8, gpu: 2}}\n"
    run = resolve(load_experiment(written(tmp_path, text)))
    history = simulated_history(run)
    assert busy_share(history, run, 60 * 10**9) == pytest.approx(1, rel=0.01)
    assert busy_share(history, run, 120 * 10**9) == pytest.approx(0.5, rel=0.01)
    assert wasted_share(history, run, 60 * 10**9) == 0
    assert sized_work_share(history, run, 60 * 10**9) == pytest.approx(1, rel=0.01)
    assert busy_share(history, run, None) is None


def gangs(folder: Path, mechanism: str, overheads: str = "none") -> Experiment:
    """The catalogue's gangs, simulated."""
    text = (Path(__file__).parents[2] / "workloads/catalog/gangs.yaml").read_text().replace("calibration: auto\n", "")
    return load_experiment(
        written(folder, text), ["engine=sim", f"overheads={overheads}", f"scheduler.mechanism={mechanism}"]
    )


@pytest.mark.parametrize(("mechanism", "taken"), [("kill", {"training", "gpus"}), ("wait", set())])
def test_a_gang_of_several_sizes_starts_whole_and_takes_back_for_all_of_it(
    tmp_path: Path, mechanism: str, taken: set[str]
) -> None:
    rows = simulated_history(resolve(gangs(tmp_path, mechanism))).attempts
    tasks = [row for row in rows if row.kind != "am"]
    serving = [row for row in tasks if row.job == "serving"]
    assert [(row.kind, row.outcome) for row in serving] == [
        *[("front", Outcome.SUCCEEDED)] * 3,
        ("model", Outcome.SUCCEEDED),
    ]
    assert {row.node for row in serving if row.kind == "model"} == {"node-3"}
    began_ns = [row.launched_ns for row in serving]
    assert len(set(began_ns)) == 1
    victims = [row for row in tasks if row.outcome is not Outcome.SUCCEEDED]
    assert {row.job for row in victims} == taken
    training = [row for row in tasks if row.job == "training"]
    assert sum(row in victims for row in training) in (0, 6), "a gang goes whole"


def test_a_gang_that_takes_nothing_back_holds_every_node_that_one_of_its_tasks_can_use(tmp_path: Path) -> None:
    """The job after it could start at once, and would keep it waiting."""
    jobs = simulated_history(resolve(gangs(tmp_path, "wait"))).jobs
    starts_ns = {job.name: job.start_ns or 0 for job in jobs}
    assert starts_ns["serving"] < starts_ns["single"]


def test_a_gang_for_which_lost_nodes_have_left_too_little_fails_when_it_wants_room_again(tmp_path: Path) -> None:
    """It was running when the last of them was lost, so it did not wait then."""
    experiment = gangs(tmp_path, "checkpoint", "hadoop-0.23")
    deaths = [(27_584_741_208, 862_925_020, 180_507), (83_361_878_239, 6_217_537_432, 557_198)]
    judged = judge(experiment, 88_593_247_483, 174, [Fault(FaultKind.SILENT_DEATH, *each) for each in deaths])
    assert judged.violation is None
    assert judged.jobs is not None
    assert judged.jobs[JobState.FAILED] > 0


@pytest.mark.parametrize("mechanism", ["kill", "checkpoint"])
def test_yarn_takes_back_up_to_the_guarantee_and_room_is_reserved_for_what_is_large(
    tmp_path: Path, mechanism: str
) -> None:
    """Each node holds eight small tasks of research; production's two tasks need half a node each."""
    text = TAKES_BACK.replace("MECHANISM", mechanism).replace("overheads: none", "overheads: hadoop-0.23")
    text = text[: text.index("scheduler:")].replace("count: 1, resources: {cpu: 8", "count: 2, resources: {cpu: 8")
    text = text[: text.index("  - {count: 1, resources: {cpu: 16")] + YARN.replace("MECHANISM", mechanism)
    run = resolve(load_experiment(written(tmp_path, text)))
    rows = [row for row in simulated_history(run).attempts if row.kind != "am"]
    victims = [row for row in rows if row.outcome is not Outcome.SUCCEEDED]
    urgent = [row for row in rows if row.job == "urgent"]
    assert {row.job for row in victims} == {"fill"}
    # Four cores for each of the two.  Only the first of an application's requests is tried, and it is reserved on one
    # node at first.  So of what was freed on the other, saved tasks get three cores, and three more are taken.
    assert len(victims) == {"kill": 8, "checkpoint": 11}[mechanism]
    before_urgent = [row for row in rows if row.job == "fill" and row.ready_ns < min(row.ready_ns for row in urgent)]
    assert len(before_urgent) == 16 + len(victims) - 8
    first_end_ns = min(row.ended_ns or 0 for row in rows if row.job == "fill" and row not in victims)
    assert min(row.ready_ns for row in urgent) < first_end_ns
    assert all(row.outcome is Outcome.SUCCEEDED for row in urgent)


YARN = """\
scheduler:
  mechanism: MECHANISM
  task_eviction: newest
  allocation:
    name: yarn-capacity
    queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}
    preemption: {interval_s: 1, max_wait_before_kill_s: 1, total_preemption_per_round: 1,
                 natural_termination_factor: 1, max_ignored_over_capacity: 0}
workload:
  jobs:
  - {name: fill, queue: research, reduces: 16, reduce_s: 120, resources: {cpu: 1, memory_gb: 2}}
  - {name: urgent, queue: production, submit_s: 20, reduces: 2, reduce_s: 5, resources: {cpu: 4, memory_gb: 8}}
"""


def test_yarn_counts_whole_numbers_and_that_is_said(tmp_path: Path) -> None:
    text = TAKES_BACK[: TAKES_BACK.index("  - {count: 1, resources: {cpu: 16")] + YARN.replace("MECHANISM", "kill")
    assert whole_numbers_warning(load_experiment(written(tmp_path, text))) is None
    halves = written(
        tmp_path, text.replace("resources: {cpu: 1, memory_gb: 2}", "resources: {cpu: 0.5, memory_gb: 1.5}")
    )
    assert whole_numbers_warning(load_experiment(halves)) == (
        "YARN counts whole numbers of cpu: what a task asks for is rounded up, what a node has down"
    )


def test_cost_aware_takes_the_tasks_whose_images_are_cheapest_of_all_jobs(tmp_path: Path) -> None:
    """All ask for the same.  By the order of jobs the larger one is the victim; the tasks of the other use less."""
    jobs = """\
workload:
  jobs:
  - {name: large, queue: research, reduces: 5, reduce_s: 60, memory_gb: 4, resources: {cpu: 1, memory_gb: 4}}
  - {name: small, queue: research, reduces: 3, reduce_s: 60, memory_gb: 1, resources: {cpu: 1, memory_gb: 4}}
  - {name: urgent, queue: production, submit_s: 20, reduces: 1, reduce_s: 5, resources: {cpu: 3, memory_gb: 12}}
"""
    text = TAKES_BACK.replace("mechanism: MECHANISM", "mechanism: image\n  task_eviction: TASKS")
    text = text[: text.index("  - {count: 1, resources: {cpu: 16")] + text[text.index("scheduler:") :]
    text = text[: text.index("workload:")] + "storage: {tier: ssd}\n" + jobs
    for tasks, victims in (("cost-aware", {"small"}), ("newest", {"large"})):
        path = written(tmp_path, text.replace("TASKS", tasks))
        rows = [row for row in simulated_history(resolve(load_experiment(path))).attempts if row.kind != "am"]
        taken = [row for row in rows if row.outcome is not Outcome.SUCCEEDED]
        assert len(taken) == 3
        assert {row.job for row in taken} == victims


def test_a_saved_task_resumes_when_its_queue_falls_below_its_maximum(tmp_path: Path) -> None:
    """Two tasks hold all GPUs, so research is full while the node of its saved task has room.  When they end, that node
    must be heard again: the others leave the task to it."""
    text = (
        SIZED[: SIZED.index("cluster:")].replace("hadoop-0.23", "hadoop-0.23\nseed: 3807")
        + """\
cluster:
  application_masters: outside
  node_groups:
  - {count: 3, resources: {cpu: 6, memory_gb: 16}}
  - {count: 1, resources: {cpu: 4, memory_gb: 16, gpu: 2}}
scheduler:
  mechanism: checkpoint
  allocation: {name: two-queue, queues: {production: {capacity: 0.4}, research: {capacity: 0.6}}}
workload:
  jobs:
  - {name: fill, queue: research, reduces: 18, reduce_s: {uniform: [0.5, 1.0], longest: 40.3}, key_s: 1}
  - {name: train, queue: research, reduces: 2, reduce_s: 59.4, key_s: 1, resources: {gpu: 1}}
  - {name: late, queue: production, submit_s: 31.4, reduces: 3, reduce_s: 25.2, gang: {minimum: 1},
     resources: {cpu: 3, memory_gb: 6}}
  - {name: early, queue: production, submit_s: 15.4, reduces: 2, reduce_s: 28.8, gang: true, resources: {cpu: 2}}
"""
    )
    rows = simulated_history(resolve(load_experiment(written(tmp_path, text)))).attempts
    assert [row.job for row in rows if row.outcome is Outcome.CHECKPOINTED] == ["fill", "fill"]
    assert [row.outcome for row in rows if row.job == "fill" and row.kind != "am"].count(Outcome.SUCCEEDED) == 18


def test_a_need_that_cannot_be_met_costs_nothing_until_something_changes(tmp_path: Path) -> None:
    """What the urgent job lacks is held by tasks that go on holding it when they are stopped."""

    def events(length_s: int) -> int:
        text = TAKES_BACK.replace("MECHANISM", "suspend").replace("reduce_s: 60", f"reduce_s: {length_s}")
        run = resolve(load_experiment(written(tmp_path, text)))
        cluster = SimulatedCluster(run.settings, {job.name: job for job in run.jobs}, lambda record: None)
        cluster.run()
        return cluster.kernel.events

    assert events(6000) == events(60)


def test_a_task_is_taken_back_as_soon_as_it_has_run_for_its_minimum(tmp_path: Path) -> None:
    """Nothing else happens between the urgent job's submission and then."""
    text = TAKES_BACK.replace("MECHANISM", "kill").replace("0.75}", "0.75, minimum_runtime_s: 40}")
    rows = simulated_history(resolve(load_experiment(written(tmp_path, text)))).attempts
    (urgent,) = [row for row in rows if row.job == "urgent" and row.kind != "am"]
    victims = [row for row in rows if row.outcome is Outcome.KILLED]
    assert len(victims) == 2
    assert 40 <= urgent.ready_ns / 1e9 <= 45


WAITS = """\
name: waits
engine: sim
overheads: none
cluster:
  node_groups: [NODES]
  application_masters: outside
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
  mechanism: wait
workload:
  jobs:
"""


def simulated_with(path: Path, text: str, **given: str) -> SimulatedCluster:
    for name, value in given.items():
        text = text.replace(name, value)
    return simulate(resolve(load_experiment(written(path, text))), lambda records: None)


def test_room_that_is_too_small_for_all_that_waits_costs_no_heartbeats(tmp_path: Path) -> None:
    """The same run on nodes that are full, and on nodes with room left that nobody can use."""
    jobs = """\
    - {name: long, queue: research, reduces: 40, reduce_s: {uniform: [0.5, 1], longest: 60},
        resources: {cpu: 3, memory_gb: 1}}
    - {name: urgent, queue: production, submit_s: 20, reduces: 9, reduce_s: 30,
        resources: {cpu: 3, memory_gb: 1}}
"""
    full, left_over = (
        simulated_with(tmp_path, WAITS + jobs, NODES=f"{{count: 8, resources: {room}}}")
        for room in ("{cpu: 3, memory_gb: 1}", "{cpu: 5, memory_gb: 8}")
    )
    assert left_over.kernel.now_ns == full.kernel.now_ns
    assert left_over.kernel.events <= 1.05 * full.kernel.events


def test_a_gang_that_waits_beside_others_costs_no_heartbeats(tmp_path: Path) -> None:
    """While a queue's jobs wait, and a gang after them, as much happens whether that takes ten minutes or two hours."""
    nodes = "{count: 2, resources: {cpu: 5, memory_gb: 8}}"
    jobs = """\
    - {name: long, queue: research, reduces: 2, reduce_s: LONG, key_s: LONG, resources: {cpu: 3, memory_gb: 4}}
    - {name: next, queue: production, submit_s: 20, reduces: 2, reduce_s: 30, resources: {cpu: 3, memory_gb: 1}}
    - {name: gang, queue: research, submit_s: 20, reduces: 2, reduce_s: 30, gang: true, resources: {memory_gb: 5}}
"""
    short, long = (simulated_with(tmp_path, WAITS + jobs, NODES=nodes, LONG=length) for length in ("600", "7200"))
    assert long.kernel.events <= short.kernel.events + 10


@pytest.mark.parametrize(("order", "shortest_first"), [("srt", True), ("lrt", False)])
def test_a_job_that_is_asked_for_room_gives_the_tasks_that_come_first_in_its_own_order(
    tmp_path: Path, order: str, shortest_first: bool
) -> None:
    """Only the job knows what is left of its tasks; all hold the same, so two of them are enough."""
    jobs = """\
workload:
  jobs:
  - {name: fill, queue: research, reduces: 8, reduce_s: {uniform: [0.5, 1], longest: 200}, key_s: 1}
  - {name: urgent, queue: production, submit_s: 20, reduces: 1, reduce_s: 5, resources: {cpu: 2, memory_gb: 2}}
"""
    text = TAKES_BACK.replace("mechanism: MECHANISM", f"mechanism: kill\n  task_eviction: {order}")
    text = text[: text.index("  - {count: 1, resources: {cpu: 16")] + text[text.index("scheduler:") :]
    text = text[: text.index("workload:")] + jobs
    run = resolve(load_experiment(written(tmp_path, text)))
    lengths = next(job.reduce_ns for job in run.jobs if job.name == "fill")
    rows = simulated_history(run).attempts
    taken = {row.task for row in rows if row.outcome is Outcome.KILLED}
    in_order = sorted(range(8), key=lambda number: lengths[number], reverse=not shortest_first)
    assert taken == set(in_order[:2])


def ended(container: str) -> ContainerReport:
    return ContainerReport(container, "fill", REDUCE, "node-1", 9, ContainerState.DONE, outcome=Outcome.SUCCEEDED)


def bench_of_sizes(request: Resources, asked: Resources, others: Resources | None = None) -> Bench:
    """A node of 8 cpu that two tasks fill, or one and ``others`` of another job, and an urgent request.  The second
    node is not heard of."""
    settings = settings_of(nodes=2, sizes=((8000, 8000),) * 2, master_request=(1000, 1000), unmanaged_masters=True)
    bench = Bench(settings)
    bench.node()

    def submit(job: str, queue: str, size: Resources, count: int) -> None:
        (group,) = map_reduce(0, count)[-1:]
        bench(SubmitJob(JobFacts(job, queue, (structs.replace(group, request=size),))))
        bench.ask(job, Ask(((REDUCE, count),)))

    submit("fill", "research", request, 2 if others is None else 1)
    bench.node()
    bench.told("fill", Ask())
    if others is not None:
        submit("beside", "research", others, 1)
        bench.node()
        bench.told("beside", Ask())
    submit("urgent", "production", asked, 1)
    bench.tick()
    return bench


def test_the_next_job_is_asked_only_for_what_is_missing_then() -> None:
    bench = bench_of_sizes((5000, 4000), (6000, 6000), others=(3000, 4000))
    assert bench.told("beside", Ask()).keeps == (("node-1", (0, 0)),)
    assert bench.told("fill", Ask()).keeps == (("node-1", (2000, 2000)),)


def test_what_a_job_that_has_ended_still_owes_is_awaited() -> None:
    """Its tasks are being killed, so nobody else is asked in its place."""
    bench = bench_of_sizes((5000, 4000), (3000, 3000), others=(3000, 4000))
    assert bench.told("beside", Ask()).keeps == (("node-1", (0, 1000)),)
    bench(ApplicationHeartbeat("beside", bench.now_ns, 9, Ask(), JobState.SUCCEEDED, bench.now_ns))
    bench.tick()
    assert bench.ask("fill", Ask()) is None


def test_a_killed_task_that_leaves_does_not_pay_what_its_job_was_asked_for_since() -> None:
    bench = bench_of_sizes((4000, 4000), (3000, 3000))
    bench.told("fill", Ask())
    orders = [order for _ in range(14) for order in sent(bench.tick(), KillContainer)]
    assert len(orders) == 1, "not given in time"
    assert bench.told("fill", Ask()).keeps == ()
    bench.ask("urgent", Ask(((REDUCE, 2),)))
    bench.tick()
    assert bench.told("fill", Ask()).keeps == (("node-1", (6000, 6000)),)
    bench.node("node-1", structs.replace(ended(orders[0].container), job_knows=True))
    assert bench.told("fill", Ask()).keeps == (("node-1", (2000, 2000)),)


def test_after_a_restart_of_the_resource_manager_a_job_has_its_full_time_to_give() -> None:
    bench = bench_of_sizes((4000, 4000), (3000, 3000))
    asked_ns = bench.now_ns
    while bench.now_ns < asked_ns + 10 * SECOND_NS:
        assert not sent(bench.tick(), KillContainer)
    bench(Start())
    began_ns = bench.now_ns
    while not sent(bench.tick(), KillContainer):
        assert bench.now_ns < began_ns + 12 * SECOND_NS
    assert bench.now_ns == began_ns + 12 * SECOND_NS


def test_on_a_node_that_is_lost_nothing_is_owed() -> None:
    bench = bench_of_sizes((4000, 4000), (3000, 3000))
    assert bench.told("fill", Ask()).keeps
    bench(NodeLost("node-1"))
    assert not bench.machine.preemptor.has_contracts_on_nodes
    assert bench.told("fill", Ask()).keeps == ()


def test_what_is_not_needed_any_more_a_job_may_keep() -> None:
    bench = bench_of_sizes((4000, 4000), (3000, 1000))
    answer = bench.told("fill", Ask())
    assert answer.keeps == (("node-1", (5000, 7000)),)
    bench.ask("urgent", Ask())
    bench.tick()
    assert bench.told("fill", Ask()).keeps == ()


def test_what_a_job_may_keep_is_told_again_until_it_is_heard_and_with_what_it_gets() -> None:
    bench = bench_of_sizes((3000, 3000), (6000, 1000))
    answer = bench.told("fill", Ask())
    assert answer.keeps == (("node-1", (2000, 6000)),)
    bench.answers["fill"] -= 1
    assert bench.told("fill", Ask()) == answer
    bench.ask("fill", Ask(((REDUCE, 1),)))
    assert bench.ask("fill", Ask(((REDUCE, 1),))) is None, "what is free is reserved"


def test_a_task_that_ends_by_itself_pays_what_its_job_owes() -> None:
    bench = bench_of_sizes((4000, 4000), (6000, 1000))
    answer = bench.told("fill", Ask())
    assert answer.keeps == (("node-1", (2000, 7000)),)
    held = next(iter(bench.machine.state.applications["fill"].victims))
    bench.node("node-1", ended(held))
    assert bench.machine.preemptor.open_amounts_of("fill") == {"node-1": (2000, 0)}
    assert bench.told("fill", Ask()).keeps == (("node-1", (2000, 4000)),)


# ---- many sizes ----


def _calls_of_a_simulation(folder: Path, sizes: int) -> int:
    """Calls made to simulate ten tasks of each size, on a node for the tasks of ten sizes, while a queue reclaims."""
    jobs = [
        f"  - {{name: job-{number}, queue: {'research' if number % 4 else 'production'}, submit_s: {number / 10},"
        f" reduces: 10, reduce_s: 60, resources: {{cpu: {1 + number / 1000}, memory_gb: 2}}}}\n"
        for number in range(sizes)
    ]
    cluster = f"  - {{count: {sizes // 10}, resources: {{cpu: 16, memory_gb: 64}}}}\n"
    head = TAKES_BACK.replace("MECHANISM", "suspend").replace("overheads: none", "overheads: hadoop-0.23")
    head = head[: head.index("  - {count: 1")] + cluster + head[head.index("scheduler:") :]
    text = head[: head.index("  - {name: train")] + "".join(jobs)
    run, calls = resolve(load_experiment(written(folder, text))), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        simulated_history(run)
    finally:
        sys.setprofile(None)
    return calls


def test_what_a_size_costs_hardly_grows_with_the_number_of_sizes(tmp_path: Path) -> None:
    """Each heartbeat looked at all reservations, anew for every job: 10,000 tasks of 1,000 sizes did not end."""
    assert _calls_of_a_simulation(tmp_path, 80) < 3.2 * _calls_of_a_simulation(tmp_path, 40)
