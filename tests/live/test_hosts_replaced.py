"""Hosts of a run in this process: how they begin, and one that dies and is replaced goes on from its journal."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.machine import StateMachine
from emulator.core.messages import NodeLost, Start, StartContainer, TimerFired
from emulator.experiment.load import load_experiment
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.plan import make_plan
from emulator.live.hosts.resource_manager_host import ResourceManagerHost
from emulator.records.journal import Record, decode_record
from emulator.records.replay import replay
from emulator.resolved import resolve
from tests.full_disk import file_size_limit
from tests.hosts_here import HostsHere
from tests.live_runs import SMALL

BOUND_S = 120.0
ALONE = "workload.only={jobs: [research]}"
MASTERS_OUTSIDE = [
    "cluster.application_masters=outside",
    "scheduler.allocation={name: fair, queues: {production: {capacity: 0}, research: {capacity: 0}}}",
    "scheduler.mechanism=wait",
]


@pytest.mark.parametrize("names", [("applications-1",), ("rm",), ("applications-1", "rm", "rm")])
def test_machines_go_on_where_the_journal_of_their_host_ends(tmp_path: Path, names: tuple[str, ...]) -> None:
    with HostsHere(tmp_path, ALONE, "time_scale=10") as run:
        for number, name in enumerate(names, 1):
            run.walking("research", keys=6 * number)
            run.replace(name)
        run.check_verified()
        records = run.records()
        assert replay(records, run.machine) is None
    assert run.committed("research") == 7
    starts = [record.actor for record in records if isinstance(record.message, Start)]
    assert starts.count("rm") == 1 + names.count("rm")
    assert starts.count("am:research") == 1 + names.count("applications-1")


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
    with HostsHere(tmp_path, ALONE, "time_scale=20", *MASTERS_OUTSIDE, begins_in_real_s=0.5) as run:
        run.check_verified()
        orders = [record.effects for record in run.records() if record.actor == "rm"]
    sent = [effect for effects in orders for effect in effects if isinstance(effect, Send)]
    assert len([send for send in sent if isinstance(send.message, StartContainer)]) == 1


def test_node_managers_start_in_the_order_of_their_nodes(tmp_path: Path) -> None:
    """The first is heard first and gets the first container; an event loop alone does not keep the order."""
    with HostsHere(tmp_path, ALONE, "time_scale=20", "cluster.nodes=5", begins_in_real_s=0.5) as run:
        run.check_verified()
        started = [record.actor for record in run.records() if isinstance(record.message, Start)]
    nodes = [f"nm:node-{number}" for number in range(1, 6)]
    assert [actor for actor in started if actor in nodes] == nodes


class _Countdown(StateMachine):
    """It sends itself one message after another, and has set a timer that is to come last."""

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        return [SetTimer("last", 0, 1, is_last=True), SetTimer("other", 0, 2), self._lost(3)]

    def _recover(self, message: NodeLost, now_ns: int) -> list[Effect]:
        left = int(message.node) - 1
        return [self._lost(left)] if left else []

    def _lost(self, left: int) -> Send:
        return Send(self.address, NodeLost(str(left)))

    def _fired(self, message: TimerFired, now_ns: int) -> list[Effect]:
        return []

    handlers = {Start: _start, NodeLost: _recover, TimerFired: _fired}  # noqa: RUF012


class _CountdownHost(MachineHost):
    def make_machine(self, address: str) -> StateMachine:
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
