"""The figures of a report, all from ``summary.json``: headline, queues, jobs, overheads, each with its text.

Figures that the summary has are not computed here; figures computed from its jobs equal
``analysis.metrics.queue_metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from emulator.display.closing_tables import WORK_KEPT
from emulator.records.checked_output import what_was_checked, what_was_not_checked
from emulator.records.disturbance import disturbances
from emulator.records.history import percentiles
from emulator.records.summary import ended_well, shown_state

_Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: its exact value, and the text to show."""

    value: float | int | str | None
    text: str
    tone: str = ""
    """``good``, ``bad`` or nothing."""

    @property
    def is_text(self) -> bool:
        """Whether it is left-aligned, as words are."""
        return isinstance(self.value, str)


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure."""

    label: str
    cell: Cell
    note: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def is_text(self, column: int) -> bool:
        """Whether a column has words."""
        return bool(self.rows) and self.rows[0][column].is_text


def text(value: object, tone: str = "") -> Cell:
    """A cell with text."""
    return Cell(str(value), str(value), tone)


def figure(value: float | None, unit: str = "") -> Cell:
    """A number with three or four significant digits, or a dash for None, as in the terminal's tables."""
    if value is None:
        return Cell(None, "-")
    if isinstance(value, int):
        return Cell(value, f"{value:,}{unit}")
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return Cell(value, f"{value:,.{decimals}f}{unit}")


def percent(value: float | None) -> Cell:
    """A share as percent."""
    return Cell(value, "-" if value is None else f"{100 * value:.1f}%")


def size(count_bytes: int) -> Cell:
    """A number of bytes in a suitable unit."""
    amount = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return Cell(count_bytes, f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}")
        amount /= 1024
    raise AssertionError


def failed_jobs(jobs: Iterable[Mapping[str, Any]]) -> Cell:
    """How many jobs did not end as they were to."""
    count = sum(not ended_well(job) for job in jobs)
    return Cell(count, str(count), "bad" if count else "")


def mean_completion_s(jobs: Iterable[Mapping[str, Any]]) -> float | None:
    """Of the jobs that have ended; None if there are none."""
    known = [job["completion_s"] for job in jobs if job["completion_s"] is not None]
    return sum(known) / len(known) if known else None


# ---- one run ----


def headline(summary: _Summary) -> list[Tile]:
    """The most important figures."""
    jobs, work, lag = summary["jobs"], summary["work"], summary["lag"]
    failed = sum(not ended_well(job) for job in jobs)
    cancelled = sum(shown_state(job) == "cancelled" for job in jobs)
    ended = [f"{failed} did not succeed"] * bool(failed) + [f"{cancelled} cancelled by their scheduler"] * bool(
        cancelled
    )
    suspensions, kills = (sum(job[name] for job in jobs) for name in ("suspensions", "kills"))
    tiles = [Tile("state", text("failed", "bad"), summary["reason"])] if summary.get("state") == "failed" else []
    tiles += [Tile("disturbed", text("disturbed", "bad"), reason) for reason in disturbances(summary)[:1]]
    tiles += [
        Tile("makespan", figure(summary["makespan_s"], " s"), f"emulated, in {figure(summary['real_s']).text} s real"),
        Tile("jobs", figure(len(jobs)), "; ".join(ended) or "all succeeded"),
        Tile("utilization", percent(work["utilization"]), "of the cluster, until the last job ended"),
        Tile("work lost", percent(work["wasted_fraction"]), f"{figure(work['lost_s']).text} s had no result"),
        Tile("preempted", figure(suspensions), "work kept"),
        Tile("killed", figure(kills), "work lost, done again"),
    ]
    with_deadline = [job for job in jobs if job["deadline_s"] is not None]
    if with_deadline:
        missed = sum(_missed(job) for job in with_deadline)
        tiles.append(Tile("deadlines missed", figure(missed), f"of {len(with_deadline)}"))
    output = summary["output"]
    if output is not None:
        tiles.append(_output_tile(output))
        tiles.append(Tile("lag, p99", figure(lag["p99_real_ms"], " ms"), "of timers, real"))
    return tiles


def _output_tile(output: Mapping[str, Any]) -> Tile:
    if not output["verified"]:
        wrong = ", ".join(f"{output[f'files_{kind}']} {kind}" for kind in ("differing", "missing", "extra"))
        return Tile("output", text("differs", "bad"), f"files: {wrong}")
    checked, unchecked = what_was_checked(output), what_was_not_checked(output)
    if not unchecked:
        return Tile("output", text("verified", "good"), checked)
    said = [checked] if checked else []
    return Tile(
        "output", text("unchanged" if checked else "not checked"), "; ".join([*said, f"not checked: {unchecked}"])
    )


def _missed(job: Mapping[str, Any]) -> bool:
    return job["state"] != "succeeded" or job["margin_s"] < 0


def queues(summary: _Summary) -> Grid:
    """One row for each queue."""
    by_queue: dict[str, list[Mapping[str, Any]]] = {}
    for job in summary["jobs"]:
        by_queue.setdefault(job["queue"], []).append(job)
    heads = ("queue", "jobs", "failed", "mean completion, s", "p50", "p95", "max")
    more = ("deadlines", "missed", WORK_KEPT, "kills", "lost work, s")
    return Grid((*heads, *more), tuple(tuple(_queue_row(queue, jobs)) for queue, jobs in by_queue.items()))


def _queue_row(queue: str, jobs: Sequence[Mapping[str, Any]]) -> Iterable[Cell]:
    completions = numpy.array([job["completion_s"] for job in jobs if job["completion_s"] is not None], dtype=float)
    some = len(completions) > 0
    with_deadline = [job for job in jobs if job["deadline_s"] is not None]
    yield text(queue)
    yield figure(len(jobs))
    yield failed_jobs(jobs)
    yield figure(float(completions.mean()) if some else None)
    yield from map(figure, percentiles(completions, (50, 95, 100)))
    yield figure(len(with_deadline))
    yield figure(sum(_missed(job) for job in with_deadline))
    yield figure(sum(job["suspensions"] for job in jobs))
    yield figure(sum(job["kills"] for job in jobs))
    yield figure(float(sum(job["lost_work_s"] for job in jobs)))


JOB_COLUMNS = (
    *(("name", "job"), ("queue", "queue"), ("state", "state"), ("submit_s", "submitted, s"), ("start_s", "started, s")),
    *(("finish_s", "finished, s"), ("completion_s", "completion, s"), ("deadline_s", "deadline, s")),
    *(("margin_s", "margin, s"), ("attempts", "attempts"), ("suspensions", WORK_KEPT), ("kills", "kills")),
    ("lost_work_s", "lost work, s"),
)
"""Keys in the summary, and heads; deadlines only if a job has one."""


def jobs(summary: _Summary) -> Grid:
    """One row for each job, in the summary's order."""
    deadlines = any(job["deadline_s"] is not None for job in summary["jobs"])
    columns = [column for column in JOB_COLUMNS if deadlines or column[0] not in ("deadline_s", "margin_s")]
    rows = tuple(tuple(_job_cell(job, key) for key, _ in columns) for job in summary["jobs"])
    return Grid(tuple(head for _, head in columns), rows)


_GROUP_COLUMNS = (
    *(("job", "job"), ("group", "group"), ("tasks", "tasks"), ("succeeded", "succeeded"), ("start_s", "started, s")),
    *(("finish_s", "finished, s"), ("attempts", "attempts"), ("suspensions", WORK_KEPT), ("kills", "kills")),
    ("lost_work_s", "lost work, s"),
)


def groups(summary: _Summary) -> Grid:
    """One row for each group of tasks of the jobs that have others than maps, reduces and programs."""
    found = summary.get("groups", ())
    rows = tuple(tuple(_cell(group[key]) for key, _ in _GROUP_COLUMNS) for group in found)
    return Grid(tuple(head for _, head in _GROUP_COLUMNS), rows)


def _cell(value: Any) -> Cell:
    return text(value) if isinstance(value, str) else figure(value)


def _job_cell(job: Mapping[str, Any], key: str) -> Cell:
    value = job[key]
    if key == "state":
        reason = f": {job['reason']}" if job["reason"] else ""
        return Cell(value, shown_state(job) + reason, "" if ended_well(job) else "bad")
    if key == "margin_s" and value is not None and value < 0:
        return Cell(value, figure(value).text, "bad")
    return _cell(value)


def overheads(summary: _Summary) -> Grid:
    """One row for each operation."""
    heads = ("operation", "n", "mean, s", "p50", "p95", "p99", "overruns")
    real = ("heartbeat", "key", "mechanism", "total")
    rows = []
    for name, cost in summary["overheads"].items():
        row = [text(name.removesuffix("_s").replace("_", " ")), figure(cost["n"])]
        row += [figure(cost[column]) for column in ("mean", "p50", "p95", "p99")]
        row.append(figure(cost["overruns"]))
        row += [figure(cost["real_ms"][part][which]) for part in real for which in ("p50", "p99")]
        rows.append(tuple(row))
    return Grid((*heads, *(f"{part} {which}, real ms" for part in real for which in ("p50", "p99"))), tuple(rows))


def facts(summary: _Summary) -> list[tuple[str, Cell]]:
    """Other facts, by name."""
    lag, output = summary["lag"], summary["output"]
    rows = [
        ("useful work", figure(summary["work"]["useful_s"], " s")),
        ("lost work", figure(summary["work"]["lost_s"], " s")),
        ("dumps and restores", figure(summary["work"].get("overhead_s"), " s")),
        ("energy", figure(summary.get("energy_j"), " J")),
        ("checkpoints written", size(summary["checkpoint_bytes"])),
        *_storage(summary.get("storage") or {}),
        ("swapped out", size(summary["swap_bytes"])),
    ]
    transactional = summary.get("transactional")
    if transactional is not None:
        rows += [
            ("withheld for the transactional workload", figure(transactional["withheld_container_s"], " container s")),
            ("of that held by jobs all the same", figure(transactional["shortfall_container_s"], " container s")),
        ]
    if (web := summary.get("web")) is not None:
        rows.append(("requests to the web service", _plain(web["requests"])))
        rows.append(("of these failed", _plain(web["failed"])))
        for name in ("p50", "p95", "p99"):
            rows.append((f"latency {name}, real", figure(web[f"{name}_real_ms"], " ms")))
            rows.append((f"while jobs give way, {name}", figure(web["preempting"][f"{name}_real_ms"], " ms")))
    if output is not None:
        rows += [(name.replace("_", " "), _plain(output[name])) for name in output if name != "verified"]
        rows += [(f"lag {name.removesuffix('_real_ms')}, real", figure(lag[name], " ms")) for name in _LAGS]
        rows.append(("lag p99, emulated", figure(lag["p99_emulated_s"], " s")))
        if "within_bound" in lag:
            rows.append(("lag bound", _against(lag["within_bound"], lag["bound_emulated_s"])))
        if (gaps := lag.get("gaps")) and (bound_s := lag.get("gap_bound_emulated_s")) is not None:
            longest_s = gaps[0]["emulated_s"]
            rows.append((f"longest standstill, emulated ({gaps[0]['process']})", figure(longest_s, " s")))
            rows.append(("standstill bound", _against(longest_s <= bound_s, bound_s)))
    rows += [(f"machine {machine['name']}", text(_machine(machine))) for machine in summary["machines"]]
    rows += [(name, text(version)) for name, version in summary["versions"].items()]
    return rows


def _against(is_within: bool, bound_s: float) -> Cell:
    """Whether something was within its bound."""
    word = "within" if is_within else "beyond"
    return Cell(word, f"{word} {figure(bound_s).text} s", "" if is_within else "bad")


def _storage(storage: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    """Where images of processes are saved."""
    if storage.get("io_fraction") is None:
        return []
    return [
        ("storage, the most at a time", size(storage["peak_bytes"])),
        ("storage devices in use", percent(storage["io_fraction"])),
    ]


_LAGS = ("p50_real_ms", "p99_real_ms", "max_real_ms")


def _plain(value: Any) -> Cell:
    return figure(len(value)) if isinstance(value, list | tuple) else figure(value)


def _machine(machine: Mapping[str, Any]) -> str:
    return f"clock {machine['clock_offset_ns']:+,} ns, hosts {', '.join(machine.get('hosts', ()))}"


# ---- several runs ----


def overview(labels: Sequence[str], summaries: Sequence[_Summary]) -> Grid:
    """One row for each run."""
    heads = ("run", "seed", "makespan, s", "jobs", "failed", "mean completion, s", "utilization", "work lost")
    rows = []
    for label, summary in zip(labels, summaries, strict=True):
        found = summary["jobs"]
        row = [text(label), Cell(summary["seed"], str(summary["seed"])), figure(summary["makespan_s"])]
        row += [figure(len(found)), failed_jobs(found), figure(mean_completion_s(found))]
        row += [percent(summary["work"][name]) for name in ("utilization", "wasted_fraction")]
        row += [figure(sum(job[name] for job in found)) for name in ("suspensions", "kills")]
        row.append(text("disturbed", "bad") if disturbances(summary) else text(""))
        rows.append(tuple(row))
    return Grid((*heads, WORK_KEPT, "kills", "note"), tuple(rows))
