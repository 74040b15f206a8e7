"""What the events of a supervisor mean to NodeManagers: each becomes a completion message.

The supervisor tells real times of the machine's monotonic clock, and bytes as they are; messages have emulated ones.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from emulator.core import effects as fx
from emulator.core.completions import (
    Checkpointed,
    CheckpointFailed,
    Committing,
    Exited,
    FirstKey,
    Killed,
    KillFailed,
    Launched,
    LaunchFailed,
    Paged,
    RealCost,
    Resumed,
    ResumeFailed,
    SavedByItself,
    Suspended,
    SuspendFailed,
    Terminated,
    TerminateFailed,
)
from emulator.core.messages import Message
from emulator.live.clock import ScaledClock
from emulator.live.hosts.node_images import NodeImages
from emulator.live.memory.nodes import NodeMemories
from emulator.live.tasks.progress_page import ProgressPage
from emulator.records.lag import LagRecorder
from emulator.vocabulary import KeyCheckpoint, Resources, Work


@dataclass(slots=True)
class ContainerProcess:
    """A container whose process the supervisor runs or will start."""

    node: str
    launch: fx.Launch
    slot: int
    ordered_real_ns: int
    input_sent_real_ns: int = 0
    """When it was last sent map outputs, if it was launched without them."""
    keys_told: int = 0
    """The key counter last sent on."""
    stopped: bool = False
    resumed_real_ns: int = 0
    """When it last went on after a stop."""
    timed_out: str = ""
    """Why it is being killed, if nobody has ordered that."""


class NodeEvents:
    """The completion messages of one node host."""

    def __init__(
        self,
        clock: ScaledClock,
        lag: LagRecorder,
        memories: NodeMemories,
        images: NodeImages | None,
        page: Callable[[], ProgressPage],
        request_of: Callable[[fx.Launch], Resources],
    ) -> None:
        """
        Args:
            clock: of the host.
            lag: of the host; that of ended tasks is added.
            memories: of the host's nodes.
            images: None: the run saves none.
            page: the present supervisor's progress page.
            request_of: what a task has asked for.
        """
        self.first_readings: list[tuple[str, int, int]] = []
        """Readings of reduces that have started since the last task heartbeats; sent with the next ones."""
        self._clock = clock
        self._lag = lag
        self._memories = memories
        self._images = images
        self._page = page
        self._request_of = request_of

    def completion(self, process: ContainerProcess, event: dict[str, Any]) -> Message | None:
        """The message for the NodeManager of ``process``; None: it is notified of nothing of this event."""
        make = _COMPLETIONS.get(event["event"])
        return None if make is None else make(self, process, event)

    def _launched(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        return Launched(event["id"], RealCost(event["forked_real_ns"] - process.ordered_real_ns))

    def _first_key(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        first_key_ns = self._clock.to_emulated_ns(event["real_ns"])
        launch, keys_done = process.launch, event.get("keys_done", 0)
        if launch.work is Work.KEYS:
            self.first_readings.append((event["id"], first_key_ns, keys_done))
        # The cost: until the input is complete, plus from the end of any padding to the first key.
        began_real_ns = process.input_sent_real_ns if event["waited"] else process.ordered_real_ns
        due_real_ns = max(event["input_ready_real_ns"], self._clock.to_real_ns(launch.first_key_at_ns))
        cost_real_ns = event["input_ready_real_ns"] - began_real_ns + max(0, event["real_ns"] - due_real_ns)
        input_ready_ns = self._clock.to_emulated_ns(event["input_ready_real_ns"]) if event["waited"] else 0
        wanted = launch.saved.past_containers if launch.saved else ()
        lost = tuple(container for container in wanted if container not in event.get("past", wanted))
        cost = RealCost(max(0, cost_real_ns))
        return FirstKey(event["id"], first_key_ns, input_ready_ns, cost, lost, keys_done if lost else 0)

    def _paged(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        began_ns, ended_ns = (self._clock.to_emulated_ns(event[f"{name}_real_ns"]) for name in ("began", "ended"))
        out_bytes, in_bytes = (self._memories.emulated_bytes(event[f"{name}_bytes"]) for name in ("out", "in"))
        return Paged(event["id"], began_ns, ended_ns, out_bytes, in_bytes)

    def _committing(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        return Committing(event["id"])

    def _suspended(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        keys_done = self._page().read(process.slot).keys_done
        cost = RealCost(event["stopped_real_ns"] - event["received_real_ns"])
        return Suspended(event["id"], keys_done, cost)

    def _resumed(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        cost = RealCost(event["continued_real_ns"] - event["received_real_ns"])
        return Resumed(event["id"], cost, self._memories.emulated_bytes(event["swapped_bytes"]))

    def _checkpointed(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        key_real_ns = event["key_done_real_ns"] - event["signalled_real_ns"]
        total_real_ns = event["exited_real_ns"] - event["received_real_ns"]
        cost = RealCost(total_real_ns - key_real_ns, key_real_ns)
        return Checkpointed(event["id"], _key_checkpoint(event), cost)

    def _saved(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        return SavedByItself(event["id"], _key_checkpoint(event))

    def _terminated(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        return Terminated(event["id"], RealCost(event["signalled_real_ns"] - event["received_real_ns"]))

    def _dumped(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        assert self._images is not None
        image = self._images.image(process.launch, process.node, event)
        return Checkpointed(event["id"], image, RealCost(event["exited_real_ns"] - event["received_real_ns"]))

    def _killed(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        cost = RealCost(event["exited_real_ns"] - event["received_real_ns"])
        return Killed(event["id"], cost, self._memories.emulated_bytes(event["swapped_bytes"]))

    def _exited(self, process: ContainerProcess, event: dict[str, Any]) -> Message:
        self._lag.merge(event["lag"])
        killed = None
        if event["signal"] == signal.SIGKILL:
            killed = self._memories.why_killed(process.node, event["id"], self._request_of(process.launch))
        reason = process.timed_out or killed or event["reason"]
        digest = event.get("output_sha256", "")
        return Exited(event["id"], event["code"], event["signal"], event["keys_done"], reason, digest)


def _failed(kind: Callable[[str, str], Message]) -> Callable[[NodeEvents, ContainerProcess, dict[str, Any]], Message]:
    """An operation that was not carried out, and why."""
    return lambda events, process, event: kind(event["id"], event["reason"])


_COMPLETIONS: dict[str, Callable[[NodeEvents, ContainerProcess, dict[str, Any]], Message]] = {
    "launched": NodeEvents._launched,
    "launch_failed": _failed(LaunchFailed),
    "first_key": NodeEvents._first_key,
    "paged": NodeEvents._paged,
    "committing": NodeEvents._committing,
    "suspended": NodeEvents._suspended,
    "suspend_failed": _failed(SuspendFailed),
    "resumed": NodeEvents._resumed,
    "resume_failed": _failed(ResumeFailed),
    "checkpointed": NodeEvents._checkpointed,
    "checkpoint_failed": _failed(CheckpointFailed),
    "saved": NodeEvents._saved,
    "terminated": NodeEvents._terminated,
    "terminate_failed": _failed(TerminateFailed),
    "dumped": NodeEvents._dumped,
    "dump_failed": _failed(CheckpointFailed),
    "killed": NodeEvents._killed,
    "kill_failed": _failed(KillFailed),
    "exited": NodeEvents._exited,
}


def _key_checkpoint(event: dict[str, Any]) -> KeyCheckpoint:
    saved = event["checkpoint"]
    return KeyCheckpoint(
        tuple(saved["past_containers"]), saved["keys_done"], saved["input_path"], saved["hostname"], event["bytes"]
    )
