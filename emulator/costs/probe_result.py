"""The result of a probe: as data, as JSON, and as a profile for experiments."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from emulator.costs.overheads import ProbeFile, TierNumbers
from emulator.files.yaml_values import dump_yaml
from emulator.vocabulary import Tier


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a program, over all its processes."""

    processes: int
    resident_bytes: int
    own_bytes: int
    """Memory shared with no other process: killing it frees this much."""
    swapped_bytes: int


@dataclass(frozen=True, slots=True)
class ImageCost:
    """One dump and the restore from it; real seconds."""

    written_bytes: int
    read_bytes: int
    dump_s: float
    """Time from the stopped process to its image, safe on the store."""
    restore_s: float
    """Time from the image on the store to the process, stopped again; without making the process if only its memory is
    saved."""

    @property
    def break_even_s(self) -> float:
        """Kill a program that has done less than this since it was last saved: its image would cost more."""
        return self.dump_s + self.restore_s


@dataclass(frozen=True, slots=True)
class StoreCost:
    """The cost of images on one store: measured, or computed from its speed."""

    name: str
    measured: bool
    write_mb_s: float
    read_mb_s: float
    full: ImageCost
    incremental: ImageCost
    """Made a second after the full one, with only the changed pages."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What preempting a program costs here.  Real seconds; None: could not be measured, and ``notes`` say why."""

    command: tuple[str, ...]
    start_s: float
    memory: MemoryUse
    stop_s: float | None
    """Time from sending SIGTSTP to the confirmed stop; the median of several."""
    go_on_s: float | None
    dumper: str | None
    """``criu``, ``pages`` (memory only), or None if images cannot be made."""
    changed_pages_by: str | None
    stores: tuple[StoreCost, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, for other programs."""
        stores = []
        for store in self.stores:
            images = {
                kind: {**asdict(cost), "break_even_s": cost.break_even_s}
                for kind, cost in (("full", store.full), ("incremental", store.incremental))
            }
            stores.append({**asdict(store), **images})
        return {**asdict(self), "stores": stores}

    def profile(self) -> str:
        """The text of a file for ``overheads`` and ``storage.tier``."""
        program = " ".join(self.command)
        profile = ProbeFile(
            natjam_probe=1,
            name=f"probe of {program}"[:200],
            source=f"natjam probe -- {program}",
            schedule_s=round(self.start_s, 6),
            suspend_s=round(self.stop_s or 0.0, 6),
            resume_s=round(self.go_on_s or 0.0, 6),
            tiers={
                store.name: TierNumbers(write_mb_s=round(store.write_mb_s, 2), read_mb_s=round(store.read_mb_s, 2))
                for store in self.stores
                if store.measured
            },
        )
        return dump_yaml(profile.model_dump(exclude_defaults=True))


def estimated(tier: Tier, own: StoreCost) -> StoreCost:
    """What the images of a measured store would cost on a tier: their bytes at its speed, the rest unchanged."""
    return StoreCost(
        tier.name,
        measured=False,
        write_mb_s=tier.write_bytes_s / 1e6,
        read_mb_s=tier.read_bytes_s / 1e6,
        full=_at(tier, own.full, own),
        incremental=_at(tier, own.incremental, own),
    )


def _at(tier: Tier, cost: ImageCost, own: StoreCost) -> ImageCost:
    process_dump_s = max(0.0, cost.dump_s - cost.written_bytes / (own.write_mb_s * 1e6))
    process_restore_s = max(0.0, cost.restore_s - cost.read_bytes / (own.read_mb_s * 1e6))
    return ImageCost(
        cost.written_bytes,
        cost.read_bytes,
        process_dump_s + tier.write_ns(cost.written_bytes) / 1e9,
        process_restore_s + tier.read_ns(cost.read_bytes) / 1e9,
    )
