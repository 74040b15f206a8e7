"""What the live tests share: a Ray cluster of two nodes, which is somebody else's to the runs that do not use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_runs import RayCluster, two_ray_nodes


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Two Ray nodes on this machine that are not of any run."""
    with two_ray_nodes() as cluster:
        yield cluster
