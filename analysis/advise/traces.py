"""Makes an experiment from a trace, which has no cluster, for ``natjam advise TRACE``.

It uses the first hour of the trace, or all of a shorter one.  Its jobs are divided at random into production and
research.  The number of tasks is scaled so that the work offered is 1.3 times what the cluster can do
(``workloads.load``; natjam, section 6).  The cluster has 6 nodes with 12 containers each, doubled until the peak of
production fits.  A trace too small to offer that much keeps its tasks.  All keys can be overridden.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.whole_files import written_whole
from emulator.files.yaml_values import dump_yaml
from workloads.adapt import window_of
from workloads.errors import Problems
from workloads.expand import expand
from workloads.importers import open_entry
from workloads.importers.source import OnBytes
from workloads.record import Trace
from workloads.schema import Format, TraceEntry
from workloads.store import write_workload

EXPERIMENT_NAME, TRACE_NAME = "experiment.yaml", "trace.parquet"
_WINDOW_S, _LOAD = 3600, 1.3
_NODES = [6 * 2**doubled for doubled in range(9)]
_HEAD = """\
# Made by natjam advise from {path}: the cluster and the keys below 'trace' were assumed, not recorded.
# Change them here, or with --set, and run the command again.
"""
_ALSO = "# The command was given {settings}, which this file does not have: give it again.\n"


def experiment_of_trace(
    path: Path,
    format: Format,
    columns: Mapping[str, str],
    overrides: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    on_bytes: OnBytes,
) -> tuple[Path, Problems]:
    """Write ``experiment.yaml``, and the part of the trace it uses, to ``out``.  Returns its path and skipped rows.

    Raises:
        ConfigError: an override is wrong, or the trace cannot be fitted to any cluster.
        TraceError: the trace cannot be read.
    """
    file, head = out / EXPERIMENT_NAME, _HEAD.format(path=path.name)
    if overrides:
        head += _ALSO.format(settings=" ".join(f"--set {shlex.quote(text)}" for text in overrides))
    given = {text.partition("=")[0].strip() for text in overrides}
    data = _experiment(path, format, columns, "workload.trace.production_priority" in given)
    _write(file, head, data)
    wanted = load_experiment(file, overrides).workload.trace
    if wanted is None:
        raise ConfigError("--set workload.trace: the trace cannot be removed")
    problems, last_s = _write_window(path, wanted, out, on_bytes)
    data["workload"]["trace"] |= {"format": "natjam", "path": TRACE_NAME}
    data["workload"]["trace"].pop("columns", None)
    if last_s < _WINDOW_S:  # the load counts only the time in which jobs arrive
        del data["workload"]["trace"]["window_s"]
    is_own_cluster = any(name.startswith("cluster") for name in given)
    nodes = _NODES[:1] if is_own_cluster else _NODES
    for count, load in [*((count, _LOAD) for count in nodes), (_NODES[0], None)]:
        data["cluster"]["nodes"], data["workload"]["trace"]["load"] = count, load
        _write(file, head, data)
        try:
            for seed in seeds:
                expand(load_experiment(file, overrides), seed)
            break
        except ConfigError:
            if load is None:
                raise
    return file, problems


def caution_of(experiment: Experiment) -> str | None:
    """What runs do otherwise than the system that recorded the experiment's trace.  Raises TraceError."""
    entry = experiment.workload.trace
    return None if entry is None else open_trace(Path(entry.path), entry.format, Problems(lenient=True)).header.caution


def with_window_kept(experiment: Experiment, out: Path, on_bytes: OnBytes) -> list[str]:
    """Overrides with which the runs of an experiment read only the part of its trace that they use.

    There are none without a trace, or if the trace is in natjam's format.  Raises TraceError, ConfigError.
    """
    entry = experiment.workload.trace
    if entry is None or entry.format == "natjam":
        return []
    _write_window(Path(entry.path), entry, out, on_bytes)
    from_s, to_s = entry.window_s if isinstance(entry.window_s, tuple) else (0.0, entry.window_s)
    window = [] if to_s is None else [f"workload.trace.window_s={to_s - from_s}"]
    path = (out / TRACE_NAME).absolute()
    window += ["workload.trace.columns={}"] if entry.columns else []
    return [*window, "workload.trace.format=natjam", f"workload.trace.path={path}"]


def _write_window(path: Path, entry: TraceEntry, out: Path, on_bytes: OnBytes) -> tuple[Problems, float]:
    """Write the unchanged jobs of the window, with times from its start.

    Returns skipped rows, and when the last job was submitted.
    """
    problems: list[Problems] = []

    def opened() -> Trace:
        problems.append(Problems(entry.lenient))
        return open_entry(entry, problems[-1], on_bytes)

    header, jobs = window_of(opened, entry)
    if not jobs:
        raise ConfigError(f"{path}: no job of the trace is in the window; set workload.trace.window_s")
    write_workload(out / TRACE_NAME, Trace(header, iter(jobs)))
    return problems[-1], jobs[-1].submit_ns / 1e9


def _experiment(path: Path, format: Format, columns: Mapping[str, str], has_priority: bool) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.partition(".")[0]).strip("-._")[:90] or "trace"
    split = {} if has_priority else {"production_fraction": 0.3}
    return {
        "name": name,
        "engine": "sim",
        "time_scale": 20,
        "overheads": "hadoop-0.23",
        "sim": {"journal": "off"},
        "cluster": {"nodes": _NODES[0], "containers_per_node": 12, "memory_gb": 24, "max_suspended_per_node": 12},
        "scheduler": {
            "allocation": {
                "name": "two-queue",
                "queues": {"production": {"capacity": 0.25}, "research": {"capacity": 0.75}},
            },
            "mechanism": "checkpoint",
        },
        "workload": {
            "trace": {
                "format": format,
                "path": str(path.absolute()),
                **({"columns": dict(columns)} if columns else {}),
                "window_s": _WINDOW_S,
                "load": 1.3,
                **split,
            }
        },
    }


def _write(file: Path, head: str, data: dict[str, Any]) -> None:
    with written_whole(file) as unfinished:
        unfinished.write_text(head + dump_yaml(data))
