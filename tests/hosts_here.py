"""A live run whose hosts are in this process, without Ray and without ``natjam run``: for the live tests.

Its supervisor, shuffle service and tasks are processes as in any run; so are the files, the signals and the time.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from analysis import whole_run
from emulator.engine import EngineResult, OnStatus, OpenRecords, RecordSink
from emulator.errors import NatjamError
from emulator.experiment.load import load_experiment
from emulator.live.hosts.application_host import ApplicationHost
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.host_reports import HostReports, JournalStream
from emulator.live.hosts.node_host import NodeHost
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST, RunPlan, make_plan
from emulator.live.hosts.resource_manager_host import ResourceManagerHost
from emulator.live.janitor import find_run_processes
from emulator.live.session import session
from emulator.live.session.orders import publish_endpoint, withdraw_endpoint
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.run.run import run_experiment
from emulator.storage.places import output_at, place_at
from tests.live_runs import END_BOUND_S, LEFT_BOUND_S, SMALL, LiveRun, until
from tests.memory import groups_of, swaps_below
from tests.supervision import open_descriptors, opened_since

POLL_REAL_S = 0.1


class HostsHere(LiveRun):
    """A run in ``directory``, with all its nodes on one host; leaving the block ends it and checks what is left.

    ``settings`` are as for ``--set``.  Emulated time 0 is ``begins_in_real_s`` after its hosts are there.
    """

    def __init__(
        self,
        directory: Path,
        *settings: str,
        experiment: str = SMALL,
        out: Path | None = None,
        begins_in_real_s: float = 0.0,
    ) -> None:
        super().__init__(out or directory / "out")
        file = directory / "experiment.yaml"
        file.write_text(experiment)
        self._experiment = load_experiment(file, settings)
        self._begins_in_real_s = begins_in_real_s
        self._work = directory / "work"
        self._run_id = secrets.token_hex(4)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run)
        self._error: BaseException | None = None
        self._is_wanted = True

    @property
    def run_id(self) -> str:
        return self._run_id

    @property
    def log(self) -> str:
        return str(self._error or "")

    def is_going_on(self) -> bool:
        return self._thread.is_alive()

    def work_directories(self) -> list[Path]:
        return [self._work]

    def wait(self) -> int:
        self._thread.join(END_BOUND_S)
        assert not self.is_going_on()
        if self._error is not None and not isinstance(self._error, NatjamError):
            raise self._error
        return int(self._error is not None or any(job["state"] != "succeeded" for job in self.summary["jobs"]))

    def replace(self, name: str) -> None:
        """A host of machines dies with all that it has not written, and another one takes its place."""
        asyncio.run_coroutine_threadsafe(self._replace(name), self._loop).result(END_BOUND_S)

    def __enter__(self) -> HostsHere:
        self._descriptors = open_descriptors()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_wanted = False
        self._thread.join(END_BOUND_S)
        self._loop.close()
        if kind is None:
            found = [find_run_processes(self.run_id), groups_of(self.run_id), swaps_below(self._work)]
            assert found == [[], [], []]
            assert not self._work.exists()
            until(lambda: not self._left_open(), lambda: f"nothing left open, but {self._left_open()}", LEFT_BOUND_S)

    def _left_open(self) -> list[str]:
        """Without the journals of machines' hosts, which are closed when the process of a host ends."""
        return [name for name in opened_since(self._descriptors) if ".journal" not in name]

    # ---- the engine, in its thread ----

    def _run(self) -> None:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(session, "run_live", self._engine)
                run_experiment(self._experiment, self.out, lambda status: None, Aftermath())
        except BaseException as error:
            self._error = error

    def _engine(
        self, run: Resolved, directory: RunDirectory, on_status: OnStatus, open_records: OpenRecords
    ) -> EngineResult:
        began_s, output = time.monotonic(), output_at(run.experiment.storage.url, directory.output_path)
        self._reports = HostReports(run)
        place_at(output).make()
        with open_records() as records:
            self._loop.run_until_complete(self._play(make_plan(self.run_id, run, output, ["127.0.0.1"]), records))
        on_status(self._reports.run_status("running", began_s))
        place_at(output).tidy()
        return EngineResult([], None, self._reports.lag, output, {}, self._reports.gaps)

    async def _play(self, plan: RunPlan, records: RecordSink) -> None:
        self._plan, self._journal = plan, JournalStream(records)
        self._nodes = NodeHost("nodes-1", plan.for_nodes(), self._work)
        self._hosts: dict[str, MachineHost] = {"nodes-1": self._nodes}
        try:
            urls = await self._nodes.open()
            for name in (RESOURCE_MANAGER_HOST, *plan.application_hosts):
                self._make(name)
            self._addresses = {name: await host.listen() for name, host in self._hosts.items()}
            for host in self._hosts.values():
                await host.meet(self._addresses)
            self._nodes.shuffle_urls.update(urls)
            self._origin_real_ns = time.monotonic_ns() + round(self._begins_in_real_s * 1e9)
            for host in self._hosts.values():
                host.begin(self._origin_real_ns)
            publish_endpoint(self.out, self._work, self._addresses[RESOURCE_MANAGER_HOST], plan.secret)
            while not self._has_finished() and self._is_wanted:
                await asyncio.sleep(POLL_REAL_S)
                self._poll()
                self._journal.write_settled()
                self._reports.check(set())
        finally:
            withdraw_endpoint(self.out)
            await self._nodes.close()
            for host in self._hosts.values():
                host._links.close()
            await asyncio.sleep(0)  # they are closed in the loop's next turn
        self._poll()
        self._journal.write_all()

    def _has_finished(self) -> bool:
        manager = self._hosts[RESOURCE_MANAGER_HOST]
        assert isinstance(manager, ResourceManagerHost)
        return manager.finished.is_set()

    def _poll(self) -> None:
        for name, host in self._hosts.items():
            status = host.status()
            news = self._journal.take(name, status.journal, status.until_ns)
            self._reports.take(name, replace(status, journal=news))

    def _make(self, name: str) -> MachineHost:
        kind = ResourceManagerHost if name == RESOURCE_MANAGER_HOST else ApplicationHost
        host = self._hosts[name] = kind(name, self._plan, self._work / f"{name}.journal")
        return host

    async def _replace(self, name: str) -> None:
        dead = self._hosts[name]
        dead.fatal = "killed"
        dead._links.close()
        host = self._make(name)
        self._addresses[name] = await host.listen()
        await host.meet(self._addresses)
        host.begin(self._origin_real_ns)
        for other in self._hosts.values():
            if other is not host:
                await other.meet({name: self._addresses[name]})
        self._nodes.application_host_died(name)
        self._reports.replaced(name)


class Aftermath(whole_run.Aftermath):
    """The output is verified, and no pictures are made."""

    why_no_pictures = staticmethod(lambda attempts: "not wanted")
