"""Claims and figures of papers: the data hold together, claims are judged as they say, a figure comes out whole."""

from __future__ import annotations

import json
import re
import statistics
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from analysis.papers.cells import first_met, own_cells, straightness
from analysis.papers.drawings import DRAWINGS
from analysis.reproduce import page
from analysis.reproduce.cells import Cell, repeated, with_points
from analysis.reproduce.claims import Claim, all_claims
from analysis.reproduce.counted import google_preemptions
from analysis.reproduce.definitions import FigureDefinition, all_figures
from analysis.reproduce.measure import Measured, measure
from analysis.reproduce.record import Results, judged_again, read_results
from analysis.reproduce.reproduced import Reproduction
from analysis.reproduce.run import planned, reproduce, rounds_of
from analysis.reproduce.tables import closing_lines, columns, rows
from analysis.reproduce.verdict import Finding, Verdict, finding, judge, misses, seeds_to_decide, together
from analysis.whole_run import run_experiment
from emulator.campaign.directory import CampaignDirectory, Variant, keep_digest, planned_runs
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.problems import validated
from emulator.files.whole_files import write_json
from emulator.files.yaml_positions import read_document
from emulator.files.yaml_values import dump_yaml
from emulator.intervals import Spread, half_of_interval
from emulator.records.run_directory import sha256_of
from tests.commands import invoked, run_natjam
from tests.live_runs import SMALL
from tests.refusals import refused

CATALOG = Path(__file__).resolve().parents[2] / "workloads/catalog"


def claim(**accept: object) -> Claim:
    return Claim(id="p.c", engine="both", published={"a": 100.0, "b": 50.0}, accept=accept)


def test_ratios_over_a_grid() -> None:
    """Means and the worst of runs of the same seed; where the other is 0 there is no ratio."""
    points = ("small-0", "small-10")

    def cell(**ratio: object) -> dict[str, object]:
        return {"ratio": {"of": "ours", "over": "best", "at": points, **ratio}}

    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"ours": {}, "fair": {}, "best": {}},
            "grid": {
                "points": {point: {} for point in points},
                "values": {"all": "cost"},
                "variants": ("ours", "best"),
            },
            "cells": {
                "mean": cell(at=("small-0",)),
                "worst": cell(take="worst"),
                "peak": cell(take="peak"),
                "least": cell(take="least"),
                "behind": cell(against=("fair",)),
                "gain": cell(at=("small-0",), take="gain"),
            },
            "orders": {},
        }
    )
    assert set(figure.settings) == {"fair", "ours-small-0", "ours-small-10", "best-small-0", "best-small-10"}
    costs = {
        "ours-small-0": (2, 4, 1), "best-small-0": (2, 2, 0), "ours-small-10": (3, 6, 1), "best-small-10": (1, 4, 0),
        "fair": (4, 4, 4),
    }  # fmt: skip
    summaries = {name: {seed: {"cost": cost} for seed, cost in enumerate(of)} for name, of in costs.items()}
    found = measure(figure, summaries, {})
    assert found["mean"].mean == 1.5
    assert (found["worst"].mean, found["worst"].by_seed) == (3, {0: 3, 1: 2})
    assert found["peak"].mean == 10
    assert found["least"].mean == 1.5
    assert (found["gain"].mean, found["gain"].by_seed) == (-0.5, {0: 0, 1: -1})
    assert found["behind"].mean == max(1.5 / 2, 2.25 / 2.5)


def test_levels_over_a_grid() -> None:
    """Means over points, by seed; differences of runs of the same seed; ratios of their means."""
    points = ("to4-0.2", "to4-0.4")

    def level(of: str, **more: object) -> dict[str, object]:
        return {"level": {"of": of, "at": points, "value": "missed", **more}}

    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"ours": {}, "theirs": {}},
            "grid": {"points": {point: {} for point in points}},
            "cells": {
                "ours": level("ours"),
                "theirs": level("theirs"),
                "gain": level("theirs", less="ours"),
                "ratio": {"cell": "ours", "over": "theirs"},
            },
            "orders": {},
        }
    )
    missed = {
        "ours-to4-0.2": (1, None), "ours-to4-0.4": (3, 5), "theirs-to4-0.2": (2, None), "theirs-to4-0.4": (6, 10),
    }  # fmt: skip
    summaries = {name: {seed: {"missed": of} for seed, of in enumerate(values)} for name, values in missed.items()}
    found = measure(figure, summaries, {})
    assert {name: (cell.mean, dict(cell.by_seed)) for name, cell in found.items()} == {
        "ours": (3.5, {0: 2, 1: 5}),
        "theirs": (7, {0: 4, 1: 10}),
        "gain": (3.5, {0: 2, 1: 5}),
        "ratio": (0.5, {0: 0.5, 1: 0.5}),
    }
    with pytest.raises(ValueError, match="there is no variant 'nobody'"):
        FigureDefinition.model_validate(
            {**figure.model_dump(), "cells": {"a": {"level": {"of": "nobody", "at": points, "value": "missed"}}}}
        )


def test_means_over_the_jobs_of_a_run() -> None:
    jobs = [("a", "production", 2.0), ("b", "research", 6.0), ("c", "research", 10.0)]
    summary = {"jobs": [{"name": name, "queue": queue, "completion_s": took_s} for name, queue, took_s in jobs]}
    paths = ("jobs.*.completion_s", "jobs.*@research.completion_s", "jobs.*@nobody.completion_s", "jobs.*.finish_s")
    cells = {path: {"variant": "ours", "value": path} for path in paths}
    figure = FigureDefinition.model_validate({**_FIGURE, "variants": {"ours": {}}, "cells": cells, "orders": {}})
    found = measure(figure, {"ours": {1: summary}}, {})
    assert [found[path].mean for path in paths] == [6.0, 8.0, None, None]


def test_a_cell_and_an_order_at_each_point_of_a_grid() -> None:
    """Written once, measured at every point; a first look leaves points out, with all that is of them."""
    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"ours": {}, "theirs": {}},
            "grid": {"points": {f"m-{m}": {} for m in (0, 1, 2, 3)}, "values": {"all": "cost"}},
            "quick": {"live_repeats": 3, "points": ("m-0", "m-2")},
            "cells": {
                "ours {point}": {"variant": "ours-{point}", "value": "cost"},
                "theirs {point}": {"variant": "theirs-{point}", "value": "cost"},
                "excess {point}": {"ratio": {"of": "ours", "over": "theirs", "at": ("{point}",), "take": "excess"}},
                "most": {"ratio": {"of": "ours", "over": "theirs", "at": "all", "take": "excess"}},
            },
            "orders": {"p.c": {"theirs": "theirs {point}", "ours": "ours {point}"}},
        }
    )
    ours = {f"ours-m-{m}": {1: {"cost": 10.0 + 2 * m, "bytes": 100 * m}} for m in range(4)}
    summaries = ours | {f"theirs-m-{m}": {1: {"cost": 10.0}} for m in range(4)}
    found = measure(figure, summaries, {})
    assert [round(found[f"excess m-{m}"].mean or 0, 6) for m in range(4)] == [0, 0.2, 0.4, 0.6]
    assert round(found["most"].mean or 0, 6) == 0.6
    claims = {"p.c": Claim(id="p.c", engine="sim", accept={"order": ("theirs", "ours")})}
    (verdict,) = judge(figure, found, claims, "sim")
    assert (verdict.ok, verdict.measured) == (True, {"theirs": 10, "ours": 13})
    summaries["ours-m-1"] = {1: {"cost": 9.5, "bytes": 100}}
    (verdict,) = judge(figure, measure(figure, summaries, {}), claims, "sim")
    assert verdict.found.why == "m-1: theirs (10) is above ours (9.5) by more than noise"
    quick = figure.quickly()
    assert set(quick.settings) == {"ours-m-0", "ours-m-2", "theirs-m-0", "theirs-m-2"}
    assert "ours m-1" not in quick.cells
    assert "excess m-1" not in quick.cells
    assert quick.cells["most"].ratio is not None
    assert quick.cells["most"].ratio.at == ("m-0", "m-2")
    (verdict,) = judge(quick, measure(quick, summaries, {}), claims, "sim")
    assert verdict.ok


# ---- the data ----


@pytest.mark.parametrize("figure", all_figures().values(), ids=lambda figure: figure.id)
def test_every_figure_can_be_planned_and_says_where_its_figures_are(figure: FigureDefinition) -> None:
    for engine in figure.engines if figure.experiment else ():
        figure = figure.by(engine)
        variants = planned([figure], engine, 7.0, quick=True)[figure.id]
        assert {variant.experiment.engine for variant in variants} == {
            settings.get("engine", engine) for settings in figure.settings.values()
        }
        by_name = {
            variant.name.removeprefix(figure.id.replace("/", "-") + "-"): variant.experiment for variant in variants
        }
        assert set(by_name) == set(figure.settings)
        for cell in figure.cells.values():
            for path in filter(None, (cell.value, *cell.values)):
                if cell.variant and path.startswith("jobs."):
                    assert path.split(".")[1] in _names_of_jobs(by_name[cell.variant]), path


def _names_of_jobs(experiment: Experiment) -> set[str]:
    """What a path may name: a job, all of them, all of a queue."""
    queues = {f"*@{queue}" for queue in experiment.scheduler.allocation.queues}
    return {"*", *queues, *(job.name for job in experiment.workload.jobs or ())}


def test_claims_are_measured_in_all_their_parts_and_published_figures_stand_in_one_place() -> None:
    claims = all_claims()
    assert len(claims) > 60
    for figure in all_figures().values():
        assert set(figure.claims) <= set(claims)
        for name in figure.claims:
            if name in figure.orders:
                assert set(claims[name].accept["order"]) == set(figure.orders[name])
                assert parts_of(claims[name]) - {"None"} <= set(figure.orders[name]), "each printed number is judged"
                continue
            parts = [str(cell.part) for cell in figure.cells.values() if cell.claim == name]
            assert len(set(parts)) == len(parts), name
            assert set(parts) == parts_of(claims[name]), name
        assert not [cell for cell in figure.cells.values() if cell.claim and cell.published is not None]


def parts_of(claim: Claim) -> set[str]:
    """The parts that a claim publishes or accepts something of; a claim of one figure: ``None``."""
    accepted = {kind.rpartition("_")[0] for kind in claim.accept if kind != "within_absolute"} - {""}
    published = set(claim.published) if isinstance(claim.published, dict) else set()
    return published | accepted or {"None"}


def test_maps_of_the_microbenchmark_are_in_the_proportion_of_section_7() -> None:
    """Eight maps for fifty reduces is the only proportion that the paper prints (section 7)."""
    jobs = load_experiment(CATALOG / "natjam-microbenchmark.yaml").workload.jobs or ()
    assert {job.name: job.maps for job in jobs} == {job.name: round(8 / 50 * (job.reduces or 0)) for job in jobs}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for arguments, message in (
        (["natjam/fgi4"], "there is no figure or paper 'natjam/fgi4'; did you mean 'natjam/fig4'?"),
        (["natjam/fig4", "--engine", "warp"], "--engine warp: must be sim or live"),
        (["natjam/overhead", "--engine", "sim"], "natjam/overhead: not for --engine sim"),
        ([], "name what to reproduce"),
    ):
        result = invoked("reproduce", *arguments, "--out", tmp_path / "out")
        assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert not list(tmp_path.iterdir())
    listed = run_natjam("reproduce", "--list")
    assert all(figure.id in listed.stdout for figure in all_figures().values())


_FIGURE = {
    "id": "p/f",
    "title": "t",
    "source": "s",
    "experiment": "e.yaml",
    "sim_repeats": 5,
    "variants": {"v": {}},
    "cells": {"c": {"variant": "v", "value": "makespan_s"}},
    "plot": {"form": "bars", "x": "", "y": "s"},
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sim_repeats": None}, "say with how many seeds"),
        ({"cells": {"c": {"variant": "w", "value": "x"}}}, "cell 'c': there is no variant 'w'"),
        ({"cells": {"c": {"variant": "v"}}}, "give exactly one of value, values, difference, cell"),
        ({"cells": {"c": {"value": "x"}}}, "need a variant"),
        ({"cells": {"c": {"variant": "v", "values": ["x"]}}}, "values go with take"),
        ({"orders": {"o": {"a": "d"}}}, "'o': 'd' is not a cell"),
        (
            {"plot": {"form": "pie", "x": "", "y": ""}},
            "plot.form: must be 'bars', 'weeks' or 'curves'",
        ),
        ({"cells": {"c": {"variant": "v", "difference": {"against": "w", "share": {"below": 0}}}}}, "no variant 'w'"),
        ({"cells": {"c": {"variant": "v", "difference": {"against": "v"}}}}, "give one of share"),
        ({"cells": {"c": {"variant": "v", "difference": {"against": "v", "nth": 0}}}}, "nth: 1 is the smallest"),
        ({"cells": {"c": {"cell": "c"}}}, "cell with over or less"),
    ],
)
def test_a_wrong_figure_is_refused_with_its_place(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    (tmp_path / "f.yaml").write_text(dump_yaml({**_FIGURE, **changed}))
    message = refused(validated, read_document(tmp_path / "f.yaml"), FigureDefinition)
    assert message.startswith(f"{tmp_path}/f.yaml:")
    assert words in message


def test_an_entry_stands_for_one_of_each_value_of_its_words() -> None:
    words = {"tier": {"hdd": {"mb_s": 50}, "nvm": {"mb_s": 500}}, "load": (0.2, 1.0)}
    entries = {
        "{tier}-{load}": {"speed": "{tier.mb_s}", "load": "{load}", "name": "on {tier}"},
        "each {tier}": {"save {tier}": {}, "restore {tier}": {}},
        "nvm-1.0": {"published": 3},
    }
    made = repeated(entries, words)
    assert [*made] == [
        *("hdd-0.2", "hdd-1.0", "nvm-0.2", "nvm-1.0", "save hdd", "restore hdd", "save nvm", "restore nvm")
    ]
    assert made["nvm-1.0"] == {"speed": 500, "load": 1.0, "name": "on nvm", "published": 3}
    level = with_points({"level": {"of": "kill", "at": "*-0.2"}}, ("hdd-0.2", "hdd-1.0", "nvm-0.2"))
    assert level["level"]["at"] == ("hdd-0.2", "nvm-0.2")


# ---- verdicts ----


@pytest.mark.parametrize(
    ("accept", "part", "mean", "ok"),
    [
        ({"within": 0.05}, "a", 105.0, True),
        ({"within": 0.05}, "a", 94.9, False),
        ({"within": 0.05}, "b", 52.4, True),
        ({"within": 0.05}, "none", 52.4, False),
        ({"min": 3}, None, 3.0, True),
        ({"min": 3}, None, 2.98, False),
        ({"max": 0}, None, 0.0, True),
        ({"max": 0}, None, 0.02, False),
        ({"min": 20, "max": 45}, None, 46.0, False),
        ({"a_min": 3, "b_max": 1}, "a", 2.0, False),
        ({"a_min": 3, "b_max": 1}, "b", 1.0, True),
        ({"max": 0}, None, None, False),
        ({"max": 200}, "a", -1.0, False),  # the wrong sign
        ({"max": 200}, "a", 0.0, True),
    ],
)
def test_a_part_is_judged_by_what_is_accepted_of_it(
    accept: dict[str, float], part: str | None, mean: float | None, ok: bool
) -> None:
    assert (misses(claim(**accept), part, mean) == "") is ok
    spread = None if mean is None else Spread(1, mean, None, None, None)
    assert finding(claim(**accept), part, spread).ok is ok, "a single run has no interval: its mean decides"


@pytest.mark.parametrize(
    ("accept", "mean", "half", "n", "ok"),
    [
        ({"within": 0.25}, 100.0, 25.0, 20, True),  # published: 100
        ({"within": 0.25}, 100.0, 26.0, 20, None),
        ({"within": 0.25}, 120.0, 6.0, 20, None),  # the mean holds, its interval does not
        ({"within": 0.25}, 130.0, 4.9, 20, False),  # never undecided where the interval is outside
        ({"within": 0.25}, 130.0, 5.1, 20, None),
        ({"min": 90}, 89.0, 2.0, 20, None),
        ({"min": 90}, 89.0, 0.5, 20, False),
        ({"min": 90, "max": 110}, 100.0, 30.0, 20, None),
        ({"max": 40}, 5.0, 4.0, 20, True),
        ({"max": 40}, 5.0, 6.0, 20, None),  # some of the interval has the wrong sign
        ({"max": 40}, 40.0, 3.0, 20, None),  # on the limit: no number of seeds would decide it
        ({"max": 40}, 40.0, 3.0, 19, True),  # so few seeds need to say how many would
        ({"within": 0.25}, 120.0, 6.0, 2, None),
    ],
)
def test_an_interval_with_accepted_and_refused_values_leaves_a_claim_undecided(
    accept: dict[str, float], mean: float, half: float, n: int, ok: bool | None
) -> None:
    deviation = half / half_of_interval(1.0, n)
    found = finding(claim(**accept), "a", Spread(n, mean, deviation, mean - half, mean + half))
    assert found.ok is ok, found.why
    assert bool(found.why) is (ok is not True)
    assert found.deciding_seeds is None or found.ok is None


CONTAINERS = {
    "fig3 fig4 fig5 fig6 fig6-lrt": 48,
    "fig7 fig8 fig9": 72,
    "fig10 fig11 fig11-size fig12": 21,
    "fig13 fig14 fig15": 2000,
}
"""Sections 5 to 8 of the paper: of the figures, the workers' containers."""


@pytest.mark.parametrize("engine", ["sim", "live"])
def test_figures_of_natjam_run_on_the_cluster_of_their_section(engine: str) -> None:
    for figures, containers in CONTAINERS.items():
        for name in figures.split():
            figure = all_figures()[f"natjam/{name}"].by(engine)
            for variant in planned([figure], "sim", None, quick=True)[figure.id]:
                cluster = variant.experiment.cluster
                assert cluster.nodes * cluster.containers_per_node == containers, variant.name


def test_so_many_seeds_decide_and_one_fewer_does_not() -> None:
    for deviation, away in ((36.67, 3.6), (1.0, 10.0), (2.0, 0.3)):
        seeds = seeds_to_decide(deviation, away)
        assert seeds is not None
        assert half_of_interval(deviation, seeds) <= away
        assert seeds == 2 or half_of_interval(deviation, seeds - 1) > away
    assert seeds_to_decide(1.0, 0.0) is None


def test_a_claim_of_parts_fails_if_one_does_and_holds_if_all_do() -> None:
    held, failed, undecided = Finding(True), Finding(False, "a: no"), Finding(None, "b: who knows", 30)
    assert together([held, held]) == held
    assert together([held, undecided, undecided._replace(deciding_seeds=40)]) == Finding(
        None, "b: who knows; b: who knows", 40
    )
    assert together([held, undecided, failed]) == failed
    assert together([undecided, undecided._replace(deciding_seeds=None)]).deciding_seeds is None
    failing = undecided._replace(deciding_seeds=20, mean_holds=False)
    assert together([undecided, failing]).deciding_seeds == 20, "one part that fails is enough"
    assert together([undecided._replace(deciding_seeds=None), failing]).deciding_seeds == 20
    assert together([]) == held


def test_kept_verdicts_are_those_that_todays_claims_give() -> None:
    for path in sorted((Path(__file__).resolve().parents[2] / "docs/claims").glob("*.json")):
        kept = read_results(path)
        assert judged_again(kept) == kept, f"run python docs/reproductions.py {path}"


def cell(name: str, values: list[float]) -> Measured:
    by_seed = dict(enumerate(values))
    mean = sum(values) / len(values) if values else None
    return Measured(name, Cell(variant="v", value=name), by_seed, mean, None)


@pytest.mark.parametrize(
    ("small", "large", "ok"),
    [
        ([10, 11], [20, 21], True),
        ([20, 21], [10, 11], False),
        ([10.4, 9.4, 10.5], [10.3, 9.6, 10.2], True),  # tied: the pairs differ by more than the means
        ([10.2, 9.2, 11.2], [10.0, 9.0, 11.0], False),  # a little, but in every pair
        ([10.05], [10.0], True),
        ([10.5], [10.0], False),
        ([], [10.0], False),
    ],
)
def test_orders_allow_ties_within_noise(small: list[float], large: list[float], ok: bool) -> None:
    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "cells": {"small": {"variant": "v", "value": "s"}, "large": {"variant": "v", "value": "l"}},
            "orders": {"p.c": {"small": "small", "large": "large"}},
        }
    )
    claims = {"p.c": Claim(id="p.c", engine="sim", accept={"order": ("small", "large")})}
    measured = {"small": cell("small", small), "large": cell("large", large)}
    (verdict,) = judge(figure, measured, claims, "sim")
    assert verdict.ok is ok, verdict.found.why
    assert bool(verdict.found.why) is not ok
    assert judge(figure, measured, claims, "live") == [], "not to be held against a live run"


def judged_order(published: dict[str, float], **cells: list[float]) -> Verdict:
    """The verdict on the order of the cells, which they are in."""
    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "cells": {name: {"variant": "v", "value": name} for name in cells},
            "orders": {"p.c": {name: name for name in cells}},
        }
    )
    claims = {"p.c": Claim(id="p.c", engine="sim", published=published, accept={"order": tuple(cells)})}
    (verdict,) = judge(figure, {name: cell(name, values) for name, values in cells.items()}, claims, "sim")
    return verdict


def test_five_seeds_that_differ_by_little_more_than_two_standard_errors_are_tied() -> None:
    """2.5 standard errors; with four degrees of freedom a difference by chance is up to 2.8."""
    spread = [-2.0, -1.0, 0.0, 1.0, 2.0]
    standard_error = statistics.stdev(spread) / 5**0.5

    def above(standard_errors: float) -> list[float]:
        return [value + standard_errors * standard_error for value in spread]

    assert judged_order({}, small=above(2.5), large=[0.0] * 5).ok
    assert not judged_order({}, small=above(2.9), large=[0.0] * 5).ok


def test_an_order_does_not_stand_in_for_numbers_that_are_printed() -> None:
    published = {"hdd": 0.5, "nvm": 0.67}
    assert judged_order(published, hdd=[0.45], nvm=[0.7]).ok
    verdict = judged_order(published, hdd=[-0.05], nvm=[0.4])
    assert not verdict.ok
    assert verdict.found.why == "hdd: -0.05 has the wrong sign, 0.5 is published; nvm: -40% from the published 0.67"
    assert judged_order({"hdd": 0.0}, hdd=[0.01], nvm=[0.7]).ok, "there is no distance from 0"


# ---- measuring ----


def summary(**completions: float) -> dict[str, object]:
    jobs = [{"name": name, "completion_s": value, "margin_s": 100 - value} for name, value in completions.items()]
    return {"jobs": jobs, "makespan_s": max(completions.values())}


def test_cells_are_means_over_the_runs() -> None:
    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"v": {}, "alone": {}},
            "cells": {
                "x": {"variant": "v", "value": "jobs.x.completion_s", "published": 100.0},
                "sooner": {"variant": "v", "values": ("jobs.x.completion_s", "jobs.y.completion_s"), "take": "least"},
                "later": {"variant": "v", "values": ("jobs.x.completion_s", "jobs.y.completion_s"), "take": "most"},
                "met": {"variant": "v", "values": ("jobs.x.margin_s", "jobs.y.margin_s"), "take": "met"},
                "alone": {"variant": "alone", "value": "jobs.x.completion_s", "scale": 0.5},
                "over": {"cell": "x", "over": "alone"},
                "less": {"cell": "x", "less": "later"},
                "less over": {"cell": "later", "less": "x", "over": "x", "scale": 100},
                "none": {"variant": "v", "value": "jobs.z.completion_s"},
            },
        }
    )
    summaries = {"v": {1: summary(x=90, y=110), 2: summary(x=120, y=80)}, "alone": {1: summary(x=70)}}
    found = measure(figure, summaries, {})
    assert (found["x"].mean, found["x"].n, found["x"].error) == (105, 2, pytest.approx(0.05))
    assert found["x"].sd == pytest.approx(450**0.5)
    assert (found["sooner"].mean, found["later"].mean, found["met"].mean) == (85, 115, 1)
    assert (found["alone"].mean, found["alone"].sd) == (35, None)
    assert (found["over"].mean, found["over"].by_seed) == (3, {1: pytest.approx(90 / 35)})
    assert found["over"].interval is None
    assert (found["less"].mean, found["less"].by_seed) == (-10, {1: -20, 2: 0})
    assert found["less over"].mean == pytest.approx(100 * 10 / 105)
    assert (found["none"].mean, found["none"].n) == (None, 0)


def test_intervals_of_means_and_of_ratios_of_means() -> None:
    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"v": {}, "alone": {}},
            "cells": {
                "x": {"variant": "v", "value": "jobs.x.completion_s"},
                "alone": {"variant": "alone", "value": "jobs.x.completion_s"},
                "over": {"cell": "x", "over": "alone"},
            },
        }
    )
    twice = {"v": {seed: summary(x=2.0 * seed) for seed in (8, 10, 12)}}
    found = measure(figure, {**twice, "alone": {seed: summary(x=float(seed)) for seed in (8, 10, 12)}}, {})
    assert found["x"].interval == (pytest.approx(20 - 4.3027 * 4 / 3**0.5, abs=1e-3), pytest.approx(29.937, abs=1e-3))
    assert found["over"].interval == (pytest.approx(2), pytest.approx(2)), "exactly twice with every seed"
    assert found["over"].mean == pytest.approx(2)


def differing(seed_jobs: dict[str, tuple[str, float, str]]) -> dict[str, object]:
    jobs = [
        {"name": name, "queue": queue, "completion_s": took_s, "margin_s": 50 - took_s, "state": state}
        for name, (queue, took_s, state) in seed_jobs.items()
    ]
    return {"jobs": jobs}


def test_differences_are_those_of_the_same_job_in_runs_of_the_same_seed() -> None:
    def compared(**difference: object) -> dict[str, object]:
        return {"variant": "v", "difference": {"against": "w", **difference}}

    figure = FigureDefinition.model_validate(
        {
            **_FIGURE,
            "variants": {"v": {}, "w": {}},
            "cells": {
                "sooner": compared(queue="p", share={"at_most": -5}),
                "later": compared(queue="p", share={"at_least": 5}),
                "below": compared(share={"below": 0}),
                "margin": compared(by="margin_s", share={"above": 0}),
                "medians": compared(queue="p", between="medians"),
                "means": compared(queue="p", between="means"),
                "nobody": compared(queue="q", share={"below": 0}),
                "middle": compared(queue="p", percentile=50),
                "quarter": compared(queue="p", percentile=25),
                "least": compared(queue="p", nth=1),
                "most": compared(queue="p", nth=-1),
                "second": compared(queue="p", nth=-2),
            },
        }
    )
    ok = "succeeded"
    v = {
        "a": ("p", 10.0, ok),
        "b": ("p", 20.0, ok),
        "c": ("p", 30.0, ok),
        "d": ("r", 40.0, ok),
        "e": ("p", 1.0, "failed"),
    }
    w = {"a": ("p", 15.0, ok), "b": ("p", 14.0, ok), "c": ("p", 31.0, ok), "d": ("r", 40.0, ok), "e": ("p", 9.0, ok)}
    second = {"a": ("p", 10.0, ok), "d": ("r", 3.0, ok)}
    runs = {
        "v": {1: differing(v), 2: differing(second), 3: differing(v)},
        "w": {1: differing(w), 2: differing(second)},
    }
    found = measure(figure, runs, {})
    third = pytest.approx(100 / 3)
    assert found["sooner"].by_seed == {1: third, 2: 0}, "one of a, b and c; e failed, and seed 3 has no other side"
    assert found["later"].by_seed == {1: third, 2: 0}
    assert found["below"].by_seed == {1: 50, 2: 0}
    assert found["margin"].by_seed == {1: 50, 2: 0}
    assert found["medians"].by_seed == {1: 5, 2: 0}, "20 and 15"
    assert found["means"].by_seed == {1: 0, 2: 0}
    assert found["nobody"].mean is None
    assert [found[name].by_seed[1] for name in ("least", "middle", "second", "most")] == [-5, -1, -1, 6]
    assert found["quarter"].by_seed == {1: -3, 2: 0}, "halfway between -5 and -1; seed 2 has one job"
    assert found["second"].by_seed[2] == 0, "of one job: that one"


def test_epsilon_is_met_from_where_it_stays_met() -> None:
    grid = {"variants": ("epsilon",), "points": {point: {"deadline": 87.0} for point in ("0", "0.5", "1", "1.5")}}
    figure = FigureDefinition.model_validate(
        {**_FIGURE, "variants": {**_FIGURE["variants"], "epsilon": {}}, "grid": grid}
    )
    summaries = {
        "epsilon-0": {1: summary(x=90)},  # met, but lost again after it
        "epsilon-0.5": {1: summary(x=110), 2: summary(x=95)},
        "epsilon-1": {1: summary(x=110), 2: summary(x=85)},
        "epsilon-1.5": {1: summary(x=60)},
    }
    assert first_met(figure, ("jobs.x.margin_s",), summaries) == 1.0
    assert first_met(figure, ("jobs.y.margin_s",), summaries) is None


def test_cells_that_only_a_paper_has_are_measured_by_its_function() -> None:
    """The overhead grows by a fifth a point, as straight as what is swapped; without a spread there is no line."""
    figure = all_figures()["os-assisted/fig4"]
    assert figure.grid is not None
    summaries: dict[str, dict[int, dict[str, Any]]] = {"wait": {}, "kill": {}}
    for place, point in enumerate(figure.grid.points):
        slow = {"makespan_s": 200.0, "swap_bytes": 0, "jobs": [{"name": "high", "completion_s": 100.0}]}
        mine = slow | {"swap_bytes": place, "jobs": [{"name": "high", "completion_s": 100.0 + 20 * place}]}
        summaries |= {f"wait-{point}": {1: slow}, f"kill-{point}": {1: slow}, f"suspend-{point}": {1: mine}}
    found = measure(figure, summaries, {}, straightness(figure, summaries))
    assert found["sojourn over swapped bytes, r squared"].mean == pytest.approx(1)
    assert found["makespan over swapped bytes, r squared"].mean is None
    own = {figure.id: [cell for cell in figure.cells.values() if cell.own] for figure in all_figures().values()}
    for id in (id for id, cells in own.items() if cells):
        assert set(own_cells(all_figures()[id], {})) == {n for n, cell in all_figures()[id].cells.items() if cell.own}


def test_a_figure_has_a_form_or_a_function_that_draws_it() -> None:
    assert {id for id, figure in all_figures().items() if figure.plot is None} == set(DRAWINGS)


# ---- the whole ----


def small(path: Path, id: str, variant: str, engine: str) -> tuple[FigureDefinition, dict[str, list[Variant]]]:
    """A figure of one small run."""
    (path / "small.yaml").write_text(SMALL)
    experiment = load_experiment(path / "small.yaml", [f"engine={engine}", "overheads=hadoop-0.23"])
    cells = {"c": {"variant": variant, "value": "makespan_s"}}
    figure = FigureDefinition.model_validate({**_FIGURE, "id": id, "variants": {variant: {}}, "cells": cells})
    return figure, {id: [Variant(f"{id.replace('/', '-')}-{variant}", experiment, (1,))]}


def made(path: Path, id: str, variant: str) -> Reproduction:
    """That figure, simulated."""
    figure, variants = small(path, id, variant, "sim")
    with CampaignDirectory(path / "out").held() as directory:
        return reproduce([figure], variants, "sim", directory, lambda status: None)


def told_of(path: Path, change: Callable[[dict[str, Any]], None]) -> Reproduction:
    """The figure of a live run that left what a simulation leaves, but for a change to its summary."""
    figure, variants = small(path, "p/f", "v", "live")
    runs, directory = planned_runs(variants["p/f"]), CampaignDirectory(path / "out")
    with directory.held():
        directory.take_plan("reproduce", runs)
    simulated = runs[0].experiment.model_copy(update={"engine": "sim"})
    summary = run_experiment(simulated, directory.run_path(runs[0]), lambda status: None)
    change(summary)
    write_json(directory.run_path(runs[0]) / "summary.json", summary)
    made = sha256_of(directory.run_path(runs[0]) / "summary.json")
    keep_digest(directory.path, runs[0].name, made, directory.inputs.sha256(runs[0].experiment))
    with CampaignDirectory(path / "out").held() as held:
        return reproduce([figure], variants, "live", held, lambda status: None)


def test_a_run_that_another_figure_has_made_is_not_made_again(tmp_path: Path) -> None:
    first, second = made(tmp_path, "p/f", "v"), made(tmp_path, "p/g", "w")
    assert (first.campaign.found_done, second.campaign.found_done) == (0, 1)
    assert [path.name for path in (tmp_path / "out/runs").iterdir()] == ["p-f-v"]
    assert second.figures[0].cells["c"].mean == first.figures[0].cells["c"].mean


@pytest.mark.parametrize(("lag_ms", "disturbed"), [(10, False), (24.9, False), (25.1, True), (100, True)])
def test_a_disturbed_run_is_marked(tmp_path: Path, lag_ms: float, disturbed: bool) -> None:
    def late(summary: dict[str, Any]) -> None:
        late_s = lag_ms * 20 / 1000
        summary["lag"] = {"p99_real_ms": lag_ms, "p99_emulated_s": late_s, "within_bound": late_s <= 0.5}

    found = told_of(tmp_path, late)
    place = columns(found.figures[0]).index("seeds")
    assert [row.texts[place] for row in rows(found.figures[0])] == ["1, 1 disturbed" if disturbed else "1"]
    said = [line for line in closing_lines(found) if line.startswith("disturbed")]
    assert len(said) == disturbed
    assert all(line.endswith("out/runs/p-f-v/seed-1") for line in said)


def test_a_live_run_stands_beside_its_simulation_and_says_what_took_too_long(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def slow(summary: dict[str, Any]) -> None:
        summary["makespan_s"] *= 1.1
        for job in summary["jobs"]:
            job["completion_s"] *= 1.05
        summary["overheads"]["schedule_s"] |= {"overruns": 3, "mean": 7.25}

    found = told_of(tmp_path, slow)
    (figure,) = found.figures
    assert figure.cells["c"].mean == pytest.approx(1.1 * (figure.simulated["c"].mean or 0))
    (row,) = rows(figure)
    assert row.texts[columns(figure).index("simulated")] == f"{figure.simulated['c'].mean:.1f}"
    assert len(row.texts) == len(columns(figure))
    n = next(iter(figure.summaries["v"].values()))["overheads"]["schedule_s"]["n"]
    said = "".join(closing_lines(found))
    assert f"schedule: 3 of {n} took longer than the published time, 7.25 s on average" in said
    assert f"p/f: {len(figure.fidelity.errors)} completion times of jobs are 4.8% from simulations" in said
    assert not made(tmp_path_factory.mktemp("x"), "p/f", "v").figures[0].simulated, (
        "a simulation has no need of another"
    )


def test_a_table_that_is_counted_in_a_trace_needs_no_runs(tmp_path: Path) -> None:
    run_natjam("reproduce", "adaptive-checkpointing/table1", "--out", tmp_path)
    ((claim,),) = [figure["claims"] for figure in json.loads((tmp_path / "claims.json").read_text())["figures"]]
    assert claim["id"] == "ckpt.table1.preempted_pct"
    assert claim["measured"]["free"] > 5 > claim["measured"]["production"]
    assert (tmp_path / "adaptive-checkpointing-table1.png").read_bytes().startswith(b"\x89PNG")
    counted = google_preemptions()
    assert sum(hour["all"]["scheduled"] for hour in counted.values()) == 77_238
    for hour in counted.values():
        bands = [hour[band] for band in ("free", "middle", "production")]
        assert sum(band["scheduled"] for band in bands) == hour["all"]["scheduled"]
        assert sum(band["of_preempted"] or 0 for band in bands) in (0, pytest.approx(1))


def test_every_cell_has_a_unit() -> None:
    """But those of functions of one paper, whose names say it."""
    without = [
        f"{figure.id}: {name}"
        for figure in all_figures().values()
        for name, cell in figure.cells.items()
        if not figure.unit(name) and not (cell.own and figure.paper == "reverse-adaptive")
    ]
    assert not [one for one in without if "jobs of mean size" not in one]
    units = {id: {figure.unit(name) for name in figure.cells} for id, figure in all_figures().items()}
    assert units["natjam/fig12"] == {"%", "s"}
    assert units["natjam/fig10"] == {"s", "ratio", "count"}
    assert units["flex/gridmix2"] >= {"min", "ratio"}


@pytest.mark.parametrize(
    ("engine", "seeds", "real_s", "rounds"),
    [
        ("sim", 30, 61, [2, 5, 20, 30]),
        ("sim", 20, 61, [2, 5, 20]),
        ("sim", 2, 61, [2]),
        ("sim", 30, 60, [30]),
        ("live", 5, 61, [1, 3, 5]),
    ],
)
def test_what_takes_long_goes_in_rounds(
    tmp_path: Path, engine: str, seeds: int, real_s: float, rounds: list[int]
) -> None:
    _, variants = small(tmp_path, "p/f", "v", engine)
    few = {"p/g": [replace(one, seeds=(1,)) for one in variants["p/f"]]}
    many = {"p/f": [replace(one, seeds=tuple(range(1, seeds + 1))) for one in variants["p/f"]]}
    assert rounds_of({**few, **many}, engine, real_s) == rounds


def test_each_round_writes_a_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.reproduce.run.LONG_WORK_REAL_S", 0.0)
    written: list[tuple[str, int, bool]] = []
    write = page.write_results

    def seen(reproduction: Reproduction, results: Results, path: Path) -> None:
        write(reproduction, results, path)
        (figure,) = read_results(path / "claims.json").figures
        written.append((figure.command, figure.seeds, "natjam/fig10" in (path / "index.html").read_text()))

    monkeypatch.setattr(page, "write_results", seen)
    result = run_natjam("reproduce", "natjam/fig10", "--seeds", "3", "--out", tmp_path)
    command = "natjam reproduce natjam/fig10 --engine sim --seeds"
    assert written == [(f"{command} {seeds}", seeds, True) for seeds in (2, 3)]
    assert f"round 1 of 2 is done, with 2 seeds of each figure; the page: {tmp_path / 'index.html'}" in result.output
    assert "round 2 of 2" in result.output
    assert len(list((tmp_path / "runs").glob("*/seed-*"))) == 3 * len(all_figures()["natjam/fig10"].settings)


def test_a_figure_comes_out_as_table_plots_claims_and_page(tmp_path: Path) -> None:
    arguments = ["reproduce", "natjam/fig4", "--seeds", "3", "--out", str(tmp_path)]
    result = run_natjam(*arguments)
    assert "natjam.research" in result.output
    made = read_results(tmp_path / "claims.json")
    (figure,) = made.figures
    assert (figure.id, figure.engine, figure.seeds) == ("natjam/fig4", "sim", 3)
    assert figure.command == "natjam reproduce natjam/fig4 --engine sim --seeds 3"
    research_s = figure.cells["natjam.research"]
    assert research_s.low is not None
    assert research_s.low < (research_s.measured or 0)
    claims = [claim.model_dump() for claim in figure.claims]
    assert {entry["id"] for entry in claims} == set(all_figures()["natjam/fig4"].claims)
    assert all({"id", "published", "measured", "accept", "ok"} <= set(entry) for entry in claims)
    orders = {entry["id"]: entry for entry in claims if "order" in entry["accept"]}
    assert all(entry["ok"] for entry in orders.values())
    research = orders["natjam.fig4.research_order"]["measured"]
    assert research["natjam"] < research["kill"] < research["hardcap"]
    verdicts = [entry["ok"] for entry in claims]
    assert f"simulated: {len(claims)} claims: {verdicts.count(True)} held" in result.output
    assert (f"{verdicts.count(None)} undecided" in result.output) is (None in verdicts)
    errors = [
        abs(cell.measured / cell.published - 1) for cell in figure.cells.values() if cell.published and cell.measured
    ]
    over_all = f"{statistics.fmean(errors):.1%} over all cells with a published figure ({len(errors)})"
    said = f"over cells of claims on a distance (7), {over_all}; the largest is {max(errors):.1%}"
    assert said in result.output
    assert (tmp_path / "natjam-fig4.png").read_bytes().startswith(b"\x89PNG")
    assert xml.etree.ElementTree.parse(tmp_path / "natjam-fig4.svg").getroot().tag.endswith("svg")
    page = (tmp_path / "index.html").read_text()
    assert "<svg" in page
    assert "<h1>Published and simulated</h1>" in page
    assert "measured</th>" not in page, "a simulation is no measurement"
    assert "<td>natjam.research over alone</td><td>ratio</td>" in page
    assert "<td>natjam.research</td><td>s</td>" in page
    assert re.search(r"<td>Fig. 5</td><td>[^<]+</td><td>not run in this call</td>", page)
    assert re.search(r"<td>Fig. 4</td><td>[^<]+</td><td>reproduced</td><td>natjam reproduce natjam/fig4</td>", page)
    assert '<a href="#natjam/fig4">' in page
    assert '<h3 id="natjam/fig4">' in page
    assert "with 0.5 s in place of 1 s it is 5.8 s" in page, "why the farthest values are far away"
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#)', page), "it needs nothing from elsewhere"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/summary.json")}
    again = invoked(*arguments, "--strict")
    assert again.exit_code == (1 if any(entry["ok"] is False for entry in claims) else 0)
    assert read_results(tmp_path / "claims.json").figures[0].cells == figure.cells
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is made twice"
