"""What the live tests share: a Ray cluster of two nodes, which is somebody else's to the runs that do not use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.live_runs import REPOSITORY, RayCluster


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Two Ray nodes on this machine that are not of any run."""
    with two_ray_nodes({}) as cluster:
        yield cluster


@contextmanager
def two_ray_nodes(variables: Mapping[str, str]) -> Iterator[RayCluster]:
    """The same, with these variables in their environment."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.two_ray_nodes"],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the cluster does not start"
        yield RayCluster(**json.loads(line))
    assert process.returncode == 0
