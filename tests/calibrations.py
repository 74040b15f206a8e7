"""Calibrations made for tests: constant or varying costs, as data to change or as the model itself."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from emulator.costs.calibration import (
    QUANTILE_LEVELS_PPM,
    Calibration,
    MeasuredSeries,
    Observations,
    Operations,
    this_machine,
)

REFERENCE_RECORDS = 200


def distribution(low_real_ns: int, high_real_ns: int | None = None) -> dict[str, Any]:
    """Uniform from low to high, in the form of a calibration file."""
    high_real_ns = low_real_ns if high_real_ns is None else high_real_ns

    def at(level_ppm: int) -> int:
        return low_real_ns + (high_real_ns - low_real_ns) * level_ppm // 1_000_000

    return {
        "n": 200,
        "mean_real_ns": (low_real_ns + high_real_ns) / 2,
        "mean_ci95_real_ns": (low_real_ns, high_real_ns),
        **{f"p{p}_real_ns": (at(p * 10_000), low_real_ns, high_real_ns) for p in (50, 95, 99)},
        "quantiles_real_ns": tuple(at(level) for level in QUANTILE_LEVELS_PPM),
    }


def calibration_data(
    low_real_ns: int = 1_000_000, high_real_ns: int | None = None, **operations: int
) -> dict[str, Any]:
    """A whole calibration: all operations have the same costs; those named have their own constant cost."""
    costs = {name: distribution(low_real_ns, high_real_ns) for name in Operations.model_fields}
    costs |= {name: distribution(real_ns) for name, real_ns in operations.items()}
    points = [{"at": at, "distribution": distribution(1_000_000 + at)} for at in (100, 1_000_000)]
    return {
        "natjam_calibration": 1,
        "machine": this_machine().model_dump(),
        "campaign": {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": True,
            "hosts": 1,
            "reference_records": REFERENCE_RECORDS,
            "load_average": 0.1,
        },
        "operations": costs,
        "observations": {name: distribution(low_real_ns, high_real_ns) for name in Observations.model_fields},
        "series": {name: {"by": "bytes", "points": tuple(points)} for name in MeasuredSeries.model_fields},
    }


@cache
def make_calibration(low_real_ns: int = 1_000_000, high_real_ns: int | None = None, **operations: int) -> Calibration:
    """The same, as a validated model; one for all who ask for the same."""
    return Calibration.model_validate(calibration_data(low_real_ns, high_real_ns, **operations))
