"""Every table of the product, in narrow and wide windows: no number and no name is ever cut."""

from __future__ import annotations

import ast
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.table import Table

from analysis import before_after, cluster_packing, compare, explain, trace_outcomes, workload_report
from analysis.advise import kueue
from analysis.advise.candidates import Candidate, make_question
from analysis.advise.outcomes import CandidateResult, CandidateResults
from analysis.advise.report import advice_table, decision_table
from analysis.advise.slurm import SiteResult, results_table
from analysis.advise.verdict import Ratio, Reason, Rival, Verdict
from analysis.demo import run as demo
from analysis.fidelity import report as fidelity_report
from analysis.fidelity.figures import Drift, Fidelity, FileFidelity, Metric
from analysis.frames import pandas
from analysis.report.differences import differences_of, differences_table
from analysis.report.variants import campaign_table, find_variants
from analysis.reproduce.cells import ALL
from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import chosen_figures
from analysis.reproduce.measure import measure
from analysis.reproduce.reproduced import Reproduced
from analysis.reproduce.scores import Score, score_table
from analysis.reproduce.tables import figure_table, list_table
from analysis.reproduce.values import PaperValues, Value
from analysis.reproduce.verdict import judge
from analysis.run_paths import find_runs, read_summary
from analysis.statistics import Spread
from emulator.chaos.runner import Tally
from emulator.chaos.schedule import FaultKind
from emulator.cli import advise, chaos, engines, imports, machine, main, play, start
from emulator.core.job import JobSpec
from emulator.core.messages import JobState
from emulator.core.settings import NodeSettings
from emulator.costs.probe_result import ImageCost, Probed, StoreCost
from emulator.display import closing_tables, run_display, status
from emulator.display.tables import FittedTable, Kind, names, new_table, numbers, words
from emulator.live.probe.process import MemoryUse
from emulator.live.session.doctor import Finding
from emulator.policies.schedulers.play import Outcome
from emulator.vocabulary import HOUR_NS, SECOND_NS, JobFacts, TaskGroup, Work
from tests.calibrations import make_calibration
from tests.simulated_runs import FIG4, simulate
from tests.traces import GOOGLE
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.inspection import inspect_trace
from workloads.yarn.settings import LeftOut

ROOT = Path(__file__).resolve().parents[2]
MAKERS = {"new_table", "new_facts", "Table", "grid", "Progress"}
"""What makes a table; the second and third are for rich's own class, the last for a line of a bar and texts."""
JOB = "reporting-of-the-whole-quarter-2009"
SECONDS = 123456789.25


# ---- a table in a window ----


def shown(parts: Iterable[RenderableType], width: int, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), width=width, record=True, force_terminal=terminal, _environ={})
    for part in parts:
        console.print(part)
    return console.export_text()


def figures() -> Table:
    table = new_table(
        "figures", [*names("job"), *numbers("p50", importance=3), *numbers("p95", "p99", "kills"), *words("why")]
    )
    table.add_row(
        JOB, f"{SECONDS:.1f}", f"{SECONDS + 1:.1f}", f"{SECONDS + 2:.1f}", "0", "because it had most time left of all"
    )
    return table


def test_the_least_important_columns_go_first_and_are_named() -> None:
    wide, narrow, narrowest = (shown([figures()], width) for width in (140, 90, 76))
    assert "not shown, only 0 or -: kills" in wide
    assert "not shown in" not in wide
    assert "not shown in 90 columns: p99 (a wider window, or '| less -S', shows all)" in narrow
    assert "not shown in 76 columns: p95; p99" in narrowest
    assert all(f"{SECONDS:.1f}" in text and JOB in text for text in (wide, narrow, narrowest))


def test_a_window_too_narrow_for_the_most_important_columns_has_a_block_for_each_row() -> None:
    lines = shown([figures()], 44).splitlines()
    assert f"job: {JOB}" in [line.rstrip() for line in lines]
    assert "why: because it had most time left of all" in [line.rstrip() for line in lines]
    assert max(map(len, lines)) <= 44


def test_output_that_is_no_terminal_has_every_column() -> None:
    heads = [f"{percent / 10:.1f}%" for percent in range(40)]
    table = new_table(None, [*names("job"), *numbers(*heads)])
    table.add_row(JOB, *(f"{SECONDS:.2f}" for _ in heads))
    text = shown([table], 1000, terminal=False)
    assert all(head in text for head in heads)
    assert text.count(f"{SECONDS:.2f}") == len(heads)


def test_cells_are_words_and_never_markup() -> None:
    table = new_table("[bold]title[/]", words("job"))
    table.add_row("[red]job[/]")
    assert "[red]job[/]" in shown([table], 80)
    assert "[bold]title[/]" in shown([table], 80)


# ---- every table of every command ----


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated repeats of two variants; long names, and a deadline."""
    directory = tmp_path_factory.mktemp("runs")
    names = [f"workload.jobs.{number}.name={JOB}-{number}" for number in (0, 1)]
    for mechanism in ("suspend", "kill"):
        name = f"{mechanism}-with-a-name-that-is-long"
        simulate(
            directory, name, "repeats=2", f"scheduler.mechanism={mechanism}", "workload.jobs.1.deadline_s=100", *names
        )
    return directory


def summaries(runs: Path) -> list[dict]:
    return [read_summary(run.path) for run in find_runs([runs])]


def closing(runs: Path) -> Iterator[RenderableType]:
    """A live run, a simulation, one of many jobs, and repeats."""
    one = summaries(runs)[0]
    yield from closing_tables.closing_tables(one)
    output = {"verified": True, "keys_expected": 10**9, "keys_written": 10**9}
    large = [
        {**one["jobs"][0], "name": f"{JOB}-{n}", "completion_s": SECONDS, "lost_work_s": SECONDS} for n in range(40)
    ]
    cost = {"n": 10**7, **dict.fromkeys(("mean", "p50", "p95", "p99"), SECONDS), "overruns": 10**6}
    parts = {key: {"p50": SECONDS, "p99": SECONDS} for key in ("heartbeat", "key", "mechanism", "total")}
    costs = {"checkpoint_s": {**cost, "real_ms": parts}}
    groups = [
        {**large[0], "job": large[0]["name"], "group": f"{JOB[:36]}-{n}", "tasks": 10**5, "succeeded": 10**5}
        for n in range(3)
    ]
    yield from closing_tables.closing_tables(
        {**one, "engine": "live", "jobs": large, "groups": groups, "overheads": costs, "output": output}
    )
    yield from closing_tables.closing_tables(read_summary_of_repeats(runs))


def read_summary_of_repeats(runs: Path) -> dict:
    return json.loads(next(runs.glob("*/summary.json")).read_text())


def compared(runs: Path) -> Iterator[RenderableType]:
    a, b = sorted(runs.iterdir())
    found = compare.compare_runs(a, b)
    yield compare.comparison_table(found)
    yield compare.totals_table(found)


def explained(runs: Path) -> Iterator[RenderableType]:
    for run in find_runs([runs])[::2]:
        whole = explain.explain(run.path)
        yield explain.evictions_table(whole)
        yield from (
            table for _, table in explain.choices(explain.explain(run.path, attempt=whole.evictions[0].attempt))
        )


def fidelity(runs: Path) -> Iterator[RenderableType]:
    metrics = tuple(
        Metric(f"{JOB}-{n}", "completion_s", (SECONDS, SECONDS + 1), ((SECONDS,), (SECONDS,))) for n in (1, 2)
    )
    choices = (("mechanism", "checkpoint"), ("task eviction", "reverse-adaptive-slack"))
    file = FileFidelity("experiment-of-a-long-name", 1000, 1, choices, metrics, {f"{JOB}-1": SECONDS})
    yield fidelity_report.file_table(file)
    yield fidelity_report.choices_table(Fidelity((file,)))
    drifts = [Drift("experiment", JOB, 10.0**n, SECONDS, SECONDS, 0.0123, -0.1234) for n in range(6)]
    yield from fidelity_report.drift_tables(drifts)[:1]


def reproduced(runs: Path) -> Iterator[RenderableType]:
    claims = all_claims()
    for figure in chosen_figures([ALL]):
        by_seed = dict.fromkeys(range(1000), SECONDS)
        cells = {
            name: replace(cell, mean=SECONDS, by_seed=by_seed) for name, cell in measure(figure, {}, claims).items()
        }
        verdicts = judge(figure, cells, claims, "sim")
        yield figure_table(Reproduced(figure, "live", cells, verdicts, {}, {}, cells, Fidelity(())))


def scored(runs: Path) -> Iterator[RenderableType]:
    value = Value(
        id="fig8.waste-of-the-smallest-jobs.hdd", where="section 5.3.1, Fig. 8", says="so", published=SECONDS,
        scale="pct", basis="predicted", cell="natjam/fig4:kill.research",
    )  # fmt: skip
    paper = PaperValues(paper="adaptive-checkpointing", figures=(), values=(value,))
    yield score_table(paper, [Score(value, "natjam/fig4", -SECONDS, -2 * SECONDS, SECONDS, 50)], "sim")


def listed(runs: Path) -> Iterator[RenderableType]:
    figures = chosen_figures([ALL])
    yield list_table(figures, {engine: {figure.id: 12345 for figure in figures} for engine in ("sim", "live")})


def inspected(runs: Path) -> Iterator[RenderableType]:
    trace = open_trace(GOOGLE, "google", Problems(lenient=True))
    yield from workload_report.report(inspect_trace(trace), trace)


def traced(runs: Path) -> Iterator[RenderableType]:
    of = {f"{JOB}-{n}": trace_outcomes.JobOutcome(SECONDS, 12345678, SECONDS * 1e3) for n in (1, 2)}
    two = {f"{JOB}-run-{n}": of for n in (1, 2)}
    yield from trace_outcomes.tables(trace_outcomes.JobOutcomes(of, two, dict(zip(of, (1, 11), strict=True)), False))


def advised(runs: Path) -> Iterator[RenderableType]:
    one = Candidate("checkpoint-resume", "checkpoint", "resume: locality, task: lrt", {})
    amounts: dict[str, float] = dict.fromkeys(("swap_gb", "checkpoint_gb", "storage_gb", "energy_mj"), SECONDS)
    row = CandidateResult(one, 5, 0, SECONDS, SECONDS, SECONDS, 10**6, 10**6, SECONDS, 0.1234, amounts)
    found = CandidateResults((row, replace(row, failed=5)), pandas.DataFrame())
    yield advice_table(make_question(FIG4, [], None), found, None)
    far = Ratio(12.345, -0.9876, 98.765)
    rival = Rival(row, far, far, far, far, far, Reason.TIMES, True)
    yield decision_table(Verdict(row, True, rival, (rival, replace(rival)), (), (), 5))


def lived(runs: Path) -> Iterator[RenderableType]:
    kinds = ("production_live_s", "production_simulated_s", "others_live_s", "others_simulated_s")
    yield advise._live_table([{"name": "checkpoint-resume-locality-task-lrt", **dict.fromkeys(kinds, SECONDS)}])


def shaken(runs: Path) -> Iterator[RenderableType]:
    tally = Tally(seeds=10**6)
    for kind in FaultKind:
        tally.happened[kind], tally.costs[kind] = 10**9, [(10**15, 10**15)]  # type: ignore[list-item]
    tally.jobs[JobState.SUCCEEDED] = 10**9
    yield chaos._table(tally)


def probed(runs: Path) -> Iterator[RenderableType]:
    cost = ImageCost(10**15, 10**15, SECONDS, SECONDS)
    store = StoreCost("a-share-of-the-department", True, 12345.0, 12345.0, cost, cost)
    memory = MemoryUse(processes=1, resident_bytes=1, own_bytes=1, swapped_bytes=1)
    yield from machine.probe_tables(Probed(("sleep",), 1, memory, 1, 1, "criu", "soft-dirty", (store,), ()))


def played(runs: Path) -> Iterator[RenderableType]:
    waits_ns, completions_ns = [12345 * SECOND_NS, 123456 * SECOND_NS], [1234567 * SECOND_NS]
    outcome = Outcome(10**6, 10**6, waits_ns, completions_ns, 12345, 12345 * HOUR_NS)
    modes, idle = ("as configured", "a-partition-of-research=SUSPEND"), Outcome(1)
    jobs = [((mode, name), each) for mode in modes for name, each in (("a-partition", outcome), ("high", idle))]
    yield play.outcome_table(("PreemptMode", "partition"), play.JOB_FIGURES, jobs)
    pods = [(("system-node-critical", f"{2 * 10**9:,}"), outcome), (("-", "0"), idle)]
    yield play.outcome_table(("class", "priority"), play.POD_FIGURES, pods)


def results_of_a_site(runs: Path) -> Iterator[RenderableType]:
    times = (12345.0, 123456.0, 1234567.0, 12345, 12345, 12345.67, 0.123)
    saved = SiteResult("REQUEUE, saved", "15 min", "15 min", "every 15 min", *times)
    yield results_table([SiteResult("OFF", "0", "0", "-", None, None, None, 0, 0, 0.0, 0.0), saved])


def minimum_runtimes(runs: Path) -> Iterator[RenderableType]:
    long = Spread(20, 123456.7, 1.0, 12345.6, 234567.8)
    yield kueue.results_table([kueue.KueueResult("15 min", long, long, long, long, 20)])


def evictions_before_and_after(runs: Path) -> Iterator[RenderableType]:
    one = before_after.Evicted(f"{JOB}-1", "a-queue-of-research", 1234567.0, f"{JOB}-2", 123456.0)
    sides = [
        before_after.Side([one], {one.queue: [123456.0]}, Counter({one.queue: 1234567})),
        before_after.Side(waits_s={one.queue: []}, jobs=Counter({one.queue: 1})),
    ]
    found = before_after.BeforeAfter(*sides)
    yield before_after.queues_table(found)
    yield from before_after.changes_tables(found)


def shown_while_running(runs: Path) -> Iterator[RenderableType]:
    job = status.JobStatus(f"{JOB}-1", "a-queue-of-research", "running", 1234, 1234, 1234, 1234, 4936)
    used = {"a-queue-of-research": 1234, "production": 1234}
    yield run_display.render_status(status.RunStatus(10**15, SECONDS, 20.0, "running", (job,), 4936, used, 99, 1.5), 30)


def campaign(runs: Path) -> Iterator[RenderableType]:
    found = find_variants([run.run for run in find_runs([runs])], summaries(runs))
    yield campaign_table(found)
    differences = differences_of(found)
    assert differences is not None
    yield differences_table(differences)


NOTE = LeftOut("yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.enabled", "1", "why", "a:1")
FINDING = Finding("criu", True, "4.1 " * 30, "")


def packed(runs: Path) -> Iterator[RenderableType]:
    nodes = [NodeSettings("n", "r", 1, 0, 0, 0, 0, resources=(10**9, 10**9), resource_names=("cpu", JOB))]
    groups = (TaskGroup("map", 9, Work.SHUFFLE, request=(1, 10**8)),)
    facts = [JobFacts(f"{JOB}-{number}", "q", groups, gang=9) for number in range(2)]
    packing = cluster_packing.packing_of([JobSpec(each, 0, (10**15,) * 9, (), ()) for each in facts], nodes)
    return (part for part in cluster_packing.tables(packing) if not isinstance(part, str))


CASES: dict[str, Callable[[Path], Iterable[RenderableType]]] = {
    "analysis.advise.report.advice_table": advised,
    "analysis.advise.report.decision_table": advised,
    "analysis.compare.comparison_table": compared,
    "analysis.compare.totals_table": compared,
    "analysis.demo.run._table": lambda _: [demo_table()],
    "analysis.explain._candidate_table": explained,
    "analysis.explain.evictions_table": explained,
    "analysis.fidelity.report.choices_table": fidelity,
    "analysis.fidelity.report.drift_tables": fidelity,
    "analysis.fidelity.report.file_table": fidelity,
    "analysis.reproduce.scores.score_table": scored,
    "analysis.reproduce.tables.figure_table": reproduced,
    "analysis.reproduce.tables.list_table": listed,
    "analysis.trace_outcomes._by_job": traced,
    "analysis.trace_outcomes._grouped": traced,
    "analysis.workload_report._bars": inspected,
    "analysis.workload_report._columns": inspected,
    "analysis.workload_report._counts": inspected,
    "analysis.workload_report._distributions": inspected,
    "analysis.workload_report._evictions": inspected,
    "analysis.workload_report._hours": inspected,
    "emulator.cli.advise._live_table": lived,
    "emulator.cli.chaos._table": shaken,
    "emulator.cli.engines._operations_table": lambda _: [
        engines._operations_table(make_calibration(10**9, 3 * 10**12))
    ],
    "emulator.cli.imports._notes_table": lambda _: [
        imports._notes_table("assumed", [LeftOut("yarn.a.long.key", "1", "why")])
    ],
    "emulator.cli.machine._findings_table": lambda _: [
        machine._findings_table([Finding("criu", True, "4.1 " * 30, "")])
    ],
    "emulator.cli.main._policies_table": lambda _: [main._policies_table()],
    "emulator.cli.start._examples_table": lambda _: [start._examples_table()],
    "emulator.cli.play.outcome_table": played,
    "analysis.advise.kueue.results_table": minimum_runtimes,
    "analysis.advise.slurm.results_table": results_of_a_site,
    "analysis.before_after.queues_table": evictions_before_and_after,
    "analysis.before_after._changes_table": evictions_before_and_after,
    "analysis.cluster_packing._gangs": packed,
    "analysis.cluster_packing._requests": packed,
    "analysis.cluster_packing._resources": packed,
    "emulator.display.closing_tables._metrics_table": closing,
    "emulator.display.closing_tables.closing_tables": closing,
    "emulator.display.grids.on_terminal": campaign,
    "emulator.cli.machine._images_table": probed,
    "emulator.display.run_display.__rich_console__": shown_while_running,
}
"""By the function that makes the table."""
MADE: dict[Callable[[Path], Iterable[RenderableType]], list[RenderableType]] = {}
"""What was made, for the next width."""


def demo_table() -> Table:
    table = demo._table()
    table.add_row("checkpoint (Natjam)", *[f"{SECONDS} (+123.4%)", f"{SECONDS}"] * 2, "12345", "12345678", "verified")
    return table


def made_in() -> set[str]:
    """The functions that make a table."""
    found = set()
    for path in (path for folder in ("analysis", "emulator", "workloads") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if ("display.tables import" not in text and "rich" not in text) or path == ROOT / "emulator/display/tables.py":
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
            called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            if MAKERS & {getattr(one, "id", getattr(one, "attr", "")) for one in called}:
                found.add(f"{module}.{function.name}")
    return found


def test_every_table_is_tried() -> None:
    bars = {"emulator.display.work_display.progress_bar"}
    assert made_in() - bars == set(CASES), "a table that is new here needs a case"


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("make", dict.fromkeys(CASES.values()), ids=lambda make: make.__name__)
def test_no_number_and_no_name_is_cut(runs: Path, make: Callable[[Path], Iterable[RenderableType]], width: int) -> None:
    if make not in MADE:
        MADE[make] = list(make(runs))
    for part in MADE[make]:
        text = shown([part], width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
        if isinstance(part, FittedTable):
            check(part, text, width)


def check(table: FittedTable, text: str, width: int) -> None:
    """Each figure and each name is whole, or its column is named below the table."""
    heads = [" ".join(str(spec.head).split()) for spec in table.specs if spec.head]
    assert len(set(heads)) == len(heads), "a column that is named below the table must be told from the others"
    below = " ".join(text.replace("\n", " ").split())
    for spec, column in zip(table.specs, table.columns, strict=True):
        head = " ".join(str(spec.head).split())
        is_left_out = any(head in line for line in below.split("not shown, only 0 or -:")[1:]) or (
            f"not shown in {width} columns:" in below and head in below.partition(f"not shown in {width} columns:")[2]
        )
        for cell in column.cells:
            lines = [line for line in str(cell).split("\n") if len(line) <= width - 10]
            if spec.kind is not Kind.WORDS and not is_left_out:
                assert all(line.strip() in text for line in lines), (head, str(cell))


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_column_of_a_simulation_is_all_zero(runs: Path, width: int) -> None:
    for table in closing_tables.closing_tables(summaries(runs)[0]):
        for line in zip(*rows_of(shown([table], width)), strict=True):
            assert not all(cell in ("0", "0.000", "-") for cell in line), line


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
