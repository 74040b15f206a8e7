"""The headline and other facts of a run's report, and the overview of several, all from ``summary.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.display import grids
from emulator.display.grids import WORK_KEPT, Cell, Grid, figure, in_columns, percent, text
from emulator.display.tables import names, numbers, words
from emulator.records.gaps import disturbances
from emulator.records.measures import failed, has_missed, known, mean, shown_state, total
from emulator.records.summary import what_was_checked, what_was_not_checked
from emulator.vocabulary import Frozen

_Summary = Mapping[str, Any]


class Tile(Frozen):
    """A headline figure."""

    label: str
    cell: Cell
    note: str


def size(count_bytes: int) -> Cell:
    """A number of bytes in a suitable unit."""
    amount = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return Cell(count_bytes, f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}")
        amount /= 1024
    raise AssertionError


# ---- one run ----


def headline(summary: _Summary) -> list[Tile]:
    """The most important figures."""
    jobs, work, lag = summary["jobs"], summary["work"], summary["lag"]
    not_well, cancelled = failed(jobs), sum(shown_state(job) == "cancelled" for job in jobs)
    ended = [f"{not_well} did not succeed"] if not_well else []
    ended += [f"{cancelled} cancelled by their scheduler"] if cancelled else []
    tiles = [Tile("state", text("failed", "bad"), summary["reason"])] if summary.get("state") == "failed" else []
    tiles += [Tile("disturbed", text("disturbed", "bad"), reason) for reason in disturbances(summary)[:1]]
    tiles += [
        Tile("makespan", figure(summary["makespan_s"], " s"), f"emulated, in {figure(summary['real_s'])} s real"),
        Tile("jobs", figure(len(jobs)), "; ".join(ended) or "all succeeded"),
        Tile("utilization", percent(work["utilization"]), "of the cluster, until the last job ended"),
        Tile("work lost", percent(work["wasted_fraction"]), f"{figure(work['lost_s'])} s had no result"),
        Tile("preempted", figure(total(jobs, "suspensions")), "work kept"),
        Tile("killed", figure(total(jobs, "kills")), "work lost, done again"),
    ]
    if deadlines := known(jobs, "deadline_s"):
        tiles.append(Tile("deadlines missed", figure(sum(map(has_missed, jobs))), f"of {len(deadlines)}"))
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
    return Cell(word, f"{word} {figure(bound_s)} s", "" if is_within else "bad")


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
    columns = [*names("run"), *numbers("seed", "makespan, s", "jobs", "failed", "mean completion, s", "utilization")]
    columns += [*numbers("work lost", WORK_KEPT, "kills"), *words("note")]
    rows = []
    for label, summary in zip(labels, summaries, strict=True):
        found = summary["jobs"]
        row = [text(label), Cell(summary["seed"], str(summary["seed"])), figure(summary["makespan_s"])]
        row += [figure(len(found)), grids.failed(found), figure(mean(known(found, "completion_s")))]
        row += [percent(summary["work"][name]) for name in ("utilization", "wasted_fraction")]
        row += [figure(total(found, name)) for name in ("suspensions", "kills")]
        rows.append([*row, text("disturbed", "bad") if disturbances(summary) else text("")])
    return in_columns(columns, rows)
