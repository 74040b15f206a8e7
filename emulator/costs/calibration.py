"""The calibration file: what each operation costs on one machine, as ``natjam measure`` found it.

The file is YAML and read with every field checked.  All times are *real* nanoseconds; a simulation multiplies them by
its time scale.

    natjam_calibration: 1
    machine: {machine_id, cpu_model, cores, memory_bytes, kernel, python, natjam}
    campaign: {measured_at, quick, hosts, reference_records, load_average}
    operations: {<name>: <distribution>}       # the names of ``Operations``: what a simulation draws from
    observations: {<name>: <distribution>}     # the names of ``Observations``
    series: {<name>: {by: bytes|records|requests|residents, points: [{at, distribution}]}}   # of ``MeasuredSeries``
    memory: {<name>: bytes a real second}      # the names of ``MemorySpeeds``

A distribution is ``n`` (samples), ``mean_real_ns`` and its 95% confidence interval, ``p50_real_ns``, ``p95_real_ns``
and ``p99_real_ns``, each as [value, low, high] with a 95% interval, and ``quantiles_real_ns``: the values at
``QUANTILE_LEVELS_PPM``, straight lines between them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
from bisect import bisect_right
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emulator import __version__
from emulator.files.strict import Strict
from emulator.files.yaml_values import dump_yaml

Text = Annotated[str, Field(min_length=1, max_length=300)]
_LOOK_REAL_S = 0.5
BUSY_SHARE = 0.25
"""If other programs use a larger share of the cores than this, measurements are too slow."""


class Fingerprint(Strict):
    """One machine and the software on it; the same after a reboot."""

    machine_id: Text
    """Hash of the operating system's id of this installation; the id itself must not be published."""
    cpu_model: Text
    cores: Annotated[int, Field(ge=1, le=10**6)]
    memory_bytes: Annotated[int, Field(ge=1, le=10**18)]
    kernel: Text
    python: Text
    natjam: Text

    def differences(self, here: Fingerprint) -> list[str]:
        """How this machine (of a file) differs from ``here``, in words; memory sizes within 2% are equal."""
        found = []
        for name in Fingerprint.model_fields:
            there, mine = getattr(self, name), getattr(here, name)
            if name == "memory_bytes":
                if abs(there - mine) > mine // 50:
                    found.append(f"memory {there >> 20} MiB there, {mine >> 20} MiB here")
            elif there != mine:
                found.append(f"{name.replace('_', ' ')} {there} there, {mine} here")
        return found


FORMAT_VERSION = 1
OLD_DAYS = 30
"""An older calibration gets a warning: kernels and other users of a machine change."""

_STEP_PPM = 20_000
_EVEN_LEVELS = 50
QUANTILE_LEVELS_PPM = (*range(0, _EVEN_LEVELS * _STEP_PPM, _STEP_PPM), 990_000, 995_000, 999_000, 1_000_000)
"""The levels of the quantiles, in millionths: evenly spaced up to 98%, then the tail."""
_LEVELS_PPB = tuple(level * 1000 for level in QUANTILE_LEVELS_PPM)
PPB = 10**9

LONGEST_REAL_NS = 3600 * 10**9
Duration = Annotated[int, Field(ge=0, le=LONGEST_REAL_NS)]
Mean = Annotated[float, Field(ge=0, le=LONGEST_REAL_NS, allow_inf_nan=False)]


class Distribution(Strict):
    """The times of many repetitions of one operation, in real nanoseconds; see the module's docstring."""

    n: Annotated[int, Field(ge=1, le=10**12)]
    mean_real_ns: Mean
    mean_ci95_real_ns: tuple[Mean, Mean]
    p50_real_ns: tuple[Duration, Duration, Duration]
    p95_real_ns: tuple[Duration, Duration, Duration]
    p99_real_ns: tuple[Duration, Duration, Duration]
    quantiles_real_ns: Annotated[
        tuple[Duration, ...], Field(min_length=len(QUANTILE_LEVELS_PPM), max_length=len(QUANTILE_LEVELS_PPM))
    ]

    @model_validator(mode="after")
    def _possible(self) -> Distribution:
        quantiles = self.quantiles_real_ns
        for place, (one, other) in enumerate(itertools.pairwise(quantiles), start=1):
            if one > other:
                raise ValueError(f"quantiles_real_ns: number {place + 1} ({other}) is below the one before ({one})")
        for name in ("mean_ci95_real_ns", "p50_real_ns", "p95_real_ns", "p99_real_ns"):
            *_, low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name}: the interval's end ({high}) is below its start ({low})")
        if not quantiles[0] <= self.mean_real_ns <= quantiles[-1]:
            raise ValueError(f"mean_real_ns: {self.mean_real_ns} lies outside {quantiles[0]} to {quantiles[-1]}")
        return self

    def at(self, level_ppb: int) -> int:
        """The quantile at ``level_ppb`` (0 to 10^9), in real nanoseconds."""
        place = min(bisect_right(_LEVELS_PPB, level_ppb), len(_LEVELS_PPB) - 1) - 1
        low_ppb, high_ppb = _LEVELS_PPB[place], _LEVELS_PPB[place + 1]
        low, high = self.quantiles_real_ns[place], self.quantiles_real_ns[place + 1]
        return low + (high - low) * (level_ppb - low_ppb) // (high_ppb - low_ppb)


class Operations(Strict):
    """The operations that a simulation draws from, each with the events between which it is measured."""

    timer_lag: Distribution
    """From a host's timer being due to its machine getting it."""
    message: Distribution
    """From a machine sending a message to a machine on another host getting it."""
    application_start: Distribution
    """From the order at the node to the start of the ApplicationMaster's machine."""
    launch: Distribution
    """From the order at the node until the task's process is forked and the node knows; nothing else is launched."""
    launch_spacing: Distribution
    """Time between launches of many reduces ordered at once, each of which fetches ``campaign.reference_records``."""
    map_begin: Distribution
    """From the map's fork to the start of its work."""
    map_end: Distribution
    """From the end of the map's time and the written output until its node knows of the exit."""
    input_fetch: Distribution
    """From the reduce's fork to its first key; it fetches ``campaign.reference_records`` from another node and merges
    them."""
    input_local: Distribution
    """From the reduce's fork to its first key; its merged input is on its node's disk."""
    commit: Distribution
    """From the end of the reduce's last key until its node knows of the exit."""
    commit_resumed: Distribution
    """As ``commit``, where the output of two attempts is concatenated."""
    suspend: Distribution
    """From the order to suspend at the node until it knows that the process has stopped."""
    resume: Distribution
    """From the order to resume at the node until it knows that the process continues."""
    checkpoint: Distribution
    """From the end of the key in progress until the node knows of the exit."""
    kill: Distribution
    """From the order to kill at the node until it knows of the exit."""


class Observations(Strict):
    """Further operations of interest; no simulation draws from them."""

    signal_stop: Distribution
    """From sending SIGTSTP until the kernel confirms the stop."""
    signal_continue: Distribution
    """From sending SIGCONT until the kernel confirms its effect."""
    heartbeat_round_trip: Distribution
    """From a node sending a heartbeat to the node getting the answer."""
    schedule: Distribution
    """From a container being free and wanted to the first key of its reduce; includes heartbeats of 0.1 s."""


class Point(Strict):
    """One point of a series."""

    at: Annotated[int, Field(ge=0, le=10**18)]
    distribution: Distribution


class Series(Strict):
    """An operation measured at several sizes."""

    by: Literal["bytes", "records", "requests", "residents"]
    points: Annotated[tuple[Point, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _rising(self) -> Series:
        places = [point.at for point in self.points]
        if sorted(set(places)) != places:
            raise ValueError(f"points: their 'at' must increase, not {places}")
        return self


class MeasuredSeries(Strict):
    """Costs by size.  From the first six, a simulation uses how much more a size costs than the smallest one."""

    fetch_by_records: Series
    """A reduce's input of this many small records: as ``input_fetch``."""
    fetch_by_bytes: Series
    """A reduce's input of this many bytes in large records."""
    fetch_by_requests: Series
    """A reduce's input fetched from this many nodes."""
    map_by_records: Series
    """A map writes its output, of this many small records."""
    map_by_bytes: Series
    """A map writes its output, of this many bytes in large records."""
    storage_write: Series
    """A file of this many bytes is written, synced and renamed."""
    storage_read: Series | None = None
    """A file of this many bytes is read from its device; null in files from before natjam measured it."""
    checkpoint_write: Series
    """A checkpoint file of about this many bytes is written, synced and renamed."""
    checkpoint_read: Series
    """The file of ``checkpoint_write`` is read back and checked."""
    fork: Series
    """As ``launch``, with this many processes resident."""
    key_lag: Series
    """How late reducers' keys are with this many reducers at work, ten keys a second each (one alone: a hundred)."""


Speed = Annotated[int, Field(ge=1, le=10**15)]
"""Bytes per real second."""


class MemorySpeeds(Strict):
    """How fast one task alone writes and reads memory: medians of some rounds."""

    memory_write_bytes_s: Speed
    """New memory is written once; it fits in the node's memory."""
    memory_read_bytes_s: Speed
    """What ``memory_write`` has written is read back and checked."""
    swap_out_bytes_s: Speed | None = None
    """New memory is written on a full node, which pages out a stopped task's memory for it; null: not measured."""
    swap_in_bytes_s: Speed | None = None
    """Memory that is completely in swap is read back and checked; null: not measured."""


class Campaign(Strict):
    """How it was measured."""

    measured_at: Annotated[str, Field(min_length=1, max_length=40)]
    quick: bool
    hosts: Annotated[int, Field(ge=1, le=10**6)]
    """Computers of the measured Ray cluster; the nodes of an emulated cluster are spread over them."""
    reference_records: Annotated[int, Field(ge=1, le=10**12)]
    """Records of a reduce's input, unless the operation says otherwise."""
    load_average: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The machine's load in the minute before the campaign began."""

    def age_days(self) -> int | None:
        """Whole days since it was measured; None if its time cannot be read."""
        try:
            measured = datetime.fromisoformat(self.measured_at.replace("Z", "+00:00"))
        except ValueError:
            return None
        now = datetime.now(UTC)
        return (now - (measured if measured.tzinfo else measured.replace(tzinfo=UTC))).days


class Calibration(Strict):
    """One calibration file; see the module's docstring."""

    natjam_calibration: Literal[1]
    machine: Fingerprint
    campaign: Campaign
    operations: Operations
    observations: Observations
    series: MeasuredSeries
    memory: MemorySpeeds | None = None
    """The speeds of memory; null in files from before natjam measured them."""

    def warning(self, path: Path) -> str | None:
        """Why this file may not be right for this machine: measured on another one, under load, or long ago."""
        cores, load, days = self.machine.cores, self.campaign.load_average, self.campaign.age_days()
        said = []
        if differences := self.machine.differences(this_machine()):
            said.append(f"was measured on another machine or with other software ({'; '.join(differences)})")
        if load > BUSY_SHARE * cores:
            said.append(f"was measured under load ({load:g} on {cores} cores), so that its costs are too high")
        if days is None:
            said.append(f"does not say when it was measured ({self.campaign.measured_at!r})")
        elif days > OLD_DAYS:
            said.append(f"is {days} days old ({self.campaign.measured_at})")
        return f"{path}: {', '.join(said)}; run 'natjam measure' to calibrate this machine" if said else None

    def described(self, path: Path) -> dict[str, Any]:
        """The file's machine and age, for the summary of a simulation that uses it."""
        return {
            "path": str(path),
            "measured_at": self.campaign.measured_at,
            "age_days": self.campaign.age_days(),
            "load_average": self.campaign.load_average,
            "machine": self.machine.model_dump(),
            "warning": self.warning(path),
        }


def dump_calibration(calibration: Calibration) -> str:
    """The text of a calibration file, with the numbers of a distribution on one line."""
    return dump_yaml(calibration.model_dump(mode="json"), leaves_in_line=True)


# ---- the machine at hand ----


def this_machine() -> Fingerprint:
    """The machine this runs on."""
    return Fingerprint(
        machine_id=_machine_id(),
        cpu_model=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        python=platform.python_version(),
        natjam=__version__,
    )


def _machine_id() -> str:
    identity = platform.node()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError):
            identity = Path(path).read_text().strip() or identity
            break
    return hashlib.sha256(f"natjam:{identity}".encode()).hexdigest()[:16]


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Processor", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def share_of_others() -> float:
    """The share of this machine's cores that other programs use now; watches them for half a second."""
    import psutil  # here, because every command reads this file, and few ask this

    return psutil.cpu_percent(_LOOK_REAL_S) / 100


def busy_warning() -> str | None:
    """A warning if the machine is busy now; it watches other programs for half a second."""
    share = share_of_others()
    if share <= BUSY_SHARE:
        return None
    return (
        f"other programs use {share:.0%} of this machine's cores: measurements are now too slow, and simulations that "
        "use them too; stop the other programs and measure again"
    )
