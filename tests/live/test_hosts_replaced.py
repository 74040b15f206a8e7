"""Hosts of a run in this process: how they begin, and one that dies and is replaced goes on from its journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from emulator.assemble import make_machine
from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.machine import PeriodicMachine, StateMachine
from emulator.core.messages import NodeLost, Start, StartContainer, TimerFired
from emulator.experiment.load import load_experiment
from emulator.live.hosts.application_host import ApplicationHost
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.node_host import NodeHost
from emulator.live.hosts.plan import RunPlan, make_plan
from emulator.live.hosts.resource_manager_host import ResourceManagerHost
from emulator.live.session.journal_stream import JournalStream
from emulator.records.journal import Record, decode_record
from emulator.records.replay import replay
from emulator.resolved import resolve
from tests.full_disk import file_size_limit
from tests.live_runs import SMALL

BOUND_S = 120.0
ALONE = "workload.only={jobs: [research]}"
MASTERS_OUTSIDE = [
    "cluster.application_masters=outside",
    "scheduler.allocation={name: fair, queues: {production: {capacity: 0}, research: {capacity: 0}}}",
    "scheduler.mechanism=wait",
]


class _Kept:
    """A sink of records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, records: Sequence[Record]) -> None:
        self.records.extend(records)

    def flush(self) -> None:
        pass


class _Hosts:
    """ResourceManager, ApplicationMasters and nodes of a run, linked to each other."""

    def __init__(self, plan: RunPlan, directory: Path) -> None:
        self._plan, self._directory = plan, directory
        self.nodes = NodeHost("nodes-1", plan, directory / "work")
        self.all: dict[str, MachineHost] = {"nodes-1": self.nodes}
        self._origin_real_ns = 0
        self._addresses: dict[str, tuple[str, int]] = {}
        self._kept = _Kept()
        self._journal = JournalStream(self._kept)

    def make(self, name: str) -> MachineHost:
        kind = ResourceManagerHost if name == "rm" else ApplicationHost
        host = self.all[name] = kind(name, self._plan, self._directory / f"{name}.journal")
        return host

    async def start(self, in_real_ns: int = 0) -> None:
        """Emulated time 0 is ``in_real_ns`` from when they begin."""
        self.make("rm")
        self.make("applications-1")
        urls = await self.nodes.open()
        self._addresses = {name: await host.listen() for name, host in self.all.items()}
        for host in self.all.values():
            await host.meet(self._addresses)
        self.nodes.shuffle_urls.update(urls)
        self._origin_real_ns = time.monotonic_ns() + in_real_ns
        for host in self.all.values():
            host.begin(self._origin_real_ns)

    async def replace(self, name: str) -> None:
        """It dies with all that it has not written; after a moment another one is there."""
        dead = self.all[name]
        dead.fatal = "killed"
        dead._links.close()
        await asyncio.sleep(0.2)
        host = self.make(name)
        self._addresses[name] = await host.listen()
        await host.meet(self._addresses)
        host.begin(self._origin_real_ns)
        for other in self.all.values():
            if other is not host:
                await other.meet({name: self._addresses[name]})
        self.nodes.application_host_died(name)

    async def finished(self) -> None:
        manager = self.all["rm"]
        assert isinstance(manager, ResourceManagerHost)
        await asyncio.wait_for(manager.finished.wait(), BOUND_S)

    def records(self) -> list[Record]:
        for name, host in self.all.items():
            assert host.fatal is None, host.fatal
            self._journal.take(name, *host.take_journal())
        self._journal.write_all()
        return self._kept.records


@pytest.mark.parametrize("names", [("applications-1",), ("rm",), ("applications-1", "rm", "rm")])
def test_machines_go_on_where_the_journal_of_their_host_ends(tmp_path: Path, names: tuple[str, ...]) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    experiment = load_experiment(file, [ALONE, "time_scale=10"])
    (tmp_path / "output").mkdir()

    async def run() -> list[Record]:
        hosts = _Hosts(make_plan("00000000", resolve(experiment), str(tmp_path / "output"), ["127.0.0.1"]), tmp_path)
        await hosts.start()
        try:
            for name in names:
                await asyncio.sleep(0.8)
                await hosts.replace(name)
            await hosts.finished()
            return hosts.records()
        finally:
            await hosts.nodes.close()

    records = asyncio.run(run())
    assert len(list((tmp_path / "output/research").glob("part-r-*"))) == 7
    starts = [record.actor for record in records if isinstance(record.message, Start)]
    assert starts.count("rm") == 1 + names.count("rm")
    assert starts.count("am:research") == 1 + names.count("applications-1")
    made = resolve(experiment)
    assert replay(records, lambda address: make_machine(address, made.settings, made.jobs_by_name)) is None


def test_a_host_whose_disk_is_full_says_so_and_nothing_leaves_it_any_more(tmp_path: Path) -> None:
    file, path = tmp_path / "small.yaml", tmp_path / "rm.journal"
    file.write_text(SMALL)
    (tmp_path / "output").mkdir()
    plan = make_plan("00000000", resolve(load_experiment(file, [ALONE])), str(tmp_path / "output"), ["127.0.0.1"])

    async def run() -> MachineHost:
        host = ResourceManagerHost("rm", plan, path)
        with file_size_limit(0):
            host.boot("rm", Start())
            host.post("nodes-1", "nm:node-1", Start())
            await asyncio.sleep(0)  # what is posted leaves at the loop's next turn
            assert host.take_journal()[0] == []
        host._links.close()
        return host

    host = asyncio.run(run())
    assert host.fatal == f"rm: {path}: cannot be written: File too large"
    assert list(host._outboxes) == ["nodes-1"], "a message left that is missing in the journal"


def test_orders_that_come_before_the_nodes_have_started_are_carried_out(tmp_path: Path) -> None:
    """A master outside containers is ordered as its job is submitted; the order was lost and given again later."""
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    experiment = load_experiment(file, [ALONE, "time_scale=20", *MASTERS_OUTSIDE])
    (tmp_path / "output").mkdir()

    async def run() -> list[Record]:
        hosts = _Hosts(make_plan("00000000", resolve(experiment), str(tmp_path / "output"), ["127.0.0.1"]), tmp_path)
        await hosts.start(in_real_ns=500_000_000)
        try:
            await hosts.finished()
            return hosts.records()
        finally:
            await hosts.nodes.close()

    orders = [record.effects for record in asyncio.run(run()) if record.actor == "rm"]
    sent = [effect for effects in orders for effect in effects if isinstance(effect, Send)]
    assert len([send for send in sent if isinstance(send.message, StartContainer)]) == 1


class _Countdown(StateMachine):
    """It sends itself one message after another, and has set a timer that is to come last."""

    heartbeat = None

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        return None

    def validate_state(self) -> None:
        pass

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        return [SetTimer("last", 0, 1, is_last=True), SetTimer("other", 0, 2), self._lost(3)]

    def _go_on(self, message: NodeLost, now_ns: int) -> list[Effect]:
        left = int(message.node) - 1
        return [self._lost(left)] if left else []

    def _lost(self, left: int) -> Send:
        return Send(self.address, NodeLost(str(left)))

    def _fired(self, message: TimerFired, now_ns: int) -> list[Effect]:
        return []

    handlers = {Start: _start, NodeLost: _go_on, TimerFired: _fired}  # noqa: RUF012


class _CountdownHost(MachineHost):
    def make_machine(self, address: str) -> PeriodicMachine:
        return _Countdown(address)


def test_what_comes_last_comes_after_all_that_is_queued_and_what_follows_of_it(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    plan = make_plan("00000000", resolve(load_experiment(file, [ALONE])), str(tmp_path / "output"), ["127.0.0.1"])

    async def run() -> list[Record]:
        host, records = _CountdownHost("rm", plan), list[Record]()
        host.begin(time.monotonic_ns())
        host.boot("rm", Start())
        until_real_s = time.monotonic() + BOUND_S
        while len(records) < 6:
            assert time.monotonic() < until_real_s, records
            await asyncio.sleep(0)
            records += map(decode_record, host.take_journal()[0])
        return records

    happened = [record.message for record in asyncio.run(run())]
    assert [message.node for message in happened if isinstance(message, NodeLost)] == ["3", "2", "1"]
    assert isinstance(happened[-1], TimerFired)
    assert happened[-1].name == "last"
