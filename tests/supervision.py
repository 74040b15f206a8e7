"""A node host without Ray, for the live tests: a supervisor client, reduces with local input, events to wait for."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from emulator.live.janitor import find_run_processes
from emulator.live.tasks import mapper, partial_output
from emulator.live.tasks.supervisor_client import SupervisorClient
from tests.programs import state_of

BOUND_S = 30.0
COMPLETIONS = {
    "launch": ("launched", "launch_failed"),
    "suspend": ("suspended", "suspend_failed"),
    "resume": ("resumed", "resume_failed"),
    "checkpoint": ("checkpointed", "checkpoint_failed"),
    "dump": ("dumped", "dump_failed"),
    "terminate": ("terminated", "terminate_failed"),
    "kill": ("killed", "kill_failed"),
}


async def becomes_true(true: Callable[[], Any], what: str, bound_s: float = BOUND_S) -> Any:
    """Ask often until ``true()`` holds, of what has no event; returns its value.  Fails after a bound."""
    deadline = time.monotonic() + bound_s
    while not (value := true()):
        assert time.monotonic() < deadline, f"not within {bound_s:g} s: {what}"
        await asyncio.sleep(0.002)
    return value


class Host:
    """One supervisor in `directory`; leaving the block closes it and checks that nothing of it is left."""

    def __init__(self, directory: Path, slots: int = 8, first_pid: int | None = None, ahead: int = 0) -> None:
        self.directory = directory
        self.bound_s = BOUND_S
        """How long a test waits for an event."""
        self.run_id = secrets.token_hex(4)
        self.events: list[dict[str, Any]] = []
        self.lost: list[str] = []
        self._arrived = asyncio.Event()
        self._taken: set[int] = set()
        self._next_slot = 0
        self.slots: dict[str, int] = {}
        self.client = SupervisorClient(
            self.run_id, directory, slots, self._on_event, self._on_lost, first_pid, ahead=ahead
        )

    async def __aenter__(self) -> Host:
        self._descriptors = open_descriptors()
        await self.client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        assert find_run_processes(self.run_id) == []
        assert list(self.directory.glob("page-*")) == []
        deadline = time.monotonic() + BOUND_S
        while (left := opened_since(self._descriptors)) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)  # transports close their descriptors in the loop's next turns
        assert not left, f"descriptors left open: {left}"

    def _on_event(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self._arrived.set()

    def _on_lost(self, reason: str) -> None:
        self.lost.append(reason)
        self._arrived.set()

    async def until(self, true: Callable[[], Any], bound_s: float | None = None) -> Any:
        """Wait until `true()` holds, asking after every event; returns its value.  Fails after a bound."""
        bound_s = bound_s or self.bound_s
        deadline = time.monotonic() + bound_s
        while not (value := true()):
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), deadline - time.monotonic())
            except TimeoutError:
                raise AssertionError(f"not within {bound_s} s; events: {self.events}, lost: {self.lost}") from None
        return value

    async def event(self, name: str, container: str) -> dict[str, Any]:
        """The next event with that name from that container that was not returned before."""

        def find() -> dict[str, Any] | None:
            for number, event in enumerate(self.events):
                if number not in self._taken and (event["event"], event["id"]) == (name, container):
                    self._taken.add(number)
                    return event
            return None

        return await self.until(find)

    async def keys_done(self, container: str, keys: int) -> None:
        """Wait until the page shows at least `keys` keys.  The page has no events, so it is read often."""
        done = functools.partial(self.client.page.keys_done, self.slots[container])
        await becomes_true(lambda: done() >= keys, f"{container} has done {keys} keys", self.bound_s)

    async def state_becomes(self, container: str, state: str, later_real_ns: int = 0) -> None:
        """Wait until a container's process is in a state, and the page shows a change of its work after that time."""
        page, slot = self.client.page, self.slots[container]
        await becomes_true(
            lambda: page.read(slot).state_since_real_ns > later_real_ns and self.state(container) == state,
            f"{container} is in state {state}",
        )

    def state(self, container: str) -> str:
        """The kernel's letter for the state of a container's process."""
        return state_of(next(e["pid"] for e in self.events if (e["event"], e["id"]) == ("launched", container)))

    async def do(self, op: str, container: str) -> dict[str, Any]:
        """Send one operation; returns its completion."""
        before = len(self.events)
        self.client.send({"op": op, "id": container})
        names = COMPLETIONS[op]

        def find() -> dict[str, Any] | None:
            later = self.events[before:]
            return next((e for e in later if e["event"] in names and e["id"] == container), None)

        return await self.until(find)

    def reduce(
        self, container: str, keys: int = 5, key_s: float = 0.02, localised: bool = True, **params: Any
    ) -> dict[str, Any]:
        """The launch command of a reduce; its input is first put on the node's disk, unless ``localised`` is false."""
        work_dir = self.directory / "node-1"
        defaults = {
            "origin_real_ns": time.monotonic_ns(),
            "scale": 1,
            "container_id": container,
            "job": f"job of {container}",
            "task": 0,
            "maps": 0,
            "keys": keys,
            "reduce_keys": [keys],
            "output_bytes": None,
            "duration_ns": round(keys * key_s * 1e9),
            "first_key_at_ns": 0,
            "outputs": [],
            "checkpoint": None,
            "save_period_ns": None,
            "node": "node-1",
            "work_dir": str(work_dir),
            "output_dir": str(self.directory / "output"),
            "secret": "a secret of the run",
            "network_bytes_real_s": 10**12,
        }
        merged = {**defaults, **params}
        if localised:
            mapper.localise_without_maps({**merged, "seed": 7, "shuffle_bytes": None, "only_partition": 0})
        self.slots[container] = self._next_slot
        self._next_slot += 1
        slot = self.slots[container]
        return {"op": "launch", "id": container, "kind": "reduce", "slot": slot, "params": merged}

    async def launch(self, container: str, **params: Any) -> dict[str, Any]:
        """Launch a reduce; returns its `launched` event."""
        self.client.send(self.reduce(container, **params))
        return await self.event("launched", container)

    def output(self, job: str) -> bytes:
        """The committed output of a job's only reduce."""
        return Path(partial_output.final_path(str(self.directory / "output"), job, 0)).read_bytes()


def in_host(directory: Path, scenario: Callable[[Host], Awaitable[None]], slots: int = 8, ahead: int = 0) -> None:
    """Run a scenario in a new host."""

    async def run() -> None:
        async with Host(directory, slots, ahead=ahead) as host:
            await scenario(host)

    asyncio.run(run())


def on_host(test: Callable[..., Awaitable[None]] | None = None, **of_host: int) -> Callable[..., Any]:
    """A test whose first argument is a new host, in a directory of its own: ``@on_host``, or ``@on_host(slots=16)``."""
    if test is None:
        return functools.partial(on_host, **of_host)
    _, *others = inspect.signature(test).parameters.values()

    @functools.wraps(test)
    def run(tmp_path: Path, **arguments: Any) -> None:
        in_host(tmp_path, functools.partial(test, **arguments), **of_host)

    directory = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([directory, *others])  # type: ignore
    return run


def opened_since(before: set[str]) -> list[str]:
    """Descriptors open now that were not open then.  Of those open then, the garbage collector may have closed some."""
    return sorted(open_descriptors() - before)


def open_descriptors() -> set[str]:
    """The open descriptors of this process, by number and target."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found
