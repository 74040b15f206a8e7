"""How near printed values are: distances, what they come to together, and the files that the figures come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.reproduce.definitions import all_figures
from analysis.reproduce.record import CellResult, FigureResult, Results, read_results
from analysis.reproduce.scores import papers_of, scores, summary_lines, worst
from analysis.reproduce.values import PaperValues, Value
from emulator.errors import ConfigError

FIG4, FIG8 = "natjam/fig4", "adaptive-checkpointing/fig8"


def value(id: str, published: float, scale: str = "s", **more: object) -> Value:
    basis = "fitted" if "why" in more else "predicted"
    return Value.model_validate(
        {"id": id, "where": "Fig. 4", "says": "so", "published": published, "scale": scale, "basis": basis, **more}
    )


PAPER = PaperValues(
    paper="natjam",
    figures=(),
    values=(
        value("near", 75.6, claim="natjam.fig4.natjam.production"),
        value("far", 100.0, cell=f"{FIG4}:kill.production"),
        value("waste", 50, "pct", claim="ckpt.fig8.waste_reduction", part="hdd"),
        value("none", 0, "count", cell=f"{FIG4}:ideal.research"),
        value("fitted", 200.0, why="the lengths", cell=f"{FIG4}:natjam.research"),
        value("deviation", 4.0, statistic="sd", why="so", cell=f"{FIG4}:kill.production"),
        value("limit", 100, bound="at most", cell=f"{FIG4}:kill.production"),
        value("live", 1.35, claim="natjam.overhead.suspend_s"),
        value("nowhere", 5, unmeasured="a real system"),
        Value(id="picture", where="Fig. 9", picture="not available"),
    ),
)


def cell(measured: float, half: float = 0.0) -> CellResult:
    return CellResult(
        published=None, measured=measured, low=measured - half, high=measured + half, sd=half / 2, seeds=20
    )


def figure(id: str, engine: str = "sim", **cells: CellResult) -> FigureResult:
    names = {name.replace("__", "."): found for name, found in cells.items()}
    return FigureResult(
        id=id,
        engine=engine,
        command="natjam reproduce",
        date="2026-01-01",
        natjam="1",
        seeds=20,
        claims=(),
        cells=names,
    )


RESULTS = Results(
    figures=(
        figure(
            FIG4, natjam__production=cell(75.6), kill__production=cell(150.0, 9.0), ideal__research=cell(2.0),
            natjam__research=cell(220.0),
        ),
        figure(FIG8, waste__hdd=cell(-0.05, 0.01)),
        figure("natjam/overhead", "sim", suspend=cell(9.0)),
    )
)  # fmt: skip


def test_a_value_has_its_distance_and_shares_have_it_in_points() -> None:
    found = {score.value.id: score for score in scores(PAPER, RESULTS, "sim")}
    assert list(found) == ["near", "far", "waste", "none", "fitted", "deviation", "limit"], (
        "live only is not judged by simulations"
    )
    assert found["far"].texts == (
        "far", "Fig. 4", "100.0 s", "150.0 s", "141.0 to 159.0", "20", "+50.0%", "predicted"
    )  # fmt: skip
    assert found["waste"].texts[2:7] == ("50.0%", "-5.00%", "-6.00 to -4.00", "20", "-110.0% (-55.0 pp)")
    assert found["none"].distance is None
    assert (found["deviation"].measured, found["deviation"].distance) == (4.5, 0.125)
    assert (found["limit"].texts[2], found["limit"].texts[6], found["limit"].distance) == (
        "<= 100.0 s",
        "beyond it",
        None,
    )
    assert [score.value.id for score in worst(list(found.values()))] == ["waste", "far", "near"]


def test_predicted_and_fitted_values_are_counted_apart() -> None:
    assert list(summary_lines(PAPER, scores(PAPER, RESULTS, "sim"))) == [
        "predicted: 3 values, median distance 50.0% (shares: 55.0 percentage points), 1 of 3 (33%) within 25%",
        "fitted: 2 values, median distance 11.2%, 2 of 2 (100%) within 25%",
        "printed limits: 0 of 1 hold",
        "0 is published of 1 value, which has no relative distance",
        "not in these runs: 2 values of 9",
        "only in pictures, which are not available: 1 entry",
    ]


def test_papers_are_those_of_the_figures() -> None:
    assert [paper.paper for paper in papers_of([all_figures()["yarn/recorded"]])] == ["yarn"]


def test_newer_results_take_the_place_of_older_ones_of_the_same_engine() -> None:
    newer = Results(figures=(figure(FIG8, waste__hdd=cell(0.4)), figure(FIG8, "live", waste__hdd=cell(0.3))))
    merged = RESULTS.merged(newer)
    assert [(made.id, made.engine) for made in merged.figures][-1] == (FIG8, "live")
    assert len(merged.figures) == len(RESULTS.figures) + 1
    assert merged.cells(FIG8, "sim")["waste.hdd"].measured == 0.4


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_text(RESULTS.model_dump_json())
    assert read_results(path) == RESULTS
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read as a claims.json"):
        read_results(tmp_path / "none.json")
