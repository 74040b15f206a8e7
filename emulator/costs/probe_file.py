"""The file that ``natjam probe`` writes: the cost of preempting one program, for ``overheads`` and ``storage.tier``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from emulator.files.strict import Strict

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
