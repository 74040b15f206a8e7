"""natjam from Python: run experiments, load what they left, and write policies.

    import natjam

    results = natjam.simulate("catalog:natjam-fig4", {"scheduler.mechanism": "suspend"})
    print(results.jobs[["job", "completion_s"]])

Everything that a policy of your own needs is here: the views that it gets, the decisions that it returns, and
``Policy`` with its kin for one with options.  What is not named here may change with any release.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from emulator.own_packages import of_the_same_name
except ImportError:
    import emulator

    (_found, *_) = emulator.__path__ if hasattr(emulator, "__path__") else [emulator.__file__]
    raise ImportError(f"{_found} has the name of natjam's own package 'emulator': rename it") from None
if _why := of_the_same_name():
    raise ImportError(_why)

from emulator import __version__
from emulator.errors import ConfigError, NatjamError, RunError
from emulator.field_texts import docstring_with_fields
from emulator.policies.policy import (
    AllocationPolicy,
    FitPolicy,
    MechanismPolicy,
    PlacementPolicy,
    Policy,
    Reads,
    Score,
    ShareAllocation,
)
from emulator.policies.views import (
    AllocationDecision,
    ClusterView,
    JobView,
    Known,
    MechanismDecision,
    NodeView,
    PlacementDecision,
    QueueView,
    ShareDecision,
    SuspendedView,
    TaskView,
)
from emulator.vocabulary import Frozen, JobFacts, MeasuredCosts, Mechanism, StartsAfter, TaskGroup, Tier, Work

if TYPE_CHECKING:
    from analysis.load import Results

__all__ = [
    "AllocationDecision",
    "AllocationPolicy",
    "ClusterView",
    "ConfigError",
    "FitPolicy",
    "Frozen",
    "JobFacts",
    "JobView",
    "Known",
    "MeasuredCosts",
    "Mechanism",
    "MechanismDecision",
    "MechanismPolicy",
    "NatjamError",
    "NodeView",
    "PlacementDecision",
    "PlacementPolicy",
    "Policy",
    "QueueView",
    "Reads",
    "RunError",
    "Score",
    "ShareAllocation",
    "ShareDecision",
    "StartsAfter",
    "SuspendedView",
    "TaskGroup",
    "TaskView",
    "Tier",
    "Work",
    "__version__",
    "load",
    "run",
    "simulate",
]

for _each in (ClusterView, JobFacts, JobView, MeasuredCosts, NodeView, QueueView, SuspendedView, TaskView, Tier):
    _each.__doc__ = docstring_with_fields(_each)
for _each in (AllocationDecision, MechanismDecision, PlacementDecision, ShareDecision):
    _each.__doc__ = docstring_with_fields(_each)

_GONE = frozenset({"CycleAllocation", "CycleDecision"})


def __getattr__(name: str) -> object:
    """What is gone: a policy that imports it gets an error that names what has taken its place."""
    if name in _GONE:
        raise ImportError(
            f"natjam.{name} is gone: a scheduler that chooses the nodes itself is a program of its own, under"
            " scheduler.allocation: {name: external, command: [...]}; docs/outside.md has the protocol that it speaks"
        )
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def load(*paths: str | Path) -> Results:
    """The results of runs as pandas frames; see ``Results``.

    Args:
        paths: run directories, directories of repeats, or directories that contain some of these.

    Raises:
        ConfigError: a path has no finished run, or a file of a run is missing or broken.
    """
    from analysis.load import load

    return load(*paths)


def run(experiment: str | Path, out: str | Path, settings: Mapping[str, Any] | None = None) -> Results:
    """Run an experiment as ``natjam run`` does, and load its results.

    A live run starts processes of its own, which import the script: call this below ``if __name__ == "__main__":``.

    Args:
        experiment: its file, or ``catalog:NAME``.
        out: a new or empty directory for the results.
        settings: values for keys of the file, such as ``{"scheduler.mechanism": "kill", "seed": 7}``.

    Raises:
        ConfigError: the experiment or a setting is wrong, or ``out`` cannot be used.
        RunError: the run failed.
    """
    from analysis.whole_run import run_experiment
    from emulator.experiment.catalog import located
    from emulator.experiment.load import load_experiment

    file = located(experiment)
    with _importable(file.parent):
        overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
        run_experiment(load_experiment(file, overrides), Path(out), lambda status: None)
    return load(out)


def simulate(
    experiment: str | Path, settings: Mapping[str, Any] | None = None, out: str | Path | None = None
) -> Results:
    """Simulate an experiment, in virtual time, and load its results; see ``run``.

    Args:
        out: a new or empty directory; None: one that is removed when the results have been loaded.
    """
    simulated = {**(settings or {}), "engine": "sim"}
    if out is not None:
        return run(experiment, out, simulated)
    with tempfile.TemporaryDirectory(prefix="natjam-") as folder:
        return run(experiment, folder, simulated)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Policies beside the experiment are found, in every process of its run."""
    entry = str(folder.absolute())
    sys.path.append(entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
