"""A node host without Ray: the supervisor and shuffle service of some nodes.  It takes orders and times the answers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emulator.core.job import JobSpec
from emulator.errors import RunError
from emulator.files.whole_files import new_held_directory
from emulator.interruption import deferred
from emulator.live.janitor import run_directory, start_janitor
from emulator.live.services.service_process import ShuffleProcess
from emulator.live.tasks.launch_parameters import Place, Site, map_parameters, reduce_parameters
from emulator.live.tasks.supervisor_client import SupervisorClient
from emulator.records.lag import LagRecord
from emulator.sim.inputs import JobData
from emulator.vocabulary import JobFacts, map_reduce

_TIMEOUT_REAL_S = 30.0
_REFUSALS = {"launch_failed", "suspend_failed", "resume_failed", "checkpoint_failed", "kill_failed", "fetch_failed"}
_SEED = 1
_NETWORK_BYTES_REAL_S = 10**12
"""Fetching is measured at the machine's full speed; experiments add their own network speed."""


@contextlib.contextmanager
def run_of_its_own() -> Iterator[tuple[str, Path]]:
    """A run id and an empty directory.  What carries them is ended and removed at the end, even if this process dies.

    Raises OSError.
    """
    run_id = secrets.token_hex(4)
    directory = run_directory(run_id)
    janitor = start_janitor(run_id, [directory])
    try:
        with new_held_directory(directory):
            yield run_id, directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        janitor.goodbye()


class MeasuredHost:
    """An asynchronous context manager; leaving it ends every process it has started."""

    def __init__(
        self, run_id: str, directory: Path, slots: int, nodes: Sequence[str] = ("node-1",), ahead: int = 0
    ) -> None:
        self.directory = directory
        self.urls: dict[str, str] = {}
        self._nodes = nodes
        self._secret = secrets.token_hex(16)
        self._free_slots = list(range(slots - 1, -1, -1))
        self._slot_of: dict[str, int] = {}
        self._answers: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}
        self._client = SupervisorClient(run_id, directory, slots, self._on_event, self._fail, ahead=ahead)
        self._shuffle = ShuffleProcess(run_id, self._secret, directory, nodes, "127.0.0.1")
        self._lost: str | None = None
        self._leaving = False
        """True when nobody waits for answers any more."""
        self.lags: list[LagRecord] = []
        """The lag of keys that tasks reported at their exit."""

    async def __aenter__(self) -> MeasuredHost:
        for node in self._nodes:
            (self.directory / node).mkdir(parents=True, exist_ok=True)
        try:
            self.urls = await self._shuffle.urls()
            await self._client.start()
        except BaseException:
            await self._shuffle.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leaving = True
        with deferred():
            try:
                await self._client.close()
            finally:
                await self._shuffle.close()

    # ---- orders and answers ----

    def order(self, op: str, container: str, **fields: Any) -> int:
        """Send a command.  Returns when, in real nanoseconds."""
        self._client.send({"op": op, "id": container, **fields})
        return time.monotonic_ns()

    async def answer(self, container: str, event: str) -> dict[str, Any]:
        """The event of this name for this container, with its time of arrival as ``heard_real_ns``.

        Raises:
            RunError: the event does not come, or the container refuses.
        """
        try:
            return await asyncio.wait_for(self._future(container, event), _TIMEOUT_REAL_S)
        except TimeoutError:
            raise RunError(f"the supervisor has said nothing of '{event}' for {_TIMEOUT_REAL_S:g} s") from None

    async def last_answers(self, container: str, *events: str) -> list[dict[str, Any]]:
        """The last events of this container that are waited for, in order; it is then forgotten.  Raises RunError."""
        answers = [await self.answer(container, event) for event in events]
        self.forget(container)
        return answers

    def _future(self, container: str, event: str) -> asyncio.Future[dict[str, Any]]:
        key = (container, event)
        if key not in self._answers:
            self._answers[key] = asyncio.get_running_loop().create_future()
            if self._lost is not None:
                self._answers[key].set_exception(RunError(self._lost))
        return self._answers[key]

    def forget(self, container: str) -> None:
        """Forget the events of a container: it has ended, or an event already seen will come again."""
        for key in [key for key in self._answers if key[0] == container]:
            del self._answers[key]

    def _on_event(self, event: dict[str, Any]) -> None:
        if self._leaving:
            return
        event["heard_real_ns"] = time.monotonic_ns()
        container, name = event["id"], event["event"]
        if name == "exited":
            self._free_slots.append(self._slot_of.pop(container))
            self.lags.append(event["lag"])
        if name in _REFUSALS or (name == "exited" and event["code"] == 1):
            self._fail(f"{container}: {name}: {event['reason']}")
            return
        future = self._future(container, name)
        if not future.done():
            future.set_result(event)

    def _fail(self, reason: str) -> None:
        self._lost = f"measuring went wrong: {reason}"
        for future in self._answers.values():
            if not future.done():
                future.set_exception(RunError(self._lost))

    # ---- launches ----

    def launch_map(self, container: str, job: JobSpec, task: int, node: str | None = None) -> int:
        """Order map ``task`` of ``job``, on the first node if none is named.  Returns when."""
        place = Place(node or self._nodes[0], container)
        return self._launch("map", container, map_parameters(self._site(), job, task, place, job.map_ns[task]))

    def launch_reduce(
        self,
        container: str,
        job: JobSpec,
        task: int,
        node: str,
        outputs: Sequence[dict[str, Any]] = (),
        checkpoint: dict[str, Any] | None = None,
    ) -> int:
        """Order reduce ``task`` of ``job`` on ``node``.  Returns when.  Without ``outputs`` it waits for them."""
        place = Place(node, container)
        parameters = reduce_parameters(self._site(), job, task, place, job.reduce_ns[task], outputs, checkpoint)
        return self._launch("reduce", container, parameters)

    def _launch(self, kind: str, container: str, parameters: dict[str, Any]) -> int:
        slot = self._slot_of[container] = self._free_slots.pop()
        return self.order("launch", container, kind=kind, slot=slot, params=parameters)

    def _site(self) -> Site:
        output_dir = str(self.directory / "output")
        return Site(
            time.monotonic_ns(), 1.0, self.directory, output_dir, None, _SEED, self._secret, _NETWORK_BYTES_REAL_S
        )

    def outputs(self, job: JobSpec, sources: int = 1) -> list[dict[str, Any]]:
        """Where the outputs of the maps of ``job`` can be fetched, spread over the first ``sources`` nodes."""
        return [{"map": index, "url": self.urls[self._nodes[index % sources]]} for index in range(len(job.map_ns))]

    def fetch_parameters(self, job: JobSpec, task: int, node: str) -> dict[str, Any]:
        """The parameters of ``emulator.live.tasks.shuffle.fetch_and_merge`` to bring the input of a reduce to
        ``node``."""
        return reduce_parameters(self._site(), job, task, Place(node, "fetched"), 0)


def make_job(
    name: str,
    maps: int,
    reduces: int,
    keys: int,
    *,
    real_s: float = 0.0,
    map_real_s: float = 0.0,
    shuffle_bytes: int | None = None,
) -> JobSpec:
    """A job for measuring at time scale 1."""
    return JobSpec(
        JobFacts(name, "measure", map_reduce(maps, reduces), memory_bytes=1 << 30),
        submit_ns=0,
        map_ns=(round(map_real_s * 1e9),) * maps,
        reduce_ns=(round(real_s * 1e9),) * reduces,
        reduce_keys=(keys,) * reduces,
        shuffle_bytes=shuffle_bytes,
    )


def records_of(job: JobSpec) -> int:
    """Records of the input of the first reduce of a job."""
    return JobData(job).reduce_input(0, "", ()).records
