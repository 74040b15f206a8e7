"""Storage tiers: the speed of the device for process images.

A tier is one of those that come with natjam (``storage_tiers.yaml``), ``native`` (this machine's, as measured by
``natjam measure``; live runs are then not slowed down), the user's own numbers, or a file of ``natjam probe``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from emulator.costs.calibration_file import default_path, is_file_spec, load_calibration
from emulator.costs.overheads import NATIVE, ProbeFile, TierNumbers
from emulator.errors import ConfigError
from emulator.files.problems import suggestion, validated
from emulator.files.strict import Strict
from emulator.files.yaml_positions import read_document
from emulator.vocabulary import Tier

if TYPE_CHECKING:
    from emulator.costs.calibration import Series


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
