"""A run in which nothing moves any more is given up, and says which tasks are stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.whole_run import run_experiment
from emulator.core import effects as fx
from emulator.errors import RunError
from emulator.experiment.load import load_experiment
from emulator.live.hosts.host_reports import Standstill
from emulator.live.hosts.plan import timeout_real_ns
from emulator.records.journal import read_journal
from emulator.records.run_directory import RunDirectory
from emulator.resolved import resolve
from emulator.sim.processes import VirtualProcesses
from emulator.sim.session import simulate
from tests.experiment_files import TURNS, TURNS_OF_ONE, write
from tests.run_results import RunResults

FIG4 = Path(__file__).resolve().parents[2] / "workloads/catalog/natjam-fig4.yaml"


def test_a_simulation_whose_reduces_wait_for_ever_ends_and_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: VirtualProcesses, address: str, effect: fx.ProvideInput) -> None:
        """Where the outputs lie never comes to the processes."""

    monkeypatch.setattr(VirtualProcesses, "provide_input", nothing)
    experiment = load_experiment(FIG4, ["engine=sim", "overheads=hadoop-0.23"])
    with pytest.raises(
        RunError, match=r"there was no progress from \d+ s to \d+ s.*stuck: .*/r0\d\d\.\d \(Running on "
    ):
        simulate(resolve(experiment), lambda records: None)


def test_it_is_reached_when_no_count_grows_while_there_is_work() -> None:
    standstill = Standstill(10)
    assert not standstill.is_reached(5, True, 100, 1000)
    assert not standstill.is_reached(5, True, 110, 1100)
    assert not standstill.is_reached(6, True, 111, 1110), "something has moved"
    assert not standstill.is_reached(6, False, 130, 1300), "nothing is to be done"
    assert not standstill.is_reached(6, True, 140, 1400)
    assert standstill.is_reached(6, True, 141, 1410)
    assert standstill.since_ns == 1300


@pytest.mark.parametrize(
    ("scale", "timeout_s", "real_s"), [(20, 600, 30), (1, 600, 600), (100, 600, 30), (10, 1000, 100)]
)
def test_its_patience_is_that_with_a_task(scale: float, timeout_s: float, real_s: float) -> None:
    experiment = load_experiment(FIG4, [f"time_scale={scale}", f"protocol.task_timeout_s={timeout_s}"])
    assert timeout_real_ns(resolve(experiment)) == real_s * 10**9


FLAPPING = TURNS.replace("mlf", "mr").replace(
    "containers_per_node: 4",
    "containers_per_node: 4, availability: {steps: [[0, 4], [50, 0]], period_s: 60, grace_s: 5}",
)
"""Containers are taken back again before a reduce can end."""


@pytest.mark.parametrize("text", [TURNS_OF_ONE, FLAPPING], ids=["jobs in turn", "the cluster"])
def test_a_run_whose_tasks_are_preempted_without_end_ends_and_says_so(tmp_path: Path, text: str) -> None:
    experiment = load_experiment(write(tmp_path, text))
    with pytest.raises(RunError, match=r"tasks are preempted without end: .* killed 200 times each"):
        run_experiment(experiment, tmp_path / "out", lambda status: None)
    jobs = RunResults(tmp_path / "out").summary["jobs"]
    assert sum(job["kills"] for job in jobs) > 200
    journal = RunDirectory(tmp_path / "out").found_journal()
    assert journal is not None
    numbers = [(record.actor, record.seq) for record in read_journal(journal)[1]]
    assert len(set(numbers)) == len(numbers), "a record is there twice"
