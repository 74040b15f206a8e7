"""The kinds of details that a job may have."""

from __future__ import annotations

from typing import Any

import msgspec

from emulator.sites.kubernetes import PodDetails
from emulator.sites.kueue import WorkloadDetails
from emulator.sites.slurm import SlurmDetails
from emulator.sites.yarn import YarnDetails
from emulator.vocabulary import Details


def read_details(given: Any) -> Details:
    """Details, also in plain form: ``kind``, and the fields of that kind.  Raises msgspec.ValidationError, a
    ValueError."""
    return msgspec.convert(given, PodDetails | WorkloadDetails | SlurmDetails | YarnDetails)
