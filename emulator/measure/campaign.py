"""The measurement campaign: its parts, what is kept when it is stopped, and its results.

Theory of operation
-------------------
Each part measures some operations, and at its end writes its samples to ``parts/`` as Parquet.  A campaign that was
stopped continues with the first part that is not done.  It starts from the beginning if the machine, the software or
the kind of campaign has changed.  When all parts are done, the samples are combined and summarised, and ``parts/`` is
removed.

Everything is started under a run id, with a janitor: if this process dies, its processes and files are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pyarrow

from emulator.core.job import JobSpec
from emulator.costs.calibration import (
    FORMAT_VERSION,
    Calibration,
    Campaign,
    Distribution,
    MeasuredSeries,
    MemorySpeeds,
    Observations,
    Operations,
    Point,
    Series,
    dump_calibration,
    this_machine,
)
from emulator.display.work_display import WorkStatus
from emulator.errors import ConfigError, RunError
from emulator.files.json_values import decoded
from emulator.files.whole_files import NAME_ANOTHER, claimed_directory, replaced_whole, writing
from emulator.measure.cluster import measure_cluster
from emulator.measure.files import measure_files
from emulator.measure.host import make_job, records_of, run_of_its_own
from emulator.measure.processes import (
    REFERENCE_KEYS,
    REFERENCE_MAPS,
    measure_memory,
    measure_processes,
    measure_residents,
)
from emulator.measure.samples import Part, Samples, Surroundings, summarise

CALIBRATION_NAME, SAMPLES_NAME, PLOT_NAME = "calibration.yaml", "samples.parquet", "distributions.png"
ROUNDS, QUICK_ROUNDS = 300, 100

PARTS = (
    Part("processes", measure_processes, real_s=24, quick_real_s=8),
    Part("files", measure_files, real_s=60, quick_real_s=7),
    Part("crowds", measure_residents, real_s=60, quick_real_s=11),
    Part("swap", measure_memory, real_s=20, quick_real_s=6),
    Part("cluster", measure_cluster, real_s=44, quick_real_s=22),
)
_BY = {
    "fetch_by_records": "records",
    "fetch_by_requests": "requests",
    "map_by_records": "records",
    "fork": "residents",
    "key_lag": "residents",
}
"""The quantity a series is measured over, where it is not bytes."""


def run_campaign(out_dir: Path, quick: bool, on_status: Callable[[WorkStatus], None]) -> Calibration:
    """Measure, or continue measuring, into ``out_dir``; writes calibration, samples and a plot there.

    Raises:
        ConfigError: the directory cannot be written, or another process measures into it.
        RunError: something could not be measured.
    """
    with claimed_directory(out_dir, is_continued=lambda: True):
        return _continued(out_dir, quick, on_status)


def _continued(out_dir: Path, quick: bool, on_status: Callable[[WorkStatus], None]) -> Calibration:
    kept = _Kept(out_dir, quick)
    times = [part.quick_real_s if quick else part.real_s for part in PARTS]
    clock = _Clock(times, on_status)
    for index, part in enumerate(PARTS):
        clock.begin(index)
        if not kept.has(part.name):
            kept.keep(part.name, _measure(part, quick, lambda done, part=part: clock.at(part.name, done)))
        clock.end(index)
    on_status(WorkStatus("summing up", 1.0, 0.0))
    samples = Samples()
    for part in PARTS:
        samples.extend(kept.samples(part.name))
    calibration = _sum_up(samples, quick, kept.facts)
    _leave(out_dir, samples, calibration)
    kept.drop()
    return calibration


def _measure(part: Part, quick: bool, progress: Callable[[float], None]) -> Samples:
    try:
        with run_of_its_own() as (run_id, directory):
            return part.measure(Surroundings(run_id, directory, QUICK_ROUNDS if quick else ROUNDS, quick, progress))
    except OSError as error:
        raise RunError(f"measuring {part.name} failed: {error.strerror}: {error.filename}") from error


class _Clock:
    """Estimates how much of a campaign is done and left, from the usual and the actual times of its parts."""

    def __init__(self, times: list[float], on_status: Callable[[WorkStatus], None]) -> None:
        self._times = times
        self._on_status = on_status
        self._expected_s = self._spent_s = 0.0
        """Usual and actual times of the parts measured by this call."""
        self._index = 0
        self._began_s = 0.0

    def begin(self, index: int) -> None:
        self._index, self._began_s = index, time.monotonic()

    def end(self, index: int) -> None:
        spent_s = time.monotonic() - self._began_s
        if spent_s > 0.1:  # otherwise the part was done by an earlier call
            self._expected_s += self._times[index]
            self._spent_s += spent_s

    def at(self, part: str, done: float) -> None:
        own_s = self._times[self._index]
        before_s, after_s = sum(self._times[: self._index]), sum(self._times[self._index + 1 :])
        pace = self._spent_s / self._expected_s if self._expected_s else 1.0
        spent_s = time.monotonic() - self._began_s
        own_left_s = spent_s * (1 - done) / done if done > 0.2 else max(0.0, own_s * pace - spent_s)
        fraction = (before_s + own_s * done) / sum(self._times)
        self._on_status(WorkStatus(part, fraction, own_left_s + after_s * pace))


class _Kept:
    """The samples that a campaign keeps of its parts until all are done."""

    def __init__(self, out_dir: Path, quick: bool) -> None:
        self._directory = out_dir / "parts"
        facts_path = self._directory / "campaign.json"
        wanted = {
            "quick": quick,
            "machine": this_machine().model_dump(),
            "ray_address": os.environ.get("RAY_ADDRESS"),
        }
        with writing(out_dir, ConfigError, NAME_ANOTHER):
            facts: dict[str, Any] = {}
            with contextlib.suppress(FileNotFoundError, ConfigError):
                facts = decoded(facts_path.read_bytes(), msgspec.json.Decoder(dict[str, Any]).decode, ConfigError)
            is_known = isinstance(facts.get("load_average"), int | float)
            if not is_known or {name: facts.get(name) for name in wanted} != wanted:
                shutil.rmtree(self._directory, ignore_errors=True)
                facts = {**wanted, "load_average": round(os.getloadavg()[0], 2)}
            self._directory.mkdir(parents=True, exist_ok=True)
            facts_path.write_text(json.dumps(facts))
        self.facts = facts

    def _path(self, part: str) -> Path:
        return self._directory / f"{part}.parquet"

    def has(self, part: str) -> bool:
        """Whether a part is done and its samples can be read."""
        try:
            return bool(Samples.read(self._path(part)).values)
        except (OSError, ValueError, pyarrow.ArrowException):
            return False

    def keep(self, part: str, samples: Samples) -> None:
        """Store the samples of a part that is done."""
        with writing(self._path(part)):
            samples.write(self._path(part))

    def samples(self, part: str) -> Samples:
        """The samples of a part."""
        return Samples.read(self._path(part))

    def drop(self) -> None:
        """Remove everything kept; the campaign is over."""
        shutil.rmtree(self._directory, ignore_errors=True)


def _sum_up(samples: Samples, quick: bool, facts: dict[str, Any]) -> Calibration:
    reference: JobSpec = make_job("reference", REFERENCE_MAPS, 1, REFERENCE_KEYS)
    return Calibration(
        natjam_calibration=FORMAT_VERSION,
        machine=this_machine(),
        campaign=Campaign(
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            quick=quick,
            hosts=len(samples.of("hosts")),
            reference_records=records_of(reference),
            load_average=facts["load_average"],
        ),
        operations=Operations(**{name: _distribution(samples, name) for name in Operations.model_fields}),
        observations=Observations(**{name: _distribution(samples, name) for name in Observations.model_fields}),
        series=MeasuredSeries(**{name: _series(samples, name) for name in MeasuredSeries.model_fields}),
        memory=_memory_speeds(samples),
    )


def _memory_speeds(samples: Samples) -> MemorySpeeds:
    """The median speeds; without those of swap if it could not be measured."""
    found = {}
    for name in ("memory_write", "memory_read", "swap_out", "swap_in"):
        for size_bytes in samples.places(name):
            median_real_ns = summarise(samples.of(name, size_bytes)).p50_real_ns[0]
            found[f"{name}_bytes_s"] = max(1, size_bytes * 10**9 // max(1, median_real_ns))
    return MemorySpeeds(**found)


def _distribution(samples: Samples, name: str, at: int | None = None) -> Distribution:
    values = samples.of(name, at)
    if not values:
        raise RunError(f"the campaign has no samples of '{name}'; run it again")
    return summarise(values)


def _series(samples: Samples, name: str) -> Series:
    points = tuple(Point(at=at, distribution=_distribution(samples, name, at)) for at in samples.places(name))
    if not points:
        raise RunError(f"the campaign has no samples of '{name}'; run it again")
    return Series.model_validate({"by": _BY.get(name, "bytes"), "points": points})


def _leave(out_dir: Path, samples: Samples, calibration: Calibration) -> None:
    """Write the results, the calibration last: if it exists, all results do."""
    with writing(out_dir):
        samples.write(out_dir / SAMPLES_NAME)
        plot_samples(samples, calibration, out_dir / PLOT_NAME)
        with replaced_whole(out_dir / CALIBRATION_NAME) as unfinished:
            unfinished.write_text(dump_calibration(calibration))


_COLUMNS = 5
_POINTS = 400
"""Steps of a curve; more would not be visible."""


def plot_samples(samples: Samples, calibration: Calibration, path: Path) -> None:
    """Write a PNG with the cumulative distribution of every operation, in milliseconds; each series has one panel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [*Operations.model_fields, *Observations.model_fields, *MeasuredSeries.model_fields]
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(3.2 * _COLUMNS, 2.2 * rows))
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, _COLUMNS).flatten()
    by = {name: series.by for name, series in calibration.series if series}
    for name, panel in zip(names, panels, strict=False):
        _plot(panel, samples, name, by.get(name))
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    machine = calibration.machine
    figure.suptitle(
        f"{machine.cpu_model}, {machine.cores} cores, {machine.kernel}: share of samples (0 to 1) by milliseconds"
    )
    figure.subplots_adjust(left=0.03, right=0.99, bottom=0.03, top=0.94, wspace=0.2, hspace=0.45)
    figure.savefig(path, format="png", dpi=80)


def _plot(panel: Any, samples: Samples, name: str, by: str | None) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    places: list[int | None] = [*samples.places(name)] or [None]
    for at in places:
        values = numpy.sort(numpy.asarray(samples.of(name, at), dtype=float)) / 1e6
        shares = numpy.linspace(0, 1, min(_POINTS, len(values)))
        label = None if at is None else f"{at:,}"
        panel.plot(numpy.quantile(values, shares), shares, linewidth=1, label=label)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=6))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_title(name if by is None or by in name else f"{name} by {by}", fontsize=8)
    panel.tick_params(labelsize=6)
    panel.grid(alpha=0.3, linewidth=0.5)
    if places != [None]:
        panel.legend(fontsize=5, frameon=False)
