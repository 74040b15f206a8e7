"""``natjam advise``: what it compares, the rule by which it chooses, and traces without a cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import numpy
import pytest
from msgspec.structs import replace
from typer.testing import Result

from analysis.advise.candidates import Question, make_question
from analysis.advise.outcomes import CandidateResults
from analysis.advise.results import Candidate, CandidateResult
from analysis.advise.traces import experiment_of_trace
from analysis.advise.verdict import advice, judge, ratio_of, sentences, yarn_sentences
from analysis.frames import pandas
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.files.whole_files import held_directory
from emulator.files.yaml_values import dump_yaml
from emulator.live.dumpers.criu import CRIU_VARIABLE
from emulator.sites.basis import Basis, Gap
from tests.commands import invoked, run_natjam
from tests.experiment_files import VALID, write
from workloads.importers import guess_format
from workloads.importers.source import ignore

DATA = Path(__file__).resolve().parents[1] / "data"


def advise(*arguments: str | Path) -> Result:
    return invoked("advise", *arguments)


def question_of(trace: Path, out: Path, production: str | None = None) -> Question:
    """What the command asks about a trace."""
    out.mkdir()
    known = guess_format(trace)
    assert known is not None
    path, _, _ = experiment_of_trace(trace, known, {}, (), [1], out, ignore, production)
    return make_question(path, [], production)


def kept_advice(directory: Path) -> dict:
    return json.loads((directory / "advise.json").read_text())


# ---- the rule ----


def outcomes(*described: tuple[str, str, float, float, float, int]) -> CandidateResults:
    """Of (mechanism, policies, production s, others s, lost s, missed) each; two jobs of each kind, five seeds."""
    rows, jobs = [], []
    for mechanism, policies, production_s, others_s, lost_s, missed in described:
        one = Candidate({"mechanism": mechanism, "policies": policies})
        measures = {"deadlines": 10, "missed": missed, "lost_s": lost_s, "lost_share": lost_s / 1e5, "preempted": 100.0}
        rows.append(CandidateResult(one, measures))
        for seed in range(5):
            for name, is_production, mean_s in (("p", True, production_s), ("o", False, others_s)):
                for number, factor in enumerate((1, 10)):
                    noise = 1 + 0.001 * ((seed * 7 + number + len(rows)) % 5)
                    completion_s = mean_s * factor * noise
                    row = (one.name, seed, f"{name}{number}", is_production, completion_s)
                    jobs.append((*row, missed / 20, lost_s / 4))
    columns = ["candidate", "seed", "job", "is_production", "completion_s", "missed", "lost_work_s"]
    return CandidateResults(tuple(rows), pandas.DataFrame(jobs, columns=columns))


@pytest.mark.parametrize(
    ("described", "chosen", "reasons"),
    [
        pytest.param(
            [("wait", "-", 200, 100, 0, 0), ("kill", "a", 100, 130, 50, 0), ("suspend", "a", 101, 110, 0, 0)],
            "suspend-a",
            {"wait": "times", "kill": "times"},
            id="production counts three times, the others once",
        ),
        pytest.param(
            [("kill", "a", 100, 100, 50_000, 0), ("checkpoint", "a", 100, 100.5, 10, 0)],
            "checkpoint-a",
            {"kill": "work lost"},
            id="as good for all: the one that loses less",
        ),
        pytest.param(
            [("kill", "a", 100, 100, 50_000, 0), ("checkpoint", "a", 100.8, 100, 10, 0)],
            "kill-a",
            {"checkpoint": "times"},
            id="surely cheaper by less than a percent, though it loses more",
        ),
        pytest.param(
            [("suspend", "a", 100.15, 100, 10, 0), ("checkpoint", "a", 100, 100, 20, 0)],
            "checkpoint-a",
            {"suspend": "nothing"},
            id="a difference of work lost that is not shown is none: the cheaper one",
        ),
        pytest.param(
            [("kill", "a", 100, 90, 0, 3), ("checkpoint", "a", 100, 110, 0, 1)],
            "checkpoint-a",
            {"kill": "deadlines"},
            id="deadlines before the other jobs",
        ),
        pytest.param(
            [("wait", "-", 100, 100, 0, 0), ("kill", "a", 100, 100, 0, 0)],
            "wait",
            {"kill": "nothing"},
            id="nothing to choose: the first",
        ),
    ],
)
def test_the_rule(described: list[tuple[str, str, float, float, float, int]], chosen: str, reasons: dict) -> None:
    verdict = judge(outcomes(*described), 5)
    assert verdict is not None
    assert verdict.is_preferred == ("nothing" not in reasons.values())
    assert verdict.chosen.candidate.name == chosen
    assert {rival.outcome.candidate.mechanism: rival.reason for rival in verdict.rivals} == reasons
    assert all(rival.is_sure for rival in verdict.rivals if rival.reason == "times")
    first = next(sentences(verdict))
    assert first.startswith(f"Choose {chosen.partition('-')[0]}" if verdict.is_preferred else "No preference")


@pytest.mark.parametrize("seeds", [2, 5])
def test_there_is_no_preference_where_nothing_is_surely_better_than_waiting(seeds: int) -> None:
    found = outcomes(("wait", "-", 100, 100, 0, 0), ("kill", "a", 95, 100, 50, 0), ("suspend", "a", 90, 130, 0, 0))
    noisy = found.jobs["candidate"].ne("wait") * found.jobs["seed"].map({0: 0.5, 1: -0.5, 2: 0.4, 3: -0.4, 4: 0})
    jobs = found.jobs.assign(completion_s=found.jobs["completion_s"] * (1 + noisy))
    verdict = judge(CandidateResults(found.rows, jobs[jobs["seed"] < seeds]), seeds)
    assert verdict is not None
    assert not verdict.is_preferred
    said = list(sentences(verdict))
    assert said[0].startswith("No preference: ")
    assert not any("Choose" in line for line in said)
    widened = "  The intervals are 95% ones, widened (Bonferroni) so that all 2 comparisons hold together."
    assert (widened in said) == (seeds >= 3)
    (rival,) = [one for one in (verdict.itself, *verdict.rivals) if one.outcome.candidate.mechanism == "suspend"]
    assert rival.production_to_wait is not None
    assert (rival.production_to_wait.low is None) == (seeds < 3)


def test_waiting_is_chosen_only_where_all_else_is_surely_worse() -> None:
    worse = [("kill", "a", 150, 150, 50, 0), ("suspend", "a", 140, 150, 0, 0)]
    verdict = judge(outcomes(("wait", "-", 100, 100, 0, 0), *worse), 5)
    assert verdict is not None
    assert next(sentences(verdict)) == "Choose wait."
    alike = judge(outcomes(("wait", "-", 100, 100, 0, 0), *worse, ("checkpoint", "a", 100, 100, 0, 0)), 5)
    assert alike is not None
    assert not alike.is_preferred


def test_seeds_that_differ_widely_make_nothing_sure() -> None:
    few = ratio_of(numpy.log([0.8, 1.6, 0.9, 1.5, 1.2]), comparisons=5)
    many = ratio_of(numpy.log([0.8, 1.6, 0.9, 1.5, 1.2] * 20), comparisons=5)
    assert few is not None
    assert many is not None
    assert (few.is_apart, many.is_apart) == (False, True)
    assert few.mean == pytest.approx(many.mean)
    two = ratio_of(numpy.log([2.0, 2.0]))
    assert two is not None
    assert (two.mean, two.low) == (pytest.approx(2.0), None)


DECIDES = Basis(decides=(Gap("node affinity is not modelled: pods may be on wrong nodes", 3, "pods", "a: f.yaml:7"),))
NO_PREFERENCE = (
    "No preference: what decides at this site and is not modelled could change the order"
    " (node affinity is not modelled: pods may be on wrong nodes{})."
)


@pytest.mark.parametrize("yarn", [False, True])
@pytest.mark.parametrize(
    ("basis", "preempted", "text"),
    [
        pytest.param(Basis(), 10, None, id="enough"),
        pytest.param(
            Basis(), 9, ["Too few preemptions to tell: at most 9; below 10 no way is named best."], id="too few"
        ),
        pytest.param(DECIDES, 10, [NO_PREFERENCE.format("")], id="not modelled"),
        pytest.param(
            replace(DECIDES, decides=2 * DECIDES.decides), 10, [NO_PREFERENCE.format(", and 1 more")], id="two reasons"
        ),
        pytest.param(replace(DECIDES, decides=(), left_out=DECIDES.decides), 10, None, id="left out"),
    ],
)
def test_nothing_is_named_best_where_what_is_missing_may_decide(
    basis: Basis, preempted: int, text: list[str] | None, yarn: bool
) -> None:
    found = outcomes(("wait", "-", 200, 100, 0, 0), ("kill", "a", 100, 110, 0, 0), ("suspend", "a", 110, 120, 0, 0))
    rows = [
        dataclasses.replace(
            row,
            candidate=dataclasses.replace(row.candidate, properties=("a=1",) if yarn else None),
            measures={**row.measures, "preempted": preempted if row.candidate.mechanism == "suspend" else 0},
        )
        for row in found.rows
    ]
    found = CandidateResults(tuple(rows), found.jobs, basis)
    verdict = judge(found, 5)
    assert verdict is not None
    assert verdict.is_preferred == (text is None)
    told = [*advice(found, verdict)]
    assert told == text if text else "Choose kill: a." in told


# ---- what is compared ----


def test_every_mechanism_under_every_policy_and_waiting_once(tmp_path: Path) -> None:
    question = make_question(write(tmp_path, VALID.encode()), [], None)
    names = [one.name for one in question.candidates]
    assert len(set(names)) == len(names) == 1 + 5 * 3
    assert names.count("wait") == 1
    adaptive = next(one for one in question.candidates if one.mechanism == "adaptive")
    assert adaptive.overrides["scheduler.mechanism"]["among"] == ["kill", "suspend", "checkpoint", "image"]
    assert question.production == "production"
    assert question.variants(question.candidates, ["engine=sim"], [1])


def test_an_allocation_that_takes_nothing_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    text = VALID.replace("name: two-queue", "name: soft-cap").replace("mechanism: checkpoint", "mechanism: wait")
    question = make_question(write(tmp_path, text), [], "research")
    kill = next(one for one in question.candidates if one.mechanism == "kill")
    assert kill.overrides["scheduler.allocation"]["name"] == "two-queue"
    assert list(kill.overrides["scheduler.allocation"]["queues"]) == ["research", "production"]
    assert any("soft-cap takes nothing back" in line for line in question.assumed)


def test_two_at_once_do_not_share_a_directory(tmp_path: Path) -> None:
    with held_directory(tmp_path, "held by this test"):
        result = advise("catalog:natjam-fig4", "--overheads", "hadoop-0.23", "--seeds", "1", "--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"natjam: {tmp_path}: another natjam command is at work there; name another directory\n"
    assert [*tmp_path.iterdir()] == []


def test_one_queue_without_preemption_is_refused(tmp_path: Path) -> None:
    text = VALID.replace("name: two-queue", "name: soft-cap").replace("mechanism: checkpoint", "mechanism: wait")
    text = text.replace("      research: {capacity: 0.75, maximum: 1.0}\n", "").replace(
        "queue: research", "queue: production"
    )
    with pytest.raises(ConfigError, match="one queue under soft-cap"):
        make_question(write(tmp_path, text), [], None)
    with pytest.raises(ConfigError, match="no such queue"):
        make_question(write(tmp_path, VALID), [], "elsewhere")


def test_the_users_own_policies_are_compared_under_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "own_advice.py").write_text(
        "from emulator.policies.views import MechanismDecision\n"
        "from emulator.vocabulary import Mechanism\n"
        "def last(view, tasks, random):\n    return sorted((task.container for task in tasks), reverse=True)\n"
        "def gentle(view, task):\n    return MechanismDecision(Mechanism.SUSPEND)\n"
    )
    text = VALID.replace("task_eviction: srt", "task_eviction: own_advice:last")
    text = text.replace("mechanism: checkpoint", "mechanism: own_advice:gentle")
    question = make_question(write(tmp_path, text), [], None, ["mechanism=own_advice:other"])
    assert {one.mechanism for one in question.candidates} >= {"own_advice:gentle", "own_advice:other", "kill"}
    assert "mr, own_advice:last" in {one.policies for one in question.candidates}
    capped = text.replace("name: two-queue", "name: soft-cap").replace("own_advice:gentle", "wait")
    also = make_question(write(tmp_path, capped), [], None, ["task_eviction=own_advice:last"])
    assert {"mr, own_advice:last", "own_advice:last"} <= {one.policies for one in also.candidates}
    for wrong in ("task_eviction", "colour=mine:f"):
        with pytest.raises(ConfigError, match="write AXIS=MODULE:FUNCTION, with an axis of mechanism, job_eviction"):
            make_question(write(tmp_path, VALID), [], None, [wrong])


def test_yarn_is_first_told_what_it_can_set_itself(tmp_path: Path) -> None:
    off = "name: yarn-capacity\n    preemption: null"
    text = VALID.replace("name: two-queue", off).replace("mechanism: checkpoint", "mechanism: wait")
    question = make_question(write(tmp_path, text), [], None)
    by_name = {one.name: one for one in question.candidates}
    prefix = "yarn.resourcemanager.monitor.capacity.preemption."
    on = "yarn.resourcemanager.scheduler.monitor.enable=true"
    assert by_name["wait"].properties == ("yarn.resourcemanager.scheduler.monitor.enable=false",)
    assert by_name["kill-Hadoop-s-defaults"].properties == (on,)
    one = by_name["kill-natural_termination_factor-1.0"]
    assert one.properties == (on, f"{prefix}natural_termination_factor=1.0")
    assert one.overrides["scheduler.allocation.preemption"] == {"natural_termination_factor": 1}
    within = by_name["kill-within-queues"]
    assert within.overrides["scheduler.allocation.preemption"] == {"intra_queue": True}
    assert within.properties is not None
    assert within.properties[1] == f"{prefix}intra-queue-preemption.enabled=true"
    spared = by_name["kill-production-is-spared"]
    assert spared.overrides["scheduler.allocation.disable_preemption"] == ["production"]
    assert spared.properties == (on, "yarn.scheduler.capacity.root.production.disable_preemption=true")
    assert question.first == {one.name for one in question.candidates if one.properties is not None}
    assert by_name["kill-two-queue-mr-srt"].properties is None
    assert by_name["suspend-YARN-at-its-quickest"].properties is None
    assert question.variants(question.candidates, ["engine=sim"], [1])
    found = outcomes(("wait", "-", 200, 100, 0, 0), ("kill", "quick", 100, 110, 0, 0))
    verdict = judge(
        CandidateResults(
            tuple(
                dataclasses.replace(row, candidate=dataclasses.replace(row.candidate, properties=("a=1",)))
                for row in found.rows
            ),
            found.jobs,
        ),
        5,
    )
    assert verdict is not None
    assert list(yarn_sentences(verdict)) == ["With YARN as it is: quick; in its files", "    a=1"]


@pytest.mark.parametrize("preempts", [True, False])
def test_the_fair_scheduler_has_its_own_settings(tmp_path: Path, preempts: bool) -> None:
    timeout, threshold = "defaultFairSharePreemptionTimeout=1", "defaultFairSharePreemptionThreshold=1.0"
    on, off = (f"yarn.scheduler.fair.preemption={value}" for value in ("true", "false"))
    wait = "yarn.scheduler.fair.waitTimeBeforeKill=1000"
    fair = {"root": {"fair": {"fair_share_preemption_timeout_s": 60}}, "prod": {"fair": {"weight": 3}}}
    allocation = {
        "name": "yarn-capacity",
        "queues": {"prod": {"capacity": 0.75}, "adhoc": {"capacity": 0.25}},
        "preemption": {"interval_s": 0.5} if preempts else None,
        "settings": fair,
    }
    jobs = [{"name": name, "queue": name, "reduces": 2, "reduce_s": 5, "key_s": 1} for name in ("prod", "adhoc")]
    experiment = {
        "name": "fair",
        "cluster": {"nodes": 1, "containers_per_node": 3},
        "scheduler": {
            "allocation": allocation,
            "job_selection": "priority",
            "mechanism": "kill" if preempts else "wait",
        },
        "workload": {"jobs": jobs},
    }
    path = tmp_path / "fair.yaml"
    path.write_text(dump_yaml(experiment))
    question = make_question(path, [], "prod")
    settable = {one.policies: one.properties for one in question.candidates if one.properties is not None}
    given = () if preempts else (on,)
    assert settable == {
        "-": (off,),
        **({"as configured": ()} if preempts else {}),
        timeout: (*given, timeout),
        "YARN at its quickest": (*given, timeout, threshold, wait),
        threshold: (threshold,) if preempts else (on, timeout, threshold),
        "waitTimeBeforeKill=1000": (wait,) if preempts else (on, timeout, wait),
    }
    quickest = next(one for one in question.candidates if one.policies == "YARN at its quickest")
    of_root = quickest.overrides["scheduler.allocation.settings"]["root"]["fair"]
    assert of_root == {"fair_share_preemption_timeout_s": 1.0, "fair_share_preemption_threshold": 1.0}
    assert question.variants(question.candidates, ["engine=sim"], [1])


# ---- the command ----


def test_kill_is_not_chosen_where_it_loses_all_the_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = advise(write(tmp_path, VALID), "--seeds", "3", "--out", out)
    assert result.exit_code == 0, result.output
    found = kept_advice(out)
    rows = {row["name"]: row for row in found["candidates"]}
    assert rows["wait"]["production_p50_s"] > rows["checkpoint-mr-srt"]["production_p50_s"]
    assert rows["kill-mr-srt"]["lost_s"] > 0 == rows["suspend-mr-srt"]["lost_s"]
    assert next(rival for rival in found["rivals"] if rival["name"] == "wait")["reason"] == "times"
    assert found["chosen"].partition("-")[0] in ("suspend", "checkpoint", "adaptive")
    assert result.output.index("cluster: 6 nodes, 48 containers") < result.output.index("what the rule decides by")
    assert f"Choose {found['chosen'].partition('-')[0]}: most resources (mr), " in result.output
    assert re.search(r"│ kill +│ most resources \(mr\) +│", result.output)
    assert "  suspend: SIGTSTP and SIGCONT: the process stays in memory on its node." in result.output
    assert (out / "advise.png").stat().st_size > 10_000
    again = advise(write(tmp_path, VALID), "--seeds", "3", "--out", out, "--json")
    assert json.loads(again.stdout) == found
    assert "0 of 48" not in again.stderr


def test_an_answer_within_some_time_is_of_the_seeds_that_are_made(tmp_path: Path) -> None:
    result = advise(write(tmp_path, VALID), "--seeds", "200", "--seconds", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    found = kept_advice(tmp_path / "out")
    said = re.fullmatch(
        r"This is of (\d+) of 16 choices, and (\d+) of 200 seeds: more time may change it \(--seconds\).",
        found["text"][0],
    )
    assert said
    choices, seeds = map(int, said.groups())
    assert choices == len(found["candidates"])
    assert 3 <= seeds < 200
    assert {row["runs"] for row in found["candidates"]} == {seeds}
    assert {"wait", "kill-mr-srt", "suspend-mr-srt"} <= {row["name"] for row in found["candidates"]}


def test_what_an_experiment_rests_on_is_said_first(tmp_path: Path) -> None:
    gap = {"reason": "user limits are not modelled", "number": 2, "kind": "queues", "example": "a: c.xml:3"}
    file = write(tmp_path, VALID + f"basis: {json.dumps({'decides': [gap]})}\n")
    refused = advise(file, "--seeds", "1", "--out", tmp_path / "out", "--strict")
    assert (refused.exit_code, "--strict: the lines above" in refused.stderr) == (1, True)
    assert not (tmp_path / "out/simulated").exists()
    first = "decides at this site and is not modelled, so the site may act otherwise:\n  2 queues: user limits are not"
    for as_json in ((), ("--json",)):
        result = advise(file, "--seeds", "1", "--out", tmp_path / "out", *as_json)
        assert result.exit_code == 0, result.output
        assert (result.stderr if as_json else result.stdout).startswith(first)
        assert as_json or "No preference: what decides" in result.stdout
    found = kept_advice(tmp_path / "out")
    assert found["basis"]["decides"] == [gap]
    assert (found["chosen"], found["text"][0]) == (
        None,
        "No preference: what decides at this site and is not modelled could change the order"
        " (user limits are not modelled).",
    )


def test_a_trace_gets_a_cluster_on_which_it_fits(tmp_path: Path) -> None:
    question = question_of(DATA / "hadoop" / "2jobs2min-rumen-jh.json.gz", tmp_path / "out")
    assert len(question.candidates) == 16
    text = question.path.read_text()
    assert "load: null" in text  # it is too small to offer more
    assert "window_s" not in text  # all of it: it is shorter than an hour


def test_the_first_hour_of_a_trace_is_counted_from_its_first_submission(tmp_path: Path) -> None:
    rows = [f"{n} {100_000 + 700 * n} 0 600 4 -1 -1 4 600 -1 1 1 1 1 1 1 -1 -1" for n in range(1, 11)]
    (tmp_path / "late.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    found = advise(tmp_path / "late.swf", "--seeds", "1", "--seconds", "1", "--out", tmp_path / "out")
    assert "6 of the 10 jobs of late.swf, those submitted in its seconds 100,700 to 104,300" in found.output


def test_a_traces_own_queues_are_kept(tmp_path: Path) -> None:
    rows = [f"{60 * n},{30 if n % 3 else 300},{4 if n % 3 else 20},{'short' if n % 3 else 'long'}" for n in range(6)]
    (tmp_path / "jobs.csv").write_text("submit,length,tasks,queue\n" + "\n".join(rows) + "\n")
    result = advise(tmp_path / "jobs.csv", "--seeds", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    found = kept_advice(tmp_path / "out")
    assert (found["production"], found["queues"]) == ("short", ["short", "long"])
    assert found["chosen"] is None, "one seed is sure of nothing"
    assert found["assumed"][0] == "all 6 jobs of jobs.csv, with 56 tasks"
    for said in (
        "all 6 jobs of jobs.csv, with 56 tasks",
        "the queues are the trace's own, each guaranteed its share of the work; 'short' is urgent: its jobs",
        "queues, with what each is guaranteed: short 4%, long 96%",
        "No preference: nothing is sure with fewer than 3 seeds",
    ):
        assert said in result.output
    assert question_of(tmp_path / "jobs.csv", tmp_path / "other", "long").queues == ("long", "short")


def test_the_experiment_that_is_kept_gives_the_same_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        f"{100 * n},{30 if n % 3 else 300},{4 if n % 3 else 20},{'short' if n % 3 else 'production'}" for n in range(9)
    ]
    (tmp_path / "jobs.csv").write_text("submit,length,tasks,queue\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    settings = ("workload.trace.window_s=[200, 700]", "cluster.nodes=7", "seed=3", "scheduler.mechanism=kill")
    given = [word for setting in settings for word in ("--set", setting)]
    first = advise(tmp_path / "jobs.csv", "--seeds", "2", "--production", "short", *given, "--out", out)
    assert first.exit_code == 0, first.output
    assert "5 of the 9 jobs of jobs.csv, those submitted in its seconds 200 to 700" in first.output
    command = (out / "experiment.yaml").read_text().splitlines()[1].partition("by: natjam ")[2]
    monkeypatch.chdir(out)
    again = invoked(*command.split(), "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    before, after = kept_advice(out), kept_advice(tmp_path / "again")
    assert len(before.pop("assumed")) > len(after.pop("assumed")), "the trace was cut before"
    assert after == before
    assert "short" in before["queues"][0]


def test_the_rigid_jobs_of_a_trace_become_gangs_on_a_cluster_that_holds_them(tmp_path: Path) -> None:
    rows = [(1, 0, 60, 100), (2, 1800, 60, 1), (3, 3000, 30, 4)]
    swf = tmp_path / "site.swf"
    swf.write_text("".join(f"{job} {at} 0 {length} {n}{' -1' * 5} 1{' -1' * 7}\n" for job, at, length, n in rows))
    result = advise(swf, "--seeds", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "each job of several tasks, once scaled, is a gang" in result.output
    assert "independent tasks" not in result.output
    file = tmp_path / "out" / "experiment.yaml"
    experiment = load_experiment(file)
    assert experiment.workload.trace is not None
    assert experiment.workload.trace.gangs
    assert experiment.workload.trace.load is None  # too small to offer more
    assert (experiment.cluster.nodes, experiment.cluster.application_masters) == (12, "outside")
    assert [job.facts.gang for job in expand(experiment, 1)] == [100, None, 4]
    ran = invoked("run", file, "--out", tmp_path / "run")
    assert ran.exit_code == 0, ran.output
    assert "independent tasks" not in ran.stderr
    by_shares = advise(swf, "--set", "scheduler.allocation.name=fair", "--out", tmp_path / "shares")
    assert by_shares.exit_code == 2
    assert "which no gang can use; choose two-queue, or set gangs: false" in by_shares.stderr


def test_what_a_trace_says_and_the_question_leaves_out_is_said(tmp_path: Path) -> None:
    swf, table = tmp_path / "site.swf", tmp_path / "jobs.csv"
    swf.write_text("".join(f"{job} {job} 0 600 8{' -1' * 5} 1{' -1' * 7}\n" for job in range(500)))
    table.write_text("submit,length,gpu\n0,100,1\n50,100,0\n")
    for trace, format, said in (
        (swf, "swf", "of the 500 jobs of several tasks have one task once scaled, and are no gangs"),
        (table, "table", "processors and GPUs that tasks ask for are not looked at: all containers have one size"),
    ):
        out = tmp_path / format
        out.mkdir()
        columns = {"submit": "submit", "length": "length", "gpu": "gpu"} if format == "table" else {}
        _, _, notes = experiment_of_trace(trace, format, columns, (), [1], out, ignore)
        assert any(said in note for note in notes), notes


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("hadoop/5-of-19-jobs.trace.json.gz", "rumen"),
        ("hadoop/2jobs2min-rumen-jh.json.gz", "rumen"),
        ("hadoop/inputsls.json", "sls"),
        ("hadoop/syn.json", "synth"),
        ("hadoop/yarn/apps.json", "yarn"),
        ("google-2011", "google"),
        ("made-up.swf", "swf"),
        ("PROVENANCE.md", None),
    ],
)
def test_the_format_of_a_trace_is_guessed(name: str, format: str | None, tmp_path: Path) -> None:
    assert guess_format(DATA / name) == format
    if name.endswith(".json.gz"):
        shutil.copy(DATA / name, tmp_path / "renamed.json")  # packed all the same
        assert guess_format(tmp_path / "renamed.json") == format


def test_what_is_no_trace_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    for arguments, said in (
        ((tmp_path / "none.json",), "there is no such file"),
        ((tmp_path / "a.json",), "its format is not clear from name or content"),
        ((tmp_path / "a.json", "--format", "rumen"), "a.json"),
    ):
        result = advise(*arguments, "--out", tmp_path / "out")
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert not (tmp_path / "out").exists()


def test_a_trace_that_is_not_there_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    result = advise(tmp_path / "none.csv", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"natjam: {tmp_path / 'none.csv'}: there is no such file\n")
    assert [*tmp_path.iterdir()] == []


def test_results_of_something_else_are_not_mixed_with_advice(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("mine")
    result = advise("catalog:natjam-fig4", "--overheads", "hadoop-0.23", "--seeds", "1", "--out", tmp_path)
    assert (result.exit_code, "is neither empty nor a directory of natjam advise" in result.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.yaml"]


@pytest.mark.parametrize("has_criu", [False, True])
def test_of_programs_only_what_works_is_compared_and_the_rest_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_criu: bool
) -> None:
    if has_criu and os.geteuid():
        pytest.skip("criu needs root")
    if has_criu:
        (tmp_path / "criu").write_text("#!/bin/sh\necho Version: 4.1\n")
        (tmp_path / "criu").chmod(0o700)
    monkeypatch.setenv(CRIU_VARIABLE, str(tmp_path / "criu"))
    run_natjam("init", tmp_path / "mine", "--program")
    result = run_natjam("advise", tmp_path / "mine" / "experiment.yaml", "--seeds", "2", "--out", tmp_path / "out")
    said = " ".join(result.stdout.split())
    assert "not compared: checkpoint: a program has no keys to save" in said
    assert ("not compared: image: programs are saved by criu: " in said) != has_criu
    assert "2 jobs, 2 program tasks" in said
    facts = kept_advice(tmp_path / "out")
    compared = {one["mechanism"] for one in facts["candidates"]}
    assert compared == {"wait", "kill", "suspend", "adaptive"} | ({"image"} if has_criu else set())
    assert set(facts["left_out"]) == {"checkpoint"} | (set() if has_criu else {"image"})
    assert not any("process images go" in each for each in facts["assumed"])
