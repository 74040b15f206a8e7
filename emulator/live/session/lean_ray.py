"""A local Ray without what no run uses: an autoscaler, a reader of logs, a dashboard's server, a second import of Ray.

Each is a process of Ray's own, or a part of the start of each worker, and together they cost as much processor time as
the rest of a short run.  ``ray start`` and ``ray.cluster_utils.Cluster`` have parameters for most of them, but
``ray.init`` has none.  So its parameters are completed here, while it runs.  What another Ray does not know by the name
that it has in this one is not left out there: that Ray starts as it always does.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

NODE_PARAMETERS: dict[str, Any] = {
    "no_monitor": True,  # of the autoscaler: there is nothing to scale
    "include_log_monitor": False,  # it reads the logs of all workers, over and over, for drivers that want them
    "setup_worker_path": str(Path(__file__).with_name("setup_worker.py")),
}
"""By their names in ``ray._private.parameter.RayParams``."""


@contextlib.contextmanager
def lean(ray: Any) -> Iterator[None]:
    """A node that ``ray.init`` starts inside has ``NODE_PARAMETERS``, and no dashboard's server."""
    with (
        _replaced(ray._private.parameter, "RayParams", _with_parameters),
        _replaced(ray._private.services, "start_api_server", lambda _: _no_api_server),
    ):
        yield


@contextlib.contextmanager
def _replaced(module: Any, name: str, other: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(module, name, None)
    if before is None:
        yield
        return
    setattr(module, name, other(before))
    try:
        yield
    finally:
        setattr(module, name, before)


def _with_parameters(make: Callable[..., Any]) -> Callable[..., Any]:
    known = inspect.signature(make).parameters
    return partial(make, **{name: value for name, value in NODE_PARAMETERS.items() if name in known})


def _no_api_server(*_: Any, **__: Any) -> tuple[None, None]:
    """What Ray's own gives where the server has failed to start, which is no error: the URL and the process."""
    return None, None
