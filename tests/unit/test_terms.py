"""The terms of evictions, by job or queue: a grace, a minimum runtime, and saving by itself; simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_files import refusal, write
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from simulated import make_job, make_settings, run_checked

from analysis.evictions import evictions
from emulator.chaos.faulty_cluster import BadNetwork
from emulator.core.effects import ExplainTaskEviction, Kill, Terminate
from emulator.core.messages import Outcome
from emulator.core.resource_manager.contracts import Preemptor
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.history import History
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from emulator.vocabulary import SECOND_NS
from tests.commands import invoked
from tests.examples import drawn
from tests.simulated_runs import simulate

FULL = """\
name: terms
engine: sim
overheads: none
cluster: {nodes: 1, containers_per_node: 3, application_masters: outside}
scheduler:
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.5}, research: {capacity: 0.5}}
  mechanism: kill
workload:
  jobs:
  - {name: r, queue: research, reduces: 3, reduce_s: 60}
  - {name: p, queue: production, submit_s: 10, reduces: 2, reduce_s: 10}
"""
RESEARCH = "scheduler.allocation.queues.research"


def history_of(tmp_path: Path, *overrides: str, text: str = FULL) -> History:
    experiment = load_experiment(write(tmp_path, text), overrides)
    return simulated_history(resolve(experiment, expand(experiment, 1)))


def victims(history: History) -> list[tuple[float, float, float]]:
    """Of each attempt of r that was killed: its seconds of work, of lost work, and from SIGTERM to its end."""
    return [
        (
            row.active_ns / SECOND_NS,
            row.lost_ns / SECOND_NS,
            0 if row.terminated_ns is None else ((row.ended_ns or 0) - row.terminated_ns) / SECOND_NS,
        )
        for row in history.attempts
        if row.job == "r" and row.outcome is Outcome.KILLED
    ]


def test_without_terms_victims_are_killed_at_once_and_lose_all(tmp_path: Path) -> None:
    killed = victims(history_of(tmp_path))
    assert len(killed) == 2
    assert all(lost_s == active_s < 15 and not grace_s for active_s, lost_s, grace_s in killed)


def test_a_victim_works_on_in_its_grace_and_is_killed_at_its_end(tmp_path: Path) -> None:
    before, after = victims(history_of(tmp_path)), victims(history_of(tmp_path, f"{RESEARCH}.grace_s=5"))
    assert [grace_s for _, _, grace_s in after] == [5, 5]
    assert [active_s for active_s, _, _ in after] == [active_s + 5 for active_s, _, _ in before]


def test_a_victim_that_ends_in_its_grace_has_succeeded(tmp_path: Path) -> None:
    history = history_of(tmp_path, f"{RESEARCH}.grace_s=100")
    rows = [row for row in history.attempts if row.job == "r" and row.kind == "reduce"]
    assert [row.outcome for row in rows] == [Outcome.SUCCEEDED] * 3
    assert sum(row.terminated_ns is not None for row in rows) == 2
    assert history.jobs[0].kills == 0


def test_what_a_job_says_counts_instead_of_what_its_queue_says(tmp_path: Path) -> None:
    text = FULL.replace("reduce_s: 60}", "reduce_s: 60, grace_s: 0, minimum_runtime_s: 15}")
    killed = victims(history_of(tmp_path, f"{RESEARCH}.grace_s=5", f"{RESEARCH}.minimum_runtime_s=40", text=text))
    assert len(killed) == 2
    assert all(not grace_s and 14 < active_s < 17 for active_s, _, grace_s in killed)


def test_each_victim_is_taken_as_its_job_or_its_queue_says(tmp_path: Path) -> None:
    def taken(*overrides: str, text: str = FULL) -> set[tuple[str, Outcome | None, int]]:
        rows = history_of(tmp_path, *overrides, text=text).attempts
        return {(row.job, row.outcome, len(row.suspended_spans)) for row in rows if row.kind == "reduce"}

    killed, kept, done = ("r", Outcome.KILLED, 0), ("r", Outcome.SUCCEEDED, 1), ("p", Outcome.SUCCEEDED, 0)
    rest = ("r", Outcome.SUCCEEDED, 0)
    assert taken() == {killed, rest, done}
    assert taken(f"{RESEARCH}.mechanism=suspend") == {kept, rest, done}
    text = FULL.replace("reduce_s: 60}", "reduce_s: 60, mechanism: kill}")
    assert taken(f"{RESEARCH}.mechanism=suspend", text=text) == {killed, rest, done}
    assert "images need a storage device" in refusal(write(tmp_path, FULL.replace("60}", "60, mechanism: image}")))
    waits = FULL.replace("  mechanism: kill", "  mechanism: wait")
    for said, where in (
        (waits.replace("research: {", "research: {mechanism: kill, "), f"{RESEARCH}.mechanism: nothing is taken back"),
        (waits.replace("60}", "60, mechanism: kill}"), "workload.jobs.0.mechanism: nothing is taken back"),
    ):
        assert where in refusal(write(tmp_path, said))


YARN = """yarn-capacity
    preemption: {total_preemption_per_round: 1.0, natural_termination_factor: 1.0, max_wait_before_kill_s: 2}"""


@pytest.mark.parametrize("allocation", ["two-queue", YARN, "fair"])
def test_no_task_is_a_victim_before_its_minimum(tmp_path: Path, allocation: str) -> None:
    text = FULL.replace("name: two-queue", f"name: {allocation}")
    text = text.replace("containers_per_node: 3", "containers_per_node: 8").replace("reduces: 3", "reduces: 8")
    at_once = victims(history_of(tmp_path, text=text))
    later = victims(history_of(tmp_path, f"{RESEARCH}.minimum_runtime_s=30", text=text))
    assert at_once
    assert later
    assert min(active_s for active_s, _, _ in at_once) < 29
    assert min(active_s for active_s, _, _ in later) > 28  # the ResourceManager counts from when it gave the container


def test_only_work_since_the_last_save_is_lost_and_the_next_attempt_goes_on_from_there(tmp_path: Path) -> None:
    history = history_of(tmp_path, f"{RESEARCH}.checkpoint_period_s=7", f"{RESEARCH}.minimum_runtime_s=25")
    killed = victims(history)
    assert len(killed) == 2
    assert [active_s - lost_s for active_s, lost_s, _ in killed] == [21, 21]
    later = [row for row in history.attempts if row.job == "r" and row.keys_start]
    assert [(row.keys_start, row.keys_done) for row in later] == [(21, 60), (21, 60)]
    assert history.jobs[0].useful_ns == 180 * SECOND_NS


def test_a_program_finds_what_it_has_saved_and_ends_at_sigterm(tmp_path: Path) -> None:
    programs = "tasks: {command: ['true'], count: 3, length_s: 60}"
    text = FULL.replace("reduces: 3, reduce_s: 60", programs)
    terms = (f"{RESEARCH}.grace_s=5", f"{RESEARCH}.checkpoint_period_s=4", f"{RESEARCH}.minimum_runtime_s=15")
    history = history_of(tmp_path, *terms, text=text)
    killed = victims(history)
    assert [(active_s - lost_s, grace_s) for active_s, lost_s, grace_s in killed] == [(16, 0), (16, 0)]
    worked = [row.active_ns for row in history.attempts if row.job == "r" and row.outcome is Outcome.SUCCEEDED]
    assert sorted(worked) == [44 * SECOND_NS, 44 * SECOND_NS, 60 * SECOND_NS]


def test_a_job_has_its_grace_beside_the_kill_timeout() -> None:
    preemptor = Preemptor(make_settings(kill_timeout_s=12))
    preemptor.ask("p", "patient", 0, grace_ns=20 * SECOND_NS)
    preemptor.ask("p", "other", SECOND_NS)
    killed: list[str] = []
    for now_s in range(40):
        preemptor.expire(now_s * SECOND_NS, lambda entry, at_s=now_s: killed.append(f"{entry.victim} {at_s}") or True)
    assert killed == ["other 13", "patient 32"]


@given(
    st.sampled_from(("kill", "suspend", "checkpoint")),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from((None, 3, 8)),
    st.sampled_from((None, 2, 3)),
    st.integers(0, 10**6),
    st.booleans(),
)
@drawn
def test_terms_hold_whatever_gets_lost(
    mechanism: str, grace_s: int, minimum_s: int, period_s: int | None, gang: int | None, seed: int, faulty: bool
) -> None:
    job = make_job("r", maps_s=(5.0,), reduces_s=(40.0, 40.0, 30.0), gang=gang)
    terms = {"grace_ns": grace_s * SECOND_NS, "minimum_runtime_ns": minimum_s * SECOND_NS}
    saves = {"checkpoint_period_ns": None if period_s is None else period_s * SECOND_NS}
    job = structs.replace(job, facts=structs.replace(job.facts, **terms, **saves))
    urgent = [make_job(f"p{n}", "production", 10.0 + 30 * n, reduces_s=(5.0, 5.0, 5.0)) for n in range(3)]
    made = make_settings(nodes=2, containers=3, mechanism=mechanism, seed=seed)
    network = BadNetwork(seed, 15, 15, 4 * SECOND_NS) if faulty else None
    cluster = run_checked(made, (job, *urgent), bad_network=network, may_be_endless=mechanism == "kill")
    reported_ns: dict[str, int] = {}
    for record in cluster.records:
        for effect in record.effects:
            if isinstance(effect, Terminate):
                reported_ns[effect.container] = record.t_ns
            elif isinstance(effect, Kill) and effect.container in reported_ns and not faulty:
                assert record.t_ns - reported_ns[effect.container] == grace_s * SECOND_NS
            elif isinstance(effect, ExplainTaskEviction) and record.actor.startswith("am:") and gang is None:
                victims = effect.candidates[: effect.victims]
                assert all(record.t_ns - task.started_ns >= minimum_s * SECOND_NS for task in victims)


def test_what_is_written_wrongly_is_refused_with_its_place(tmp_path: Path) -> None:
    below = refusal(write(tmp_path, FULL), f"{RESEARCH}.grace_s=-1")
    assert "grace_s" in below
    store = refusal(write(tmp_path, FULL), f"{RESEARCH}.checkpoint_period_s=5", "storage.url=s3://bucket/runs")
    assert "scheduler.allocation.queues.research.checkpoint_period_s" in store
    assert "set storage.url to a path" in store


def test_explain_says_when_a_victim_was_told_and_what_it_had_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = [f"{RESEARCH}.{term}" for term in ("grace_s=5", "checkpoint_period_s=7", "minimum_runtime_s=25")]
    run = simulate(tmp_path, "run", "overheads=none", *terms, file=write(tmp_path, FULL))
    found = evictions(run)
    assert len(found) == 2
    for eviction in found:
        assert eviction.terminated_s is not None
        assert eviction.saved_s is not None
        assert eviction.freed_s is not None
        assert eviction.freed_s >= eviction.terminated_s + 5
    monkeypatch.setenv("COLUMNS", "250")
    said = invoked("explain", run).output
    assert "SIGTERM at" in said
    assert "saved at" in said
