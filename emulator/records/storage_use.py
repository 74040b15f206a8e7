"""How much of the storage devices process images used, for ``summary.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulator.records.history import ImageRow
from emulator.vocabulary import Tier, transfer_ns


def storage_facts(images: Sequence[ImageRow], tier: Tier | None, nodes: int, makespan_ns: int | None) -> dict[str, Any]:
    """``peak_bytes``: most bytes on all devices together at a time; ``mean_bytes``: their mean over the makespan, None
    if no images are made.

    ``io_fraction``: the mean share of a device's time that its images took, each at the device's full speed; None if
    no images are made.
    """
    changes = [(image.written_ns, image.written_bytes) for image in images]
    changes += [(image.gone_ns, -image.written_bytes) for image in images if image.gone_ns is not None]
    stored_bytes, peak_bytes = 0, 0
    for _, change in sorted(changes):
        stored_bytes += change
        peak_bytes = max(peak_bytes, stored_bytes)
    byte_ns = sum(i.written_bytes * (i.gone_ns - i.written_ns) for i in images if i.gone_ns is not None)
    busy_ns = device_ns(images, tier)
    return {
        "peak_bytes": peak_bytes,
        "mean_bytes": byte_ns / makespan_ns if tier is not None and makespan_ns else None,
        "io_fraction": busy_ns / (nodes * makespan_ns) if tier is not None and makespan_ns else None,
    }


def device_ns(images: Sequence[ImageRow], tier: Tier | None) -> int:
    """The total time to write and read the images on devices that do nothing else."""
    if tier is None:
        return 0
    return sum(
        transfer_ns(image.written_bytes, tier.write_bytes_s) + transfer_ns(image.read_bytes, tier.read_bytes_s)
        for image in images
    )
