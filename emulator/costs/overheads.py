"""Overhead profiles: the costs of scheduling, suspending and resuming a task on a published system.  Storage tiers: the
speed of the device for process images.

A profile pads the emulation to a total, heartbeat waits included, in emulated time.  *schedule* and *resume*
run from the later of (request at the ResourceManager, container free) to the first key; *suspend* from the
ApplicationMaster asking the task to the container free at the ResourceManager.

A profile may instead give the time of a *launch* alone, from the order to the first key (for an ApplicationMaster, to
its start), and of the *cleanup* of a killed task, during which its container stays taken.  Waits for containers and
heartbeats then come from the emulation.

``natjam probe`` writes a profile of one program, with the stores that it has measured, for ``storage.tier``.

A tier is one of those that come with natjam (``storage_tiers.yaml``), ``native`` (this machine's, as measured by
``natjam measure``; live runs are then not slowed down), the user's own numbers, or a file of ``natjam probe``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from emulator.core.settings import OverheadSettings
from emulator.costs.calibration_file import default_path, is_calibration, is_file_spec, load_calibration
from emulator.errors import ConfigError
from emulator.files.problems import suggestion, validated
from emulator.files.strict import Strict
from emulator.files.times import in_machine_units
from emulator.files.yaml_positions import read_document
from emulator.vocabulary import Tier

if TYPE_CHECKING:
    from emulator.costs.calibration import Series

PROBE_KEY = "natjam_probe"
LARGEST_OVERHEAD_S = 1e6
_LARGEST_MB_S = 1e6
_LARGEST_LATENCY_MS = 1e6
LARGEST_AT_ONCE = 16


class TierNumbers(Strict):
    """A storage tier in a file; MB is 10^6 bytes."""

    write_mb_s: float = Field(gt=0, le=_LARGEST_MB_S, allow_inf_nan=False)
    read_mb_s: float = Field(gt=0, le=_LARGEST_MB_S, allow_inf_nan=False)
    network_mb_s: float | None = Field(default=None, gt=0, le=_LARGEST_MB_S, allow_inf_nan=False)
    """Speed to another node; null: the cluster's ``network_mbit_s``."""
    latency_ms: float = Field(default=0.0, ge=0, le=_LARGEST_LATENCY_MS, allow_inf_nan=False)
    """Delay of each dump and each restore before its first byte."""
    at_once: int = Field(default=1, ge=1, le=LARGEST_AT_ONCE)
    """Most dumps and restores of a node at the same time; they share the device's speed."""


class OverheadNumbers(Strict):
    """Totals of an overhead profile in a file, in emulated seconds."""

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    schedule_s: float = Field(ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    suspend_s: float = Field(ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    resume_s: float = Field(ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    launch_s: float = Field(default=0, ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    launch_more_s: float = Field(default=0, ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    application_start_s: float = Field(default=0, ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    cleanup_s: float = Field(default=0, ge=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    amrm_client: bool = False
    heartbeat_s: float | None = Field(default=None, gt=0, le=LARGEST_OVERHEAD_S, allow_inf_nan=False)
    """Heartbeat period with which they were measured, for the reader's information."""


class ProbeFile(OverheadNumbers):
    """An overhead profile, with the measured stores."""

    natjam_probe: Literal[1]
    tiers: dict[str, TierNumbers]


NATIVE = "native"
"""The profile that pads nothing: a run has the overheads of its machine."""


def profile_names() -> list[str]:
    """Names of the profiles that come with natjam, ``native`` first."""
    folder = resources.files("emulator.costs") / "profiles"
    files = (entry.name for entry in folder.iterdir())
    return [NATIVE, *sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))]


def load_overheads(spec: str, base_dir: Path) -> OverheadSettings:
    """The profile that ``overheads:`` names: ``native``, one that comes with natjam, or a file.

    A calibration file (``emulator.costs.calibration``) is accepted too and pads nothing.

    Args:
        spec: name, or path of a YAML file (relative to ``base_dir``) with ``name``, ``source``,
            ``schedule_s``, ``suspend_s``, ``resume_s``, optionally ``heartbeat_s``, in emulated seconds.
        base_dir: directory that a relative path starts from.

    Raises:
        ConfigError: no such profile or file, or a missing or impossible number in it.
    """
    if spec == NATIVE:
        return OverheadSettings()
    if is_file_spec(spec):
        return _read_profile(base_dir / spec)
    names = profile_names()
    if spec not in names:
        raise ConfigError(
            f"there is no overhead profile '{spec}'{suggestion(spec, names)}"
            f" (profiles: {', '.join(names)}; the name of a file must have a '/' or '.yaml' in it)"
        )
    with resources.as_file(resources.files("emulator.costs") / "profiles" / f"{spec}.yaml") as path:
        return _read_profile(path)


def _read_profile(path: Path) -> OverheadSettings:
    document = read_document(path)
    if is_calibration(document):
        load_calibration(path)
        return OverheadSettings()  # a calibration has costs of a machine, not totals to pad to
    profile = validated(document, ProbeFile if PROBE_KEY in document.data else OverheadNumbers)
    return in_machine_units(OverheadSettings, profile)


# ---- storage tiers ----


class _TierFile(Strict):
    source: str = Field(min_length=1)
    tiers: dict[str, TierNumbers] = Field(min_length=1)


def tier_names() -> list[str]:
    """Names of the tiers that come with natjam, and ``native``."""
    return [*_shipped().tiers, NATIVE]


def load_tier(spec: str | TierNumbers, base_dir: Path = Path()) -> Tier:
    """The tier that ``storage.tier`` names.

    Args:
        spec: a name, numbers, or a file of ``natjam probe`` (relative to ``base_dir``),
            ``FILE:STORE`` if it has several stores.

    Raises:
        ConfigError: there is no such tier, file or store, or a number is missing or impossible.
    """
    if not isinstance(spec, str):
        return _tier("own", spec)
    if spec == NATIVE:
        return _native()
    shipped = _shipped().tiers
    if spec in shipped:
        return _tier(spec, shipped[spec])
    path, _, store = spec.rpartition(":") if spec.rpartition(":")[0] else (spec, "", "")
    if is_file_spec(path):
        return _of_file(base_dir / path, store)
    names = tier_names()
    raise ConfigError(
        f"there is no storage tier '{spec}'{suggestion(spec, names)} (tiers: {', '.join(names)}; the name of a file of"
        " natjam probe must have a '/' or '.yaml' in it)"
    )


def _of_file(path: Path, store: str) -> Tier:
    tiers = validated(read_document(path), ProbeFile).tiers
    if store and store not in tiers:
        raise ConfigError(f"{path}: has no store '{store}'{suggestion(store, tiers)} (stores: {', '.join(tiers)})")
    if not tiers:
        raise ConfigError(f"{path}: has no store; run natjam probe where images can be written")
    if not store and len(tiers) > 1:
        raise ConfigError(f"{path}: has several stores; name one as {path}:STORE ({', '.join(tiers)})")
    name = store or next(iter(tiers))
    return _tier(name, tiers[name])


def _tier(name: str, numbers: TierNumbers, held: bool = True) -> Tier:
    network = numbers.network_mb_s
    return Tier(
        name,
        write_bytes_s=_bytes_s(numbers.write_mb_s),
        read_bytes_s=_bytes_s(numbers.read_mb_s),
        network_bytes_s=None if network is None else _bytes_s(network),
        latency_ns=round(numbers.latency_ms * 1e6),
        at_once=numbers.at_once,
        held=held,
    )


def _bytes_s(mb_s: float) -> int:
    return max(1, round(mb_s * 1e6))


def _shipped() -> _TierFile:
    with resources.as_file(resources.files("emulator.costs") / "storage_tiers.yaml") as path:
        return validated(read_document(path), _TierFile)


def _native() -> Tier:
    path = default_path()
    series = load_calibration(path).series
    if series.storage_read is None:
        raise ConfigError(f"{path}: was measured before natjam measured reads; run 'natjam measure' again")
    write, read = _speed(series.storage_write), _speed(series.storage_read)
    return _tier(NATIVE, TierNumbers(write_mb_s=write, read_mb_s=read), held=False)


def _speed(series: Series) -> float:
    """MB a second, at the largest measured size."""
    largest = series.points[-1]
    return largest.at * 1e3 / max(1, largest.distribution.p50_real_ns[0])
