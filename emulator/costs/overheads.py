"""Overhead profiles: the costs of scheduling, suspending and resuming a task on a published system.

A profile pads the emulation to a total, heartbeat waits included, in emulated time.  *schedule* and *resume*
run from the later of (request at the ResourceManager, container free) to the first key; *suspend* from the
ApplicationMaster asking the task to the container free at the ResourceManager.

A profile may instead give the time of a *launch* alone, from the order to the first key (for an ApplicationMaster, to
its start), and of the *cleanup* of a killed task, during which its container stays taken.  Waits for containers and
heartbeats then come from the emulation.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from emulator.costs.calibration_file import is_calibration, is_file_spec, load_calibration
from emulator.costs.probe_file import PROBE_KEY, OverheadNumbers, ProbeFile
from emulator.errors import ConfigError
from emulator.files.problems import suggestion, validated
from emulator.files.times import seconds_to_ns
from emulator.files.yaml_positions import read_document
from emulator.vocabulary import Frozen

NATIVE = "native"
"""The profile that pads nothing: a run has the overheads of its machine."""


class OverheadProfile(Frozen):
    """Totals that each operation is padded to, in emulated nanoseconds; 0 pads nothing."""

    name: str
    schedule_ns: int
    suspend_ns: int
    resume_ns: int
    launch_ns: int = 0
    launch_more_ns: int = 0
    """How much longer a launch takes for each other job that starts in the same pass, where the scheduler says so."""
    application_start_ns: int = 0
    cleanup_ns: int = 0
    amrm_client: bool = False
    """Whether ApplicationMasters talk to the ResourceManager as Hadoop's client does: they request containers when they
    register, and learn of a container's end from the answers to their own heartbeats, not from its node."""


def profile_names() -> list[str]:
    """Names of the profiles that come with natjam, ``native`` first."""
    folder = resources.files("emulator.costs") / "profiles"
    files = (entry.name for entry in folder.iterdir())
    return [NATIVE, *sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))]


def load_overheads(spec: str, base_dir: Path) -> OverheadProfile:
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
        return OverheadProfile(NATIVE, 0, 0, 0)
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


def _read_profile(path: Path) -> OverheadProfile:
    document = read_document(path)
    if is_calibration(document):
        load_calibration(path)
        return OverheadProfile(path.name, 0, 0, 0)  # a calibration has costs of a machine, not totals to pad to
    profile = validated(document, ProbeFile if PROBE_KEY in document.data else OverheadNumbers)
    return OverheadProfile(
        profile.name,
        seconds_to_ns(profile.schedule_s),
        seconds_to_ns(profile.suspend_s),
        seconds_to_ns(profile.resume_s),
        seconds_to_ns(profile.launch_s),
        seconds_to_ns(profile.launch_more_s),
        seconds_to_ns(profile.application_start_s),
        seconds_to_ns(profile.cleanup_s),
        profile.amrm_client,
    )
