"""What the live tests share: Ray, of one node and of two, which is somebody else's to the runs that do not use it.

Half of what a short run costs is the start and end of its own Ray.  So a test has that only if it is about it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_runs import RayCluster, ray_nodes
from tests.second_chance import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

_LONGEST = ("test_run_programs", "test_successive_runs", "test_run_images", "test_two_nodes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no worker is left with one of them in the end."""
    items.sort(key=lambda item: item.path.stem not in _LONGEST)


@pytest.fixture(scope="session")
def ray_node() -> Iterator[RayCluster]:
    """One Ray node on this machine that is not of any run."""
    with ray_nodes(1) as node:
        yield node


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Two Ray nodes on this machine that are not of any run."""
    with ray_nodes(2) as cluster:
        yield cluster
