"""Objects of Kubernetes as its own tools print them, for tests that read files of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.sites.kubernetes import HOSTNAME, ZONE


def node(name: str, cpu: int = 8, **labels: str) -> dict[str, Any]:
    """A node; its zone is the first letter of its name."""
    labels = {HOSTNAME: name, ZONE: name[0], **labels}
    allocatable = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def pod(name: str, on: str = "", cpu: int | str = 1, priority: int = 0, app: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that waits, or is on a node."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]
    metadata = {"name": name, "namespace": "d", "labels": {"app": app or name}}
    spec = {"containers": containers, "priority": priority, "nodeName": on, **spec}
    status = {"phase": "Running" if on else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def of(kind: str, name: str, version: str = "v1", **spec: Any) -> dict[str, Any]:
    """An object of another kind."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "d"}, "spec": spec}


def written(path: Path, *objects: Mapping[str, Any]) -> Path:
    """A file with these objects."""
    path.write_text("\n---\n".join(json.dumps(each) for each in objects))
    return path
