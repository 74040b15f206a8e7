"""A cluster in a file of natjam's own: what ``natjam import kubernetes`` writes, ``natjam who`` and ``play`` read.

Amounts are whole numbers: cpu in thousandths of a core, the others in their unit; times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from emulator.errors import ConfigError, printable
from workloads.importers.source import OnBytes, ignore
from workloads.kubernetes.cluster import Kubernetes, read_kubernetes
from workloads.saved import SECTIONS, is_saved, read_section, refuse_twice


def read_any(paths: Sequence[Path], on_bytes: OnBytes = ignore) -> Kubernetes:
    """A file of natjam's own, or Kubernetes' objects in files and folders.  Raises ConfigError."""
    if len(paths) == 1 and is_saved(paths[0], *SECTIONS):
        return read_saved(paths[0])
    return read_kubernetes(paths, on_bytes).cluster


def read_saved(path: Path) -> Kubernetes:
    """A file that ``write_saved`` wrote.  Raises ConfigError."""
    cluster = read_section(path, Kubernetes)
    nodes = {each.name for each in cluster.state.nodes}
    _refuse_others(path, "state.bound", ((each.pod.name, each.node) for each in cluster.state.bound), nodes)
    placed = ((each.pod.name, each.node) for each in cluster.arrivals if each.node is not None)
    _refuse_others(path, "arrivals", placed, nodes)
    refuse_twice(path, "kubernetes.state.nodes", [each.name for each in cluster.state.nodes])
    pods = (*cluster.state.bound, *cluster.state.waiting)
    refuse_twice(path, "kubernetes.state", [each.pod.name for each in pods])
    refuse_twice(path, "kubernetes.arrivals", [each.pod.name for each in cluster.arrivals])
    return cluster


def _refuse_others(path: Path, where: str, pods: Iterable[tuple[str, str]], nodes: set[str]) -> None:
    for name, node in pods:
        if node not in nodes:
            raise ConfigError(f"{path}: kubernetes.{where}: {printable(name)}: its node is not one of state.nodes")
