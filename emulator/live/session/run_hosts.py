"""The hosts of a live run, as Ray actors: making them, asking them, and telling a dead one from a slow one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from emulator.errors import RunError
from emulator.interruption import check_interrupted
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST, RunPlan
from emulator.live.janitor import HOST_VARIABLE, RUN_VARIABLE

if TYPE_CHECKING:
    from emulator.live.hosts.actors import HostReady

LOOK_PERIOD_REAL_S = 0.3
"""Who waits for an answer looks this often whether the run was interrupted."""
START_TIMEOUT_REAL_S = 60.0
ANSWER_TIMEOUT_REAL_S = 30.0


class HostGone(RunError):
    """A host died while it was asked for something, or does not answer."""


class RunHosts:
    """Handles of the hosts by their names; there are none before ``create``."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._ray: Any = None
        self._handles: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The handle of a host."""
        return self._handles[name]

    def items(self) -> Iterator[tuple[str, Any]]:
        """The names and handles of all."""
        yield from self._handles.items()

    # ---- making ----

    def create(self, ray: Any, plan: RunPlan, node_ids: list[str], root: str) -> None:
        """Create the actors of all hosts, each node host on its Ray node; ``root``: the run's directory on this one."""
        from emulator.live.hosts import actors

        self._ray = ray
        self.create_on_head(RESOURCE_MANAGER_HOST, plan)
        for name, node_id in zip(plan.node_hosts, node_ids, strict=False):
            own_root = root if node_id == self._head else None
            kind: Any = actors.NodeHostActor
            actor = kind.options(**self._on(node_id, name))
            self._handles[name] = actor.remote(name, plan.import_paths, plan.run_id, own_root)
        for name in plan.application_hosts:
            self.create_on_head(name, plan)

    def create_on_head(self, name: str, plan: RunPlan) -> None:
        """Create the actor of the ResourceManager's host or of an application host."""
        from emulator.live.hosts import actors

        kind: Any = actors.ResourceManagerActor if name == RESOURCE_MANAGER_HOST else actors.ApplicationHostActor
        self._handles[name] = kind.options(**self._on(self._head, name)).remote(name, plan.import_paths)

    def create_successor(self, name: str, plan: RunPlan) -> None:
        """The same in the place of a host that has died, or does not answer."""
        with contextlib.suppress(Exception):
            self._ray.kill(self._handles[name])
        self.create_on_head(name, plan)

    @property
    def _head(self) -> str:
        return self._ray.get_runtime_context().get_node_id()

    def _on(self, node_id: str, name: str) -> dict[str, Any]:
        """Options for a host's actor on that Ray node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        variables = {RUN_VARIABLE: self._run_id, HOST_VARIABLE: name}
        return {
            "num_cpus": 0,
            "scheduling_strategy": On(node_id, soft=False),
            "max_restarts": 0,
            "runtime_env": {"env_vars": variables},
        }

    # ---- asking ----

    def ask_all(self, doing: str, call: Callable[[Any, str], Any]) -> dict[str, Any]:
        """What each host answers to a call; see ``result``."""
        references = {name: call(handle, name) for name, handle in self._handles.items()}
        return {name: self.result(reference, f"{doing} {name}") for name, reference in references.items()}

    def result(self, reference: Any, doing: str, timeout_real_s: float = START_TIMEOUT_REAL_S) -> Any:
        """The result of a call.  Raises HostGone, or RunError if the call failed; both say what was being done."""
        from ray.exceptions import RayActorError, RayTaskError

        try:
            return self.raw_result(reference, timeout_real_s)
        except RayTaskError as error:
            raise RunError(f"{doing} failed: {error.cause}") from error
        except TimeoutError:
            raise HostGone(f"{doing} failed: no answer within {timeout_real_s:g} s") from None
        except RayActorError as error:
            raise HostGone(f"{doing} failed: {type(error).__name__}: {error}") from error

    def raw_result(self, reference: Any, timeout_real_s: float) -> Any:
        """The result of a call, unless the run is interrupted.  Raises TimeoutError, and Ray's errors."""
        until_real_s = time.monotonic() + timeout_real_s
        while not self._ray.wait([reference], timeout=LOOK_PERIOD_REAL_S)[0]:
            check_interrupted()
            if time.monotonic() > until_real_s:
                raise TimeoutError
        return self._ray.get(reference)

    def lives(self, name: str) -> bool:
        """Whether a host answers.  A host that has died meanwhile is replaced later, and then connects to all."""
        from ray.exceptions import RayActorError

        with contextlib.suppress(TimeoutError):
            try:
                self.raw_result(self._handles[name].monotonic_real_ns.remote(), ANSWER_TIMEOUT_REAL_S)
            except RayActorError:
                return False
        return True

    # ---- their machines ----

    def machines(self, ready: Mapping[str, HostReady]) -> list[dict[str, Any]]:
        """The computers of these hosts, with the offset of each monotonic clock from this one's."""
        from emulator.live.hosts.actors import own_boot_id

        own, by_boot_id = own_boot_id(), dict[str, dict[str, Any]]()
        for name, host in ready.items():
            if host.boot_id not in by_boot_id:
                offset_ns = 0 if host.boot_id == own else self._clock_offset_ns(self._handles[name])
                by_boot_id[host.boot_id] = {"name": host.computer, "clock_offset_ns": offset_ns, "hosts": []}
            by_boot_id[host.boot_id]["hosts"].append(name)
        return list(by_boot_id.values())

    def _clock_offset_ns(self, handle: Any) -> int:
        """The offset by Cristian's method: of several readings, the one with the shortest round trip."""
        best: tuple[int, int] | None = None
        for _ in range(20):
            before_real_ns = time.monotonic_ns()
            there_real_ns = self.result(handle.monotonic_real_ns.remote(), "reading a clock")
            after_real_ns = time.monotonic_ns()
            reading = (after_real_ns - before_real_ns, there_real_ns - (before_real_ns + after_real_ns) // 2)
            best = min(best, reading) if best else reading
        assert best is not None
        return best[1]
