"""What the supervisor knows of one container: its process, its operations in order, its last reports.

Nothing here sends a signal or forks a process; the supervisor does.  This module decides which signal is due, and which
events follow from what the kernel and the task report.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emulator.live.clock import ScaledClock
from emulator.live.tasks import checkpoint, records
from emulator.live.tasks.partial_output import CONTAINER_ID
from emulator.live.tasks.task import CHECKPOINT, EXIT_CHECKPOINTED, EXIT_DONE, SUSPEND, container_directory, pack
from emulator.records.lag import LagRecord, LagRecorder

Emit = Callable[..., None]
"""``emit(event, id=..., **fields)`` queues one event for the node host."""

INPUT_FILE = "input.msgpack"
CHECKPOINT_FILE = "checkpoint.msgpack"

_SIGNALS = {
    "suspend": SUSPEND,
    "resume": signal.SIGCONT,
    "checkpoint": CHECKPOINT,
    "dump": SUSPEND,
    "terminate": signal.SIGTERM,
    "stop again": SUSPEND,
}
_STOPPING = ("suspend", "dump", "stop again")
_OWN_OPERATIONS = ("restore", "stop again")
"""Operations that nobody has asked for, so that nobody is notified of them."""
_FIELDS: dict[str, dict[str, type]] = {
    "launch": {"id": str, "kind": str, "slot": int, "params": dict},
    "input": {"id": str, "outputs": list},
    "suspend": {"id": str},
    "resume": {"id": str},
    "checkpoint": {"id": str},
    "dump": {"id": str},
    "terminate": {"id": str},
    "kill": {"id": str},
    "close": {},
}


def parse_command(message: object) -> dict[str, Any]:
    """Check the form of one command.

    Raises ValueError naming what is wrong; the command's handler checks its content.
    """
    if not isinstance(message, dict):
        raise ValueError(f"a command is a map, not {type(message).__name__}")
    op = message.get("op")
    if not isinstance(op, str) or op not in _FIELDS:
        raise ValueError(f"unknown op {op!r}")
    for name, kind in _FIELDS[op].items():
        if type(message.get(name)) is not kind:
            raise ValueError(f"{op}: {name} must be {kind.__name__}, not {message.get(name)!r:.80}")
    return message


def launch_problem(command: dict[str, Any]) -> str | None:
    """Why a launch is impossible with these parameters, or None."""
    identity, params = command["id"], command["params"]
    if not CONTAINER_ID.fullmatch(identity):
        return f"container id {identity!r} cannot name a directory"
    if params.get("container_id") != identity:
        return f"launch parameter container_id is {params.get('container_id')!r}, the command's id {identity!r}"
    if not isinstance(params.get("work_dir"), str):
        return f"launch parameter work_dir must be a directory, not {params.get('work_dir')!r}"
    return None


@dataclass(slots=True)
class PendingCommand:
    """A command on a container that waits for its completion.  Times are real nanoseconds."""

    op: str
    received_real_ns: int
    signalled_real_ns: int = 0


@dataclass(slots=True)
class ContainerProcess:
    """One container from its launch command to its exit."""

    id: str
    kind: str
    slot: int
    params: dict[str, Any]
    received_real_ns: int
    pid: int | None = None
    """None until it is forked; earlier operations wait for that."""
    swapped_bytes: int = 0
    """Bytes of its memory in swap when it was last resumed, or killed, while stopped."""
    is_stopped: bool = False
    _is_suspended: bool = False
    """Since it was stopped as ordered, until it is ordered to go on."""
    _held_up_since_real_ns: int | None = None
    """The time since which it is stopped though nobody here has ordered it."""
    has_ended: bool = False
    """Its process was reaped; for a program, what it has started may be left."""
    _new_outputs: list[Any] = field(default_factory=list)
    _current: PendingCommand | None = None
    _waiting: deque[PendingCommand] = field(default_factory=deque)
    _kills: list[PendingCommand] = field(default_factory=list)
    _kill_sent: bool = False
    _written: dict[str, int] | None = None
    counters: dict[str, Any] = field(default_factory=dict)
    """Its work so far, as of its last stop; part of an image of it."""
    _image: Mapping[str, Any] | None = None
    """The image that was made of it before it is ended."""
    _walking_since_real_ns: int = 0
    """The time since which it has worked on its keys without a stop; 0: it is not working."""
    _found: dict[str, Any] | None = None
    """The containers whose work a restore has found, and their keys; None: the task itself looks for it."""
    _was_walking: bool = False
    """Whether it was working when the image was made that it was restored from."""
    _worked_real_ns: int = 0
    """Time worked on its keys before that."""
    _reason: str = ""
    _lag: LagRecorder = field(default_factory=LagRecorder)

    @property
    def directory(self) -> Path:
        """Its scratch directory on the node's disk; made when something is written there."""
        return container_directory(self.params["work_dir"], self.id)

    @property
    def living_pid(self) -> int | None:
        """Its process; None before it is forked and after it was reaped."""
        return None if self.has_ended else self.pid

    @property
    def holds_memory(self) -> bool:
        """Whether it uses a noticeable amount of memory."""
        return bool(self.params.get("memory_bytes"))

    def take_input(self, outputs: list[Any]) -> bool:
        """Take a newer list of map outputs; returns whether a running process must be notified when its turn comes."""
        if self.pid is None:
            self.params["outputs"] = outputs
            return False
        self._new_outputs = outputs
        return True

    def write_input(self) -> None:
        """Write the newest list of map outputs to the file that the process reads when told.  Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / (INPUT_FILE + ".new")
        temporary.write_bytes(pack(self._new_outputs))
        os.replace(temporary, self.directory / INPUT_FILE)

    def request(self, operation: PendingCommand) -> None:
        """Queue an operation; a kill does not wait for earlier operations."""
        (self._kills if operation.op == "kill" else self._waiting).append(operation)

    def next_signal(self, emit: Emit) -> int | None:
        """The signal to send now, if any; operations that have become impossible are refused on the way."""
        if self.living_pid is None or self._kill_sent:
            return None
        if self._kills:
            self._kill_sent = True
            return signal.SIGKILL
        while self._current is None and self._waiting:
            operation = self._waiting.popleft()
            if (reason := self._refusal(operation.op)) is None:
                self._current = operation
                return _SIGNALS[operation.op]
            emit(f"{operation.op}_failed", id=self.id, reason=reason)
        return None

    def _refusal(self, op: str) -> str | None:
        if op == "checkpoint" and self.kind != "reduce":
            return f"a {self.kind} task counts no keys, so that there is nothing to save"
        if op == "dump" and "images" not in self.params:
            return "no images are made of it"
        if op == "resume":
            return None if self.is_stopped else "the container is not suspended"
        return "the container is suspended" if self.is_stopped else None

    @property
    def is_to_stop(self) -> bool:
        """Whether it has been ordered to stop and has not stopped yet."""
        return self._current is not None and self._current.op in _STOPPING and not self.is_stopped

    @property
    def stays_suspended(self) -> bool:
        """Whether it is suspended, and nothing else is asked of it yet."""
        return self.living_pid is not None and self.is_stopped and self._is_suspended and self._current is None

    @property
    def is_to_be_saved(self) -> bool:
        """Whether it has been ordered to stop because an image is to be made."""
        return self._current is not None and self._current.op == "dump"

    def signalled(self, real_ns: int, emit: Emit) -> None:
        """The signal that `next_signal` gave has been sent."""
        if self._current is not None and not self._current.signalled_real_ns:
            self._current.signalled_real_ns = real_ns
        if self._current is not None and self._current.op == "terminate":
            emit("terminated", id=self.id, **_instants(self._current))
            self._current = None

    def stop_changed(self, stopped: bool, real_ns: int, emit: Emit) -> None:
        """The kernel reports that the process has stopped or continues."""
        self.is_stopped = stopped
        if stopped and self._walking_since_real_ns:
            self._worked_real_ns += real_ns - self._walking_since_real_ns
        if self._walking_since_real_ns or self._worked_real_ns:
            self._walking_since_real_ns = 0 if stopped else real_ns
        operation, awaited = self._current, ("suspend", "stop again") if stopped else ("resume",)
        if stopped and (operation is None or operation.op not in _STOPPING):
            self._held_up_since_real_ns = real_ns
        elif not stopped:
            self._goes_on(real_ns, emit)
        if operation is not None and operation.op == "restore" and not stopped:
            self._goes_on_again(operation, real_ns, emit)
        if operation is None and self._is_suspended and not stopped:  # somebody else has continued it
            self._waiting.appendleft(PendingCommand("stop again", real_ns))
        if operation is None or operation.op not in awaited:
            return
        self._current, self._is_suspended = None, stopped
        if operation.op == "stop again":
            return
        if stopped:
            emit("suspended", id=self.id, **_instants(operation), stopped_real_ns=real_ns)
            return
        swapped_bytes = self.swapped_bytes
        emit("resumed", id=self.id, **_instants(operation), continued_real_ns=real_ns, swapped_bytes=swapped_bytes)

    def _goes_on(self, real_ns: int, emit: Emit) -> None:
        """It goes on, or has ended: say for how long somebody else had stopped it."""
        since_real_ns, self._held_up_since_real_ns = self._held_up_since_real_ns, None
        if since_real_ns is not None:
            emit("stood_still", id=self.id, late_real_ns=real_ns - since_real_ns, real_ns=real_ns)

    def reported(self, event: str, fields: dict[str, Any], emit: Emit) -> None:
        """Handle a report of the task: keep it for its exit, or pass it on."""
        if event == "failed":
            self.failed(fields["reason"])
        elif event == "checkpoint_written":
            self._written = fields
        elif event == "saved":
            with suppress(checkpoint.CheckpointError, OSError):
                emit("saved", id=self.id, **fields, checkpoint=self._read_checkpoint())
        elif event == "lag":
            self._lag.merge(LagRecord(max_real_ns=fields["max_real_ns"], buckets=fields["buckets"]))
        else:
            if event == "first_key":
                self._walking_since_real_ns = fields["real_ns"]
                fields |= self._found or {}
            emit(event, id=self.id, **fields)

    def failed(self, reason: str) -> None:
        """Why it has failed, or will end; the first reason counts."""
        self._reason = self._reason or reason

    # Images

    @property
    def is_to_be_dumped(self) -> bool:
        """Whether it has stopped to be saved, and its counters are not set yet."""
        return self._current is not None and self._current.op == "dump" and self.is_stopped and not self.counters

    def set_counters(self, keys_done: int) -> None:
        """It has stopped to be saved, with ``keys_done`` keys done."""
        params, past = self.params, self.params.get("checkpoint")
        worked_ns = round(self._worked_real_ns * params["scale"]) + params.get("in_key_ns", 0)
        if self.kind == "reduce":
            new_keys = keys_done - (past["keys_done"] if past else 0)
            worked_ns -= params["duration_ns"] * new_keys // params["keys"]
        self.counters = {
            "past_containers": [*(past["past_containers"] if past else ()), self.id],
            "keys_done": keys_done,
            "in_key_ns": max(0, worked_ns),
            "walking": self._worked_real_ns > 0,
            "hostname": params["node"],
            "directory": params.get("directory"),
            "input_path": records.input_path(params["work_dir"], params["job"], params["task"]),
        }

    def dumped(self, outcome: Mapping[str, Any], emit: Emit) -> int | None:
        """Its image is made, or has failed; returns the signal to send next."""
        self.counters = {}
        if "failed" not in outcome:
            self._image = outcome
            return signal.SIGKILL
        self._current = None
        emit("dump_failed", id=self.id, reason=outcome["failed"])
        # A dump by criu that was interrupted may have left a part of criu in the process.
        is_unsound = outcome.get("broken", False) and self.params["images"]["dumper"] == "criu"
        return signal.SIGKILL if is_unsound else signal.SIGCONT

    @property
    def is_program(self) -> bool:
        """Whether it is not natjam's own program: then its whole process group gets the signals."""
        return self.kind == "command"

    @property
    def restores(self) -> bool:
        """Whether it resumes from an image."""
        return self.params.get("restore") is not None

    @property
    def first_key_due_real_ns(self) -> int:
        """It must not work on its keys before this time."""
        return ScaledClock(self.params["origin_real_ns"], self.params["scale"]).to_real_ns(
            self.params["first_key_at_ns"]
        )

    def made_again(self, counters: Mapping[str, Any], real_ns: int) -> None:
        """Its process exists again, stopped, as when its image was made; it continues when that is due."""
        self.is_stopped = True
        self._current = PendingCommand("restore", real_ns)
        self.params["directory"] = counters["directory"]
        self._was_walking = counters["walking"]
        self._found = {"past": counters["past_containers"], "keys_done": counters["keys_done"]}
        self._count_from(counters)

    def _goes_on_again(self, operation: PendingCommand, real_ns: int, emit: Emit) -> None:
        self._current = None
        if self._was_walking:
            self._walking_since_real_ns = real_ns
            ready_real_ns = operation.received_real_ns
            fields = {"real_ns": real_ns, "input_ready_real_ns": ready_real_ns, "waited": False}
            emit("first_key", id=self.id, **fields, **(self._found or {}))

    def go_on_from(self, counters: Mapping[str, Any] | None) -> None:
        """Start with the work recorded in an image; None: start from nothing."""
        self.params["in_key_ns"], self.params["checkpoint"] = 0, None
        self._found = {"past": [], "keys_done": 0}
        if counters is None:
            return
        self._found = None if self.kind == "reduce" else {**self._found, "past": counters["past_containers"]}
        self._count_from(counters)

    def _count_from(self, counters: Mapping[str, Any]) -> None:
        """What it does comes after the work recorded in an image, in its own next image too."""
        self.params["in_key_ns"] = counters["in_key_ns"]
        if counters["keys_done"] or counters["walking"]:
            names = ("past_containers", "keys_done", "input_path", "hostname")
            self.params["checkpoint"] = {"version": checkpoint.VERSION, **{name: counters[name] for name in names}}

    def exited(
        self, code: int | None, killed_by: int | None, keys_done: int, real_ns: int, emit: Emit, **facts: str
    ) -> None:
        """Nothing is left of it: complete what was asked of it, then report how it ended."""
        self._goes_on(real_ns, emit)
        reason = self._reason or _exit_reason(code, killed_by)
        if self._current is not None and self._current.op == "checkpoint" and code == EXIT_CHECKPOINTED:
            self._complete_checkpoint(self._current, real_ns, emit)
            self._current = None
        if (
            self._current is not None
            and self._current.op == "dump"
            and self._image is not None
            and killed_by == signal.SIGKILL
        ):
            emit("dumped", id=self.id, **_instants(self._current), **self._image, exited_real_ns=real_ns)
            self._current = None
        self._fail_waiting(f"the process ended first: {reason}", emit)
        for operation in self._kills:
            if killed_by == signal.SIGKILL:
                swapped_bytes = self.swapped_bytes if self.is_stopped else 0
                emit(
                    "killed",
                    id=self.id,
                    received_real_ns=operation.received_real_ns,
                    exited_real_ns=real_ns,
                    swapped_bytes=swapped_bytes,
                )
            else:
                emit("kill_failed", id=self.id, reason=f"the process ended first: {reason}")
        emit(
            "exited",
            id=self.id,
            code=code,
            signal=killed_by,
            keys_done=keys_done,
            real_ns=real_ns,
            reason="" if code == EXIT_DONE else reason,
            lag=self._lag.to_record(),
            **facts,
        )

    def launch_failed(self, reason: str, emit: Emit) -> None:
        """There will be no process: report that, and refuse the operations that wait for it."""
        emit("launch_failed", id=self.id, reason=reason)
        self._fail_waiting("the container was not launched", emit)
        for _ in self._kills:
            emit("kill_failed", id=self.id, reason="the container was not launched")

    def _fail_waiting(self, reason: str, emit: Emit) -> None:
        for operation in [self._current, *self._waiting]:
            if operation is not None and operation.op not in _OWN_OPERATIONS:
                emit(f"{operation.op}_failed", id=self.id, reason=reason)

    def _read_checkpoint(self) -> dict[str, Any]:
        return checkpoint.read(str(self.directory / CHECKPOINT_FILE)).to_dict()

    def _complete_checkpoint(self, operation: PendingCommand, real_ns: int, emit: Emit) -> None:
        try:
            saved = self._read_checkpoint()
        except (checkpoint.CheckpointError, OSError) as error:
            emit("checkpoint_failed", id=self.id, reason=f"the checkpoint cannot be read: {error}")
            return
        written = self._written or {}
        emit(
            "checkpointed",
            id=self.id,
            **_instants(operation),
            **written,
            exited_real_ns=real_ns,
            checkpoint=saved,
        )


def _instants(operation: PendingCommand) -> dict[str, int]:
    return {
        "received_real_ns": operation.received_real_ns,
        "signalled_real_ns": operation.signalled_real_ns,
    }


def _exit_reason(code: int | None, killed_by: int | None) -> str:
    if killed_by is not None:
        return f"killed by {signal.Signals(killed_by).name}"
    if code == EXIT_CHECKPOINTED:
        return "checkpointed"
    return f"exit status {code}"
