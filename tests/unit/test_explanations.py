"""Why containers were taken: what machines write of it into the journal, and the table that becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manager_bench import Bench
from simulated import make_settings

from analysis.frames import DataFrame
from analysis.load import load_decisions
from emulator.core.effects import Effect, ExplainJobEviction, ExplainTaskEviction
from emulator.core.explanation import CANDIDATES_SHOWN, JobChoice, explain_jobs, explain_tasks
from emulator.core.messages import Ask
from emulator.policies.axes import JOB_EVICTION, TASK_EVICTION
from emulator.vocabulary import REDUCE
from tests.simulated_runs import simulate
from tests.views import job_view, task_view

MR = JOB_EVICTION.by_name["mr"]

# ---- what is written ----


def job_choices(containers: Iterable[int], *victims: tuple[str, int]) -> list[JobChoice]:
    """Choices of (requester, number of the victim), each from what the ones before have left."""
    left, choices = list(containers), []
    for requester, victim in victims:
        jobs = tuple(job_view(f"job-{i}", n, i, reclaimable=n - 1) for i, n in enumerate(left))
        choices.append(JobChoice(requester, "research", f"job-{victim}", 5, jobs))
        left[victim] -= 1
    return choices


def test_choices_for_one_job_are_explained_together() -> None:
    effects = explain_jobs(MR, job_choices((5, 4), ("p", 0), ("p", 1), ("p", 0), ("q", 1)))
    first, second = effects
    assert isinstance(first, ExplainJobEviction)
    assert isinstance(second, ExplainJobEviction)
    assert (first.requester, first.victims) == ("p", ("job-0", "job-1", "job-0"))
    assert [(job.name, job.containers) for job in first.candidates] == [("job-0", 5), ("job-1", 4)]
    assert (second.requester, second.victims, second.left_out) == ("q", ("job-1",), 0)
    assert [(job.name, job.containers) for job in second.candidates] == [("job-0", 3), ("job-1", 3)]


@given(st.lists(st.integers(2, 99), min_size=1, max_size=60), st.data())
def test_the_next_in_line_and_the_victims_are_shown_and_the_others_counted(
    containers: list[int], data: st.DataObject
) -> None:
    victims = data.draw(st.lists(st.integers(0, len(containers) - 1), min_size=1, max_size=5))
    (why,) = explain_jobs(MR, job_choices(containers, *(("p", victim) for victim in victims)))
    assert isinstance(why, ExplainJobEviction)
    shown = {job.name for job in why.candidates}
    assert len(shown) == len(why.candidates)
    assert shown >= {f"job-{victim}" for victim in victims}
    assert len(shown) + why.left_out == len(containers)
    insufficient = [job.containers for job in why.candidates if job.name not in why.victims]
    assert len(insufficient) <= CANDIDATES_SHOWN
    assert sorted(containers, reverse=True)[0] in [job.containers for job in why.candidates]
    if why.left_out:
        assert len(shown) >= CANDIDATES_SHOWN


def test_tasks_are_shown_in_the_order_of_the_rule() -> None:
    tasks = tuple(task_view(i, 100 - i) for i in range(40))
    order = [f"c{i}" for i in reversed(range(40))]
    why = explain_tasks("srt", "j", tasks, order, victims=3)
    assert [task.container for task in why.candidates] == order[: 3 + CANDIDATES_SHOWN]
    assert (why.job, why.rule, why.victims, why.left_out) == ("j", "srt", 3, 40 - 3 - CANDIDATES_SHOWN)


def test_every_eviction_of_ours_says_what_it_goes_by() -> None:
    assert all(policy.score is not None for policy in JOB_EVICTION.policies)
    assert all((policy.score is None) == policy.draws for policy in TASK_EVICTION.policies)


def test_the_resource_manager_explains_a_kill() -> None:
    bench = Bench(make_settings(containers=6))
    bench.running_job("a", Ask(((REDUCE, 4),)))
    bench.submit("p", "production")
    bench.node()
    bench.ask("p", Ask(((REDUCE, 2),)))
    explained: list[Effect] = []
    for _ in range(20):
        explained += [effect for effect in bench.tick() if isinstance(effect, ExplainJobEviction | ExplainTaskEviction)]
    asked, *kills = explained
    assert isinstance(asked, ExplainJobEviction)
    assert asked.victims == ("a", "a")
    assert [(why.victims, len(why.candidates)) for why in kills if isinstance(why, ExplainTaskEviction)] == [
        (1, 4),
        (1, 3),
    ]


# ---- the table ----


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("runs"), "fig4")


@pytest.fixture(scope="module")
def decisions(run: Path) -> DataFrame:
    return load_decisions(run)


def test_victims_come_first_by_the_score_of_the_rule(decisions: DataFrame) -> None:
    tasks = decisions[decisions["by"] == "releaser"]
    assert set(tasks["rule"]) == {"srt"}
    assert set(tasks["score_name"]) == {"remaining_s"}
    for _, candidates in tasks.groupby("decision"):
        assert candidates["score"].is_monotonic_increasing
        assert candidates["chosen"].is_monotonic_decreasing
        assert candidates["place"].tolist() == list(range(1, len(candidates) + 1))
        assert candidates["chosen"].sum() + CANDIDATES_SHOWN == len(candidates)
        assert len(candidates) + candidates["left_out"].iloc[0] <= 47


def test_scores_of_other_rules(tmp_path: Path) -> None:
    scheduler = ("scheduler.job_eviction=mdf", "scheduler.task_eviction=random", "scheduler.mechanism=kill")
    found = load_decisions(simulate(tmp_path, "mdf", *scheduler, "workload.jobs.0.deadline_s=500"))
    jobs = found[found["by"] == "preemptor"]
    assert set(zip(jobs["score_name"], jobs["score"], strict=True)) == {("deadline_s", 500.0)}
    assert ((jobs["deadline_s"] - jobs["t_s"] - jobs["remaining_s"].fillna(0) - jobs["laxity_s"]).abs() < 1e-6).all()
    tasks = found[found["by"] == "releaser"]
    assert tasks["score"].tolist() == tasks["place"].tolist()
    assert set(tasks["score_name"]) == {"drawn_place"}


def test_a_run_without_evictions_has_an_empty_table(tmp_path: Path) -> None:
    found = load_decisions(simulate(tmp_path, "wait", "scheduler.mechanism=wait"))
    assert len(found) == 0
    assert {"run", "repeat", "decision", "by", "rule", "attempt", "chosen", "score"} <= set(found.columns)
