"""Runs a scenario in virtual time and writes down what happened, one line a decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from simulated import SECOND_NS, CheckedCluster, make_job, make_settings

from emulator.core import effects as fx
from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import AttemptState, TaskAttempt
from emulator.core.completions import Committing
from emulator.core.effects import Effect
from emulator.core.messages import (
    AllocateResponse,
    ApplicationHeartbeatResponse,
    JobFinished,
    KillContainer,
    Message,
    node_address,
)
from emulator.sim.cost_model import CostModel, Network


class _SilentNetwork(Network):
    """Loses whatever goes to or comes from an address while that is silent."""

    def __init__(self, silences: list[tuple[str, int, int]]) -> None:
        super().__init__(CostModel())
        self._silences = silences

    def deliveries(self, sender: str, to: str, message: Message, now_ns: int) -> tuple[int, ...]:
        for address, begin_ns, end_ns in self._silences:
            if address in (sender, to) and begin_ns <= now_ns < end_ns:
                return ()
        return super().deliveries(sender, to, message, now_ns)


@dataclass
class Narrator(CheckedCluster):
    """A checked cluster that says what happens."""

    lines: list[str] = field(default_factory=list)
    said: dict[str, AttemptState] = field(default_factory=dict)
    """State of each attempt as last told."""
    committing: set[str] = field(default_factory=set)
    """Containers that a fault has had commit before their keys were done."""

    def tell(self, address: str, message: Message) -> None:
        if isinstance(message, Committing) and message.container in self.committing:
            return  # it has said so
        machine = self.machines.get(address)
        first_record = len(self.records)
        super().tell(address, message)
        told = [record for record in self.records[first_record:] if record.actor == address]
        for record in told[:1]:
            for effect in record.effects:
                for text in _effect_lines(effect):
                    self._say(address, text)
        for name, state in _attempts(machine).items():
            old = self.said.get(name, AttemptState.NEW)
            if state is not old:
                self.said[name] = state
                self._say(name, _transition(old, state))
        if isinstance(message, JobFinished):
            self._say("client", f"{message.job} {message.state.value} {message.reason}".rstrip())

    def _say(self, who: str, what: str) -> None:
        self.lines.append(f"{self.kernel.now_ns / SECOND_NS:9.3f}  {who:<18} {what}")


def run_scenario(scenario: dict[str, Any]) -> list[str]:
    """The transcript of a scenario: its ``settings``, ``costs_s``, ``jobs`` and ``faults`` as the files in this folder
    have them."""
    settings = make_settings(**scenario.get("settings", {}))
    jobs = {job["name"]: make_job(**_tuples(job)) for job in scenario["jobs"]}
    costs = {f"{name}_ns": round(time_s * SECOND_NS) for name, time_s in scenario.get("costs_s", {}).items()}
    silences: list[tuple[str, int, int]] = []
    narrator = Narrator(settings, jobs, CostModel(**costs), network=_SilentNetwork(silences))
    for fault in scenario.get("faults", ()):
        at_ns = round(fault["at_s"] * SECOND_NS)
        if "silence" in fault:
            silences.append((fault["silence"], at_ns, at_ns + round(fault["for_s"] * SECOND_NS)))
        elif "crash" in fault:
            narrator.kernel.at(at_ns, partial(narrator.processes.crash, fault["crash"], 9, "killed by SIGKILL"))
        elif "ends" in fault:
            narrator.kernel.at(at_ns, partial(narrator.processes.end, fault["ends"], 0))
        elif "commits" in fault:
            narrator.kernel.at(at_ns, partial(_commit_begins, narrator, fault["commits"]))
        elif "lose" in fault:
            narrator.kernel.at(at_ns, partial(narrator.lose_node, fault["lose"]))
        else:
            raise ValueError(f"unknown fault {fault}")
    narrator.run_to_end(2_000)
    narrator.check_end()
    return narrator.lines


def _commit_begins(narrator: Narrator, container: str) -> None:
    narrator.tell(node_address(narrator.processes.tasks[container].node), Committing(container))
    narrator.committing.add(container)


def _tuples(job: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in job.items()}


def _attempts(machine: object) -> dict[str, AttemptState]:
    if not isinstance(machine, ApplicationMaster):
        return {}
    return {a.name: a.state for task in (*machine.tasks.maps, *machine.tasks.walkers) for a in task.attempts}


def _transition(old: AttemptState, new: AttemptState) -> str:
    arcs = [event.value for (source, event), arc in TaskAttempt.arcs.items() if (source, arc.target) == (old, new)]
    return f"{old.value} -> {new.value}" + (f"  [{arcs[0]}]" if arcs else "")


def _effect_lines(effect: Effect) -> Iterator[str]:
    if isinstance(effect, fx.Launch):
        resumed = f" from key {effect.saved.keys_done}" if effect.saved else ""
        yield f"launches {effect.attempt} in {effect.container}{resumed}"
    elif isinstance(effect, fx.Suspend | fx.Resume | fx.Checkpoint | fx.Kill):
        yield f"{type(effect).__name__.lower()} {effect.container}"
    elif isinstance(effect, fx.Send) and isinstance(effect.message, KillContainer):
        yield f"tells {effect.to} to kill {effect.message.container}: {effect.message.why}"
    elif isinstance(effect, fx.Send) and isinstance(effect.message, ApplicationHeartbeatResponse):
        yield from _answer_lines(effect.to, effect.message.answer)


def _answer_lines(to: str, answer: AllocateResponse | None) -> Iterator[str]:
    if answer is None:
        return
    if answer.reclaim:
        yield f"asks {to} to give back {answer.reclaim}"
    for given in answer.allocated:
        wanted = f" for suspended {given.group} {given.task.number}" if given.task is not None else ""
        yield f"gives {to} {given.container} on {given.node} ({given.group}){wanted}"
