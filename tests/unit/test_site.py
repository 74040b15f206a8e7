"""Imported clusters as experiments: ``site: FILE``, and an imported file by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from simulated_runs import simulate

from analysis.explain import explain, said
from analysis.load import load_runs
from analysis.run_paths import find_runs
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import dump_experiment
from emulator.experiment.sites.site import LONGEST_NAME, short
from emulator.files.yaml_values import dump_yaml
from emulator.policies.kubernetes.scheduler import pods_player
from emulator.records.replay import replay_journal
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.sites.kubernetes import Arrival, Kubernetes, Node, Pod, PriorityClass, Replacement, State
from tests.commands import run_natjam
from workloads.kueue.state import read_kueue
from workloads.saved import read_saved, system_of, write_saved

OBJECTS = Path(__file__).resolve().parents[1] / "data/kubernetes/objects"
GIB, S = 1 << 30, 10**9
CPU = {"cpu": 1000, "memory": GIB + 1}


def pod(name: str, submit_s: int, length_s: int | None, priority: int = 0, **more: object) -> Arrival:
    """A pod that takes half a node."""
    length_ns = None if length_s is None else length_s * S
    return replace(Arrival(Pod(name, priority, requests=CPU), submit_s * S, length_ns), **more)


CLUSTER = Kubernetes(
    State((Node("a", {"cpu": 2000, "memory": 8 * GIB, "pods": 9}), Node("b", {"cpu": 1000, "memory": 2 * GIB}))),
    (PriorityClass("urgent", 10),),
    arrivals=(
        pod("service", -50, None, 5, node="b"),
        pod("batch-0", 0, 100, grace_ns=3 * S),
        pod("batch-1", 0, 100, replacement=Replacement.GONE, grace_ns=2 * S),
        pod("alone", 1, 100, replacement=Replacement.NEVER),
        pod("urgent", 10, 20, 10),
        pod("huge", 11, 20, 10, pod=Pod("huge", 10, requests={"cpu": 9000})),
        pod("picky", 12, 20, 10, pod=Pod("picky", 10, requests=CPU, selector={"disk": "ssd"})),
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an imported cluster, an experiment of it, and a run of that."""
    folder = tmp_path_factory.mktemp("site")
    write_saved(folder / "mine.yaml", CLUSTER, ())
    (folder / "theirs.yaml").write_text(dump_yaml({"name": "theirs", "site": "mine.yaml"}))
    simulate(folder, "run", "overheads=none", file=folder / "theirs.yaml")
    return folder


def test_what_happens_in_the_machines_is_what_is_played(folder: Path) -> None:
    played = [(name, one) for name, each in pods_player(CLUSTER).finish().items() for one in each]
    attempts = load_runs(find_runs([folder / "run"])).attempts
    mine = {(row.job, row.node, row.launched_s) for row in attempts.itertuples() if row.kind == "pod"}
    assert mine == {(name, one.nodes[0], max(0, one.start_ns) / S) for name, one in played}
    assert sum(one.was_ended for _, one in played) == 1


def test_pods_that_can_not_go_on_are_ended_without_a_failure(folder: Path) -> None:
    jobs = load_runs(find_runs([folder / "run"])).jobs.set_index("job")
    states = dict(jobs["state"])
    assert "huge" not in states
    assert states == dict.fromkeys(("batch-0", "batch-1", "alone", "urgent"), "succeeded") | dict.fromkeys(
        ("service", "picky"), "killed"
    )
    assert jobs["lost_work_s"]["service"] == 0
    assert jobs["lost_work_s"].sum() == 10
    assert jobs["queue"]["urgent"] == "urgent"
    assert jobs["queue"]["service"] == "priority 5"


def test_a_pod_without_an_end_that_is_placed_last_starts_before_it_is_ended(tmp_path: Path) -> None:
    small = State((Node("b", CPU),))
    write_saved(tmp_path / "mine.yaml", Kubernetes(small, arrivals=(pod("batch", 0, 9), pod("last", 1, None))), ())
    attempts = simulated_history(resolve(load_experiment(tmp_path / "mine.yaml"))).attempts
    starts = {row.job: row.launched_ns for row in attempts if row.kind == "pod"}
    assert starts == {"batch": 0, "last": 9 * S}


def test_pods_that_no_node_is_large_enough_for_are_named(folder: Path, tmp_path: Path) -> None:
    done = run_natjam("run", folder / "mine.yaml", "--out", tmp_path / "run")
    lack = "9 cpu asked, no node has more than 2 cpu"
    assert f"no node is large enough for 1 job, left out of the run: huge ({lack})" in " ".join(done.output.split())
    assert json.loads((tmp_path / "run/summary.json").read_text())["too_large"] == {"huge": lack}
    run, mine = load_experiment(tmp_path / "run/experiment.yaml"), load_experiment(folder / "mine.yaml")
    assert dump_experiment(run) == dump_experiment(mine)


def test_the_run_needs_the_file_of_the_site_no_more(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "run"
    moved.symlink_to(folder / "run")
    again = load_experiment(moved / "experiment.yaml")
    assert str(folder) not in (moved / "experiment.yaml").read_text()
    mine = load_experiment(folder / "mine.yaml").model_copy(update={"name": "theirs"})
    assert dump_experiment(again) == dump_experiment(mine)
    assert dump_experiment(again).encode() == (moved / "experiment.yaml").read_bytes()
    assert replay_journal(moved / "journal.jsonl.zst").difference is None


@pytest.mark.parametrize("mechanism", ["suspend", "checkpoint"])
def test_a_pod_that_is_stopped_or_saved_goes_on(folder: Path, tmp_path: Path, mechanism: str) -> None:
    simulate(tmp_path, "run", f"scheduler.mechanism={mechanism}", "overheads=none", file=folder / "theirs.yaml")
    found = load_runs(find_runs([tmp_path / "run"]))
    jobs = found.jobs.set_index("job")
    assert jobs["suspensions"]["batch-1"] == 1
    assert jobs["lost_work_s"].sum() == 0
    attempts = found.attempts[(found.attempts["job"] == "batch-1") & (found.attempts["kind"] == "pod")]
    assert len(attempts) == (1 if mechanism == "suspend" else 2)
    assert attempts["active_s"].sum() == 100
    assert replay_journal(tmp_path / "run/journal.jsonl.zst").difference is None


def test_the_word_for_victims_and_the_terms_of_a_queue_may_be_given(folder: Path) -> None:
    words = ["scheduler.allocation.victims=least-work-lost", "scheduler.allocation.queues.urgent.checkpoint_period_s=5"]
    found = load_experiment(folder / "theirs.yaml", words).scheduler.allocation
    assert found.queues["urgent"].checkpoint_period_s == 5
    assert (found.model_extra or {})["victims"] == "least-work-lost"
    with pytest.raises(ConfigError, match="victims"):
        load_experiment(folder / "theirs.yaml", ["scheduler.allocation.victims=all"])


def test_the_words_of_the_scheduler_are_kept(folder: Path) -> None:
    found = explain(folder / "run", "urgent")
    assert list(said(found)) == [
        "at 10.000 s urgent (priority 10) preempts on a, and waits for its victims to go\n"
        "  a: batch-1 (priority 0) would go; batch-0 may stay; taken\n"
        "  b: service (priority 5) would go; a is better: lowest priority of its most important victim",
        "at 12.000 s urgent (priority 10) goes to a, where it has made room",
    ]


def test_two_files_are_run_and_their_evictions_compared(folder: Path, tmp_path: Path) -> None:
    calm = replace(CLUSTER, arrivals=tuple(each for each in CLUSTER.arrivals if each.pod.name != "urgent"))
    write_saved(tmp_path / "calm.yaml", calm, ())
    run_natjam("compare", tmp_path / "calm.yaml", folder / "mine.yaml", "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out/compare.json").read_text())["evictions"]
    assert (found["before"], found["newly"], found["no_longer"]) == ([], ["batch-1"], [])
    assert found["after"] == [{"job": "batch-1", "queue": "priority 0", "t_s": 10.0, "by": "urgent", "lost_s": 10.0}]
    assert (tmp_path / "out/before/summary.json").is_file()


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"cluster": {"nodes": 3}}, "theirs.yaml:2: cluster.nodes: the site"),
        ({"scheduler": {"fit": "offered"}}, "theirs.yaml:2: scheduler.fit: the site"),
        ({"scheduler": {"allocation": {"name": "fair"}}}, "theirs.yaml:3: scheduler.allocation.name: the site"),
        ({"workload": {"jobs": []}}, "theirs.yaml:2: workload.jobs: the site"),
    ],
)
def test_what_the_site_decides_is_refused(folder: Path, tmp_path: Path, beside: dict[str, object], named: str) -> None:
    (tmp_path / "theirs.yaml").write_text(dump_yaml({**beside, "name": "x", "site": str(folder / "mine.yaml")}))
    with pytest.raises(ConfigError, match=r"mine\.yaml decides it; remove it") as found:
        load_experiment(tmp_path / "theirs.yaml")
    assert named in found.value.message


def test_mechanism_protocol_and_engine_may_be_given(folder: Path) -> None:
    options = ["scheduler.mechanism=wait", "protocol.kill_timeout_s=1", "engine=live", "time_scale=5"]
    found = load_experiment(folder / "theirs.yaml", options)
    assert found.scheduler.mechanism == "wait"
    assert (found.protocol.kill_timeout_s, found.protocol.news, found.engine) == (1, "at-once", "live")


def test_a_site_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: other\n")
    for site in ("other.yaml", "none.yaml", 3):
        (tmp_path / "x.yaml").write_text(dump_yaml({"name": "x", "site": site}))
        with pytest.raises(ConfigError, match=r"x\.yaml:2: site: |none\.yaml: there is no such file"):
            load_experiment(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("advise", "pods.yaml"), "'natjam compare pods.yaml OTHER.yaml' says"),
        (("play", "queues.yaml"), "'natjam run queues.yaml' runs Kueue's workloads"),
        (("play", "theirs.yaml"), "theirs.yaml: natjam import slurm has not written this file"),
        (("who", "queues.yaml", "x"), "natjam import kubernetes has not written this file, but natjam import kueue"),
        (("loops", "pods.yaml"), "natjam import kueue has not written this file, but natjam import kubernetes"),
    ],
)
def test_a_command_says_what_an_imported_file_is_for(
    arguments: tuple[str, ...], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_saved(Path("pods.yaml"), CLUSTER, ())
    write_saved(Path("queues.yaml"), read_kueue([OBJECTS.parents[1] / "kueue/objects"])[0], ())
    Path("theirs.yaml").write_text("name: theirs\n")
    done = run_natjam(*arguments, status=2)
    assert problem in done.output, done.output


def test_objects_become_an_experiment_with_the_names_of_their_nodes(tmp_path: Path) -> None:
    from workloads.kubernetes.cluster import read_kubernetes

    write_saved(tmp_path / "mine.yaml", read_kubernetes([OBJECTS]).cluster, ())
    found = load_experiment(tmp_path / "mine.yaml")
    assert found.cluster.node_names == ["control-1", "worker-1", "worker-2", "worker-3", "gpu-1"]
    assert found.cluster.suspended_hold == ("memory_gb", "nvidia.com/gpu")
    jobs = {job.name: job for job in found.workload.jobs or ()}
    assert jobs.keys() == {each.pod.name for each in read_saved(tmp_path / "mine.yaml", Kubernetes).arrivals}


def test_names_that_are_too_long_stay_different() -> None:
    long = [f"{'n' * 200}/{number}" for number in range(9)]
    assert short("short") == "short"
    assert len(set(map(short, long))) == 9
    assert {len(short(name)) for name in long} == {LONGEST_NAME}


def test_a_node_has_one_name(tmp_path: Path) -> None:
    text = dump_experiment(load_experiment("catalog:natjam-fig4"))
    (tmp_path / "x.yaml").write_text(text)
    groups = "[{count: 2, name: a, resources: {cpu: 8, memory_gb: 8}}]"
    with pytest.raises(ConfigError, match=re.escape("name: is of one node, not of 2")):
        load_experiment(tmp_path / "x.yaml", [f"cluster.node_groups={groups}"])
    groups = "[{count: 1, name: a, resources: {cpu: 8, memory_gb: 8}}, {count: 1, name: a, resources: {cpu: 1}}]"
    with pytest.raises(ConfigError, match="'a' is the name of another node"):
        load_experiment(tmp_path / "x.yaml", [f"cluster.node_groups={groups}"])


def test_an_imported_file_is_known_by_its_first_line(folder: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.yaml"
    write_saved(long, CLUSTER, [f"left out {number}" for number in range(20_000)])
    assert system_of(long) == "kubernetes"
    assert read_saved(long, Kubernetes) == CLUSTER
    played = [run_natjam("play", file).output.partition("cycles")[0] for file in (long, folder / "mine.yaml")]
    assert played[0] == played[1]
    assert system_of(tmp_path) is system_of(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("section", "command"),
    [("kubernetes", "who FILE x"), ("kueue", "loops FILE"), ("slurm", "play FILE"), ("kubernetes", "play FILE")]
    + [(section, f"{command} FILE") for section in ("kubernetes", "kueue", "slurm") for command in ("run", "advise")],
)
def test_a_file_of_an_earlier_version_is_refused_with_the_command_that_makes_it_anew(
    section: str, command: str, tmp_path: Path
) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(f"# Made by natjam import {section}.\nname: old\n{section}:\n  version: '1'\n  cluster: {{}}\n")
    done = run_natjam(*(str(old) if word == "FILE" else word for word in command.split()), status=2)
    refusal = (
        rf"old\.yaml:[234]: {section}: another natjam has imported it; import it again: natjam import {section} .*--out"
    )
    assert re.search(refusal, " ".join(done.output.split()))
