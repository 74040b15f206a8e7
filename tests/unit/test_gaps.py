"""Gaps of a live run: what the beat of a process shows, which gaps are kept, and which of them disturb the run."""

from __future__ import annotations

import pytest

from analysis.report.facts import facts
from emulator.core.messages import JobState
from emulator.engine import EngineResult
from emulator.experiment.load import load_experiment
from emulator.live.beat import PERIOD_REAL_NS, Beat, watched
from emulator.live.clock import ScaledClock
from emulator.records.gaps import Gap, LongestGaps, disturbances, disturbed_text, gap_bound_ns, worst_gaps
from emulator.records.history import History, JobRow
from emulator.resolved import resolve
from emulator.run.results import summary_of
from emulator.vocabulary import SECOND_NS
from tests.live_runs import until
from tests.simulated_runs import FIG4


def job(submit_s: int, finish_s: int | None) -> JobRow:
    finish_ns = None if finish_s is None else finish_s * SECOND_NS
    state = JobState.RUNNING if finish_s is None else JobState.SUCCEEDED
    return JobRow("a job", "research", submit_s * SECOND_NS, None, finish_ns, None, state, 1, 0, 0, 0, 0)


def gap_of(process: str, from_s: float, until_s: float) -> Gap:
    return Gap(round((until_s - from_s) * SECOND_NS), round(until_s * SECOND_NS), process)


def test_a_beat_is_late_by_what_exceeds_its_period() -> None:
    beat = Beat(0)
    assert beat.late_real_ns(PERIOD_REAL_NS // 2) == 0
    assert beat.late_real_ns(PERIOD_REAL_NS // 2 + PERIOD_REAL_NS + 100_000) == 0, "timers are late by a little"
    before_ns = PERIOD_REAL_NS // 2 + PERIOD_REAL_NS + 100_000
    assert beat.late_real_ns(before_ns + PERIOD_REAL_NS + 5 * SECOND_NS) == 5 * SECOND_NS
    assert beat.late_real_ns(before_ns + PERIOD_REAL_NS + 5 * SECOND_NS + 1) == 0, "it goes on from there"


def test_a_thread_watches_its_process() -> None:
    found: list[Gap] = []
    with watched("starter", ScaledClock(0, 1), -SECOND_NS, found.append):  # so every beat is late, by a second
        until(lambda: found, "a gap", bound_s=10)
    assert found[0].process == "starter"
    assert found[0].length_ns >= SECOND_NS


def test_the_longest_gaps_since_the_first_submission_are_kept() -> None:
    gaps = LongestGaps(from_ns=10 * SECOND_NS)
    gaps.add(gap_of("rm", 0, 9))
    assert gaps.found == ()
    gaps.add(gap_of("rm", 2, 11))
    for length_s in range(1, 21):
        gaps.add(gap_of("rm", 100, 100 + length_s))
    assert sorted(gap.length_ns // SECOND_NS for gap in gaps.found) == list(range(13, 21))


@pytest.mark.parametrize(
    ("gaps", "jobs", "worst"),
    [
        ([gap_of("rm", 0, 5)], [job(10, 60)], []),  # the run was starting
        ([gap_of("rm", 0, 12)], [job(10, 60)], [(2, 12)]),
        ([gap_of("rm", 57, 90), gap_of("rm", 61, 99)], [job(10, 60)], [(3, 60)]),  # it was ending
        ([gap_of("rm", 20, 21), gap_of("rm", 30, 35), gap_of("starter", 40, 46)], [job(10, 60)], [(6, 46), (5, 35)]),
        ([gap_of("rm", 20, 21)], [job(10, None)], []),  # no job has ended
    ],
)
def test_gaps_count_between_the_first_submission_and_the_last_finish(
    gaps: list[Gap], jobs: list[JobRow], worst: list[tuple[int, int]]
) -> None:
    found = worst_gaps(gaps, jobs)
    assert [(gap.length_ns // SECOND_NS, gap.ended_ns // SECOND_NS) for gap in found] == worst


@pytest.mark.parametrize(
    ("heartbeat_s", "jobs", "bound_s"),
    [
        (1, [job(0, 50)], 1),
        (1, [job(0, 400), job(100, 350)], 2.5),
        (3, [job(0, 250)], 3),
        (1, [job(0, 500), job(0, None)], 5),
        (1, [], 1),
    ],
)
def test_the_bound_is_a_heartbeat_or_a_hundredth_of_the_shortest_job(
    heartbeat_s: int, jobs: list[JobRow], bound_s: float
) -> None:
    assert gap_bound_ns(heartbeat_s * SECOND_NS, jobs) == bound_s * SECOND_NS


@pytest.mark.parametrize("too_long", [False, True])
def test_a_gap_beyond_the_bound_disturbs_the_run(too_long: bool) -> None:
    history = History([job(0, 200)], [], [], [])
    longest = gap_of("supervisor of nodes-1", 30, 32.1 if too_long else 32)
    result = EngineResult([], 10.0, None, None, {}, gaps=[gap_of("rm", 50, 51), longest])
    made = summary_of(resolve(load_experiment(FIG4)), history, result, None)
    assert [gap["process"] for gap in made["lag"]["gaps"]] == ["supervisor of nodes-1", "rm"]
    assert made["lag"]["gap_bound_emulated_s"] == 2
    assert made["disturbed"] is too_long
    said = "the process supervisor of nodes-1 stood still for 2.1 emulated s, until 32.1 s, beyond 2 s"
    assert disturbances(made) == ([said] if too_long else [])
    shown = dict(facts({**made, "output": {}}))
    assert shown["longest standstill, emulated (supervisor of nodes-1)"].text == ("2.100 s" if too_long else "2.000 s")
    assert (shown["standstill bound"].text, shown["standstill bound"].tone) == (
        ("beyond 2.000 s", "bad") if too_long else ("within 2.000 s", "")
    )
    assert (disturbed_text(made) or "").startswith(f"disturbed: {said}; " if too_long else "")
