"""Constants that papers leave open: what each feeds, and how it is halved and doubled; what a reproduction needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from analysis.reproduce import needs
from analysis.reproduce.definitions import all_figures, chosen_figures
from analysis.reproduce.needs import lacking, work_of
from analysis.reproduce.run import planned
from analysis.reproduce.values import all_values
from emulator.campaign.directory import Variant
from emulator.costs import calibration_file
from emulator.costs.calibration import dump_calibration
from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from tests.calibrations import make_calibration

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))  # where the programs are that make its pages

from choices import EACH, all_scaled, needed_variants, scaled, trial_of, tried
from timings import took

CATALOG = Path(__file__).resolve().parents[2] / "workloads/catalog"


def test_a_setting_is_multiplied_wherever_its_path_leads() -> None:
    experiment = load_experiment(CATALOG / "yarn-recorded.yaml")
    assert scaled(experiment, "heartbeat_s", 0.5).heartbeat_s == experiment.heartbeat_s / 2
    each = scaled(experiment, f"workload.jobs.{EACH}.key_s", 2.0).workload.jobs or ()
    assert [job.key_s for job in each] == [2 * job.key_s for job in experiment.workload.jobs or ()]
    assert scaled(experiment, "cluster.containers_per_node", 0.5).cluster.containers_per_node == 4
    named = scaled(load_experiment(CATALOG / "ckpt-facebook-live.yaml"), f"workload.jobs.high-{EACH}.submit_s", 2.0)
    starts_s = {job.name: job.submit_s for job in named.workload.jobs or ()}
    assert (starts_s["high-1"], starts_s["low-2"]) == (2 * 576, 768)
    week = load_experiment(CATALOG / "reverse-adaptive-week.yaml")
    both = scaled(week, "workload.poisson.tasks, workload.poisson.task_s", 2.0).workload.poisson
    assert both is not None
    assert (both.tasks.mean, both.tasks.sd, both.task_s) == (124.0, 31.0, 774.0)
    points = scaled(week, f"cluster.availability.spline.{EACH}.1", 0.5).cluster.availability
    assert points is not None
    assert points.spline is not None
    assert points.spline[:2] == ((0, 25), (10800, 34))
    for setting in ("scheduler.mechanism", "workload.jobs", "no.such.setting", "cluster.nodes.deep"):
        with pytest.raises(ConfigError, match="is no number"):
            scaled(experiment, setting, 2.0)


def test_a_variant_without_the_setting_stays_as_it_is() -> None:
    path = CATALOG / "reverse-adaptive-week.yaml"
    variants = [
        Variant(allocation, load_experiment(path, [f"scheduler.allocation={allocation}"]), (1,))
        for allocation in ("{name: fifo}", "{name: reverse-adaptive, cycle_s: 300}")
    ]
    fifo, other = all_scaled(variants, "scheduler.allocation.cycle_s", 2.0)
    assert fifo == variants[0]
    assert other != variants[1]
    with pytest.raises(ConfigError, match="is no number"):
        all_scaled(variants, "scheduler.allocation.gives_up", 2.0)


def test_only_the_variants_are_run_that_the_cells_need() -> None:
    def needed(figure: str, *cells: str) -> set[str]:
        return needed_variants(all_figures()[figure], cells)

    assert needed("flex/cluster", "flex over fair") == {"flex-slack-95", "fair-slack-95"}
    assert needed("natjam/fig15", "median_s") == {"natjam", "production-only"}
    assert needed("adaptive-checkpointing/fig3", "low.nvm", "waste.kill") == {"kill", "basic-nvm"}
    fewest = needed("reverse-adaptive/fig7", "reverse-adaptive over the fewest")
    assert (len(fewest), "fewest-misses-1.5-4x-0.2" in fewest) == (18, False)
    assert needed("natjam/fig11", "both met from epsilon") == set(all_figures()["natjam/fig11"].settings)


def test_a_constant_is_tried_in_the_small_form_of_a_figure_that_has_one() -> None:
    paper = all_values()["adaptive-checkpointing"]
    trial = trial_of(paper, next(one for one in paper.constants if one.name == "jobs of the Google-like day"))
    assert (trial.figure.id, trial.form) == ("adaptive-checkpointing/fig3", "small")
    assert [one.name.rpartition("fig3-")[2] for one in trial.variants[1.0]] == ["kill", "basic-nvm"]
    assert "waste.nvm" in trial.cells
    assert "waste.hdd" not in trial.cells


def test_what_cannot_be_halved_is_not_tried() -> None:
    paper = all_values()["reverse-adaptive"]
    one_task_a_node = next(one for one in paper.constants if one.name == "tasks a node")
    assert set(trial_of(paper, one_task_a_node).variants) == {1.0, 2.0}


def test_a_trial_measures_its_cells_with_the_constant_as_it_is_halved_and_doubled(tmp_path: Path) -> None:
    paper = all_values()["natjam"]
    constant = next(one for one in paper.constants if one.name == "length of a map")
    moved = list(tried(paper, constant, trial_of(paper, constant), tmp_path, seeds=1))
    assert [one.fed for one in moved] == ["natjam.research"]
    assert len({moved[0].base, moved[0].halved, moved[0].doubled}) == 3


def test_the_work_is_told_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = chosen_figures(["yarn/recorded"])
    variants = planned(figures, "sim", None, quick=True)
    monkeypatch.setattr(needs, "stored", lambda: {"yarn/recorded": {"cpu_s": 2.0, "makespan_s": 100.0}})
    monkeypatch.setattr(needs.os, "cpu_count", lambda: 2)
    assert str(work_of(variants)) == "20 runs to make, about 20 s on 2 cores that do nothing else"
    made = [run.sha256 for run in needs.planned_runs(variants["yarn/recorded"])][:8]
    assert str(work_of(variants, made)).startswith("12 runs to make (8 were made before), about 12 s")
    live = work_of(planned(figures, "live", None, quick=True))
    assert (live.runs, live.real_s) == (10, 10 * (100 / 5 + 3)), "at its time scale of 5"
    monkeypatch.setattr(needs, "stored", dict)
    assert str(work_of(variants)) == "20 runs to make; how long they take is seen after the first of them"
    monkeypatch.setattr(needs, "stored", lambda: {"yarn/recorded": {"cpu_s": 2.0, "makespan_s": 100.0}})
    some = work_of(variants | planned(chosen_figures(["natjam/fig10"]), "sim", None, quick=True))
    assert str(some).endswith("about 20 s on 2 cores that do nothing else, and 6 runs of figures never timed")


def test_a_figure_of_live_runs_is_timed_by_its_simulation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs of a minute and a half run one after the other, or share the machine, at costs of a made-up one."""
    measured = tmp_path / "natjam/calibration.yaml"
    measured.parent.mkdir()
    measured.write_text(dump_calibration(make_calibration(500_000, 5_000_000)))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = took(all_figures()["os-assisted/fig4-program"])
    assert found["cpu_s"] > 0
    assert 160 < found["makespan_s"] < 220


def test_every_figure_has_a_time() -> None:
    assert {id for id, figure in all_figures().items() if figure.experiment is not None} <= set(needs.stored())


def test_figures_that_rest_on_this_machines_costs_are_left_out_where_it_was_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calibration_file, "default_path", lambda: tmp_path / "none.yaml")
    variants = planned(chosen_figures(["natjam/fig4", "os-assisted/fig2"]), "sim", None, quick=True)
    (figure, why), *others = lacking(variants).items()
    assert (figure, others) == ("os-assisted/fig2", [])
    assert "run 'natjam measure' first" in why


def test_live_figures_that_need_criu_or_swap_are_left_out_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ["natjam/fig4", "adaptive-checkpointing/fig4", "os-assisted/fig2-program", "os-assisted/fig4-program"]
    variants = planned([figure.by("live") for figure in chosen_figures(figures)], "live", None, quick=True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    saved, swapped = lacking(variants).items()
    assert saved[0] == "adaptive-checkpointing/fig4"
    assert saved[1].startswith("its programs are saved by criu: ")
    assert swapped == ("os-assisted/fig4-program", "its tasks hold more than cluster.memory_gb: real swap needs root")
