"""``natjam advise`` for an imported cluster with Kueue: what a minimum runtime means for days like its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_kueue import SECOND_NS, queue, workload

from analysis.advise.results import CandidateResult
from analysis.advise.sites import DAYS, SiteQuestion, drawn, kueue_question
from emulator.intervals import Spread
from emulator.sites.basis import Basis, Gap
from emulator.sites.kueue import Arrival, Cluster, Kueue, Policy, Preemption
from tests.advice import played
from tests.commands import invoked, run_natjam
from workloads.saved import write_saved

ONE_QUEUE = Cluster((queue("q", 4000, Preemption(within_queue=Policy.LOWER_PRIORITY)),))
"""Every urgent workload finds the whole quota taken by another one, which it may preempt."""


def arrivals() -> list[Arrival]:
    low = [Arrival(workload(f"low-{n}", "q", 4000, 0, 1000 * n), 600 * SECOND_NS) for n in range(10)]
    high = [Arrival(workload(f"high-{n}", "q", 4000, 10, 1000 * n + 200), 60 * SECOND_NS) for n in range(10)]
    return sorted([*low, *high], key=lambda each: each.workload.created_ns)


def asked(day: list[Arrival]) -> SiteQuestion:
    return kueue_question(Path("site.yaml"), Kueue(ONE_QUEUE, arrivals=tuple(day)))


def said(day: list[Arrival]) -> list[str]:
    question = asked(day)
    return [*question.words(question.results(played(question))[0])]


def mean(found: CandidateResult, key: str) -> float:
    value = found.value(key)
    assert value is not None
    return value


def test_what_a_minimum_runtime_means() -> None:
    question = asked(arrivals())
    results, days = question.results(played(question))
    found = {each.candidate.mechanism: each for each in results}
    assert list(found) == ["no preemption", "0", "1 min", "5 min", "15 min", "1 h"]
    assert days == DAYS
    never, at_once, minute = found["no preemption"], found["0"], found["1 min"]
    assert (mean(never, "evictions"), mean(never, "lost_pod_h")) == (0, 0)
    assert mean(found["1 h"], "evictions") == 0, "all end before"
    assert found["1 h"].measures["urgent_wait_s"] == never.measures["urgent_wait_s"], (
        "the time that is over wakes nobody"
    )
    waits = [mean(each, "urgent_wait_s") for each in (at_once, minute, found["5 min"], never)]
    assert waits == sorted(waits), waits
    assert waits[0] < waits[-1]
    evictions = at_once.measures["evictions"]
    assert isinstance(evictions, Spread)
    assert evictions.mean > 0
    assert evictions.low is not None
    assert evictions.low < evictions.mean
    assert {each.value("loops") for each in found.values()} == {0}


def test_a_first_answer_is_of_some_days_and_ways_that_can_be_compared() -> None:
    question = asked(arrivals())
    whole = played(question)
    assert question.results({}) == ([], 0)
    first = {pair: whole[pair] for pair in whole if pair[0] in question.first and pair[1] < 3}
    less = {pair: first[pair] for pair in list(first)[:-1]}
    assert question.results(less) == ([], 0)
    more = {**first, ("5-min", 0): whole["5-min", 0], ("0", 3): whole["0", 3]}
    found, days = question.results(more)
    assert ([each.candidate.mechanism for each in found], days) == (["no preemption", "0", "1 h"], 3)
    more |= {("5-min", day): whole["5-min", day] for day in range(3)}
    assert len(question.results(more)[0]) == 4
    said = next(question.text(found, days))
    assert said == "This is of 3 of 6 choices, and 3 of 20 days: more time may change it (--seconds)."


def test_what_is_said_if_only_urgent_workloads_end() -> None:
    low = Arrival(workload("low", "q", 2000, 0, 0), None)
    high = Arrival(workload("high", "q", 2000, 10, 10), 10 * SECOND_NS)
    assert next(iter(said([low, high]))).endswith(" s, and no other ends.")


def test_what_is_said_if_no_urgent_workload_starts() -> None:
    """All need more than the queue has."""
    low, high = (Arrival(workload(name, "q", 10**9, at, at), 10 * SECOND_NS) for name, at in (("low", 0), ("high", 10)))
    without, with_it, *_ = said([low, high])
    assert without == "Without preemption no urgent workload starts, and no other ends."
    assert with_it.startswith("With it no urgent workload starts, and 0")


def test_the_first_day_is_the_recorded_one_and_the_others_keep_its_times() -> None:
    day = arrivals()
    assert drawn(day, 0) == day
    other = drawn(day, 1)
    assert other == drawn(day, 1) != drawn(day, 2)
    assert [each.workload.created_ns for each in other] == [each.workload.created_ns for each in day]
    shapes = {(each.workload.priority, each.duration_ns) for each in day}
    assert {(each.workload.priority, each.duration_ns) for each in other} <= shapes


@pytest.mark.parametrize("priorities", [(0, 10), (0, 0)])
def test_the_command(priorities: tuple[int, int], tmp_path: Path) -> None:
    low, high = priorities
    day = [
        Arrival(workload("low", "q", 4000, low, 0), 100 * SECOND_NS),
        Arrival(workload("high", "q", 4000, high, 10), 10 * SECOND_NS),
    ]
    write_saved(tmp_path / "mine.yaml", Kueue(ONE_QUEUE, arrivals=tuple(day)), [])
    arguments = ["advise", str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "advice"), "--json"]
    done = invoked(*arguments)
    if low == high:
        assert done.exit_code == 2, done.output
        assert "all workloads have one priority" in done.output
        return
    assert done.exit_code == 0, done.output
    kept = json.loads((tmp_path / "advice/advise.json").read_text())
    assert json.loads(done.stdout) == kept
    assert kept["ways"][0]["minimum_runtime"] == "no preemption"
    assert kept["text"] == ["Too few preemptions to tell: at most 0.25 a day; below 10 no way is named best."]


def test_what_the_answer_rests_on_is_said_first(tmp_path: Path) -> None:
    gap = Gap("fair sharing is not modelled", 1, "settings", "fairSharing: c.yaml:3")
    day = arrivals()
    write_saved(tmp_path / "mine.yaml", Kueue(ONE_QUEUE, arrivals=tuple(day), basis=Basis(decides=(gap,))), [])
    arguments = ["advise", tmp_path / "mine.yaml", "--out", tmp_path / "advice"]
    refused = run_natjam(*arguments, "--strict", status=1)
    assert "--strict: the lines above" in refused.stderr
    assert not (tmp_path / "advice/advise.json").exists()
    done = run_natjam(*arguments)
    head = "decides at this site and is not modelled, so the site may act otherwise:\n  1 setting: fair sharing is not"
    assert done.stdout.startswith(head)
    kept = json.loads((tmp_path / "advice/advise.json").read_text())
    assert kept["basis"]["decides"][0]["reason"] == gap.reason
    assert kept["text"][0].startswith("No preference: what decides at this site")
    as_data = run_natjam(*arguments, "--json")
    assert as_data.stderr.startswith("decides at this site and is not modelled")
    assert json.loads(as_data.stdout) == kept


@pytest.mark.parametrize("options", [["--seeds", "3"], ["--set", "seed=2"], ["--live"]])
def test_what_says_nothing_for_an_imported_site_is_refused(options: list[str], tmp_path: Path) -> None:
    write_saved(tmp_path / "mine.yaml", Kueue(ONE_QUEUE, arrivals=tuple(arrivals())), [])
    done = run_natjam("advise", tmp_path / "mine.yaml", "--out", tmp_path / "advice", *options, status=2)
    assert f"{options[0]}: " in done.output
    assert not (tmp_path / "advice").exists()
