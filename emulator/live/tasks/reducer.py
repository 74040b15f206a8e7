"""The reduce task: get the input, walk its keys in active time, write the output; preempted when ordered to.

The walk is SWIM's: it sleeps for every key.  Sleeps end at absolute times, so lateness does not add up.  These times
move by the time that the task was stopped, so stopped time does no work (a plain `sleep` would count it).  A checkpoint
is taken between two keys: the key in progress is finished first (natjam, section 3.1).  SIGTSTP is obeyed at once, in
the middle of a key: the task closes its files and stops itself.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgpack

from emulator.live.memory.held import MemoryChanged
from emulator.live.tasks import checkpoint, partial_output, records, shuffle
from emulator.live.tasks.checkpoint import CheckpointFile
from emulator.live.tasks.containers import CHECKPOINT_FILE, INPUT_FILE
from emulator.live.tasks.kept_files import kept_files
from emulator.live.tasks.progress_page import SLOT_BYTES, SlotWriter, WorkState
from emulator.live.tasks.task import (
    CHECKPOINT,
    EXIT_CHECKPOINTED,
    EXIT_DONE,
    EXIT_IO_FAILED,
    INPUT_CHANGED,
    SUSPEND,
    TaskProcess,
    failure_reason,
    input_has_changed,
    take_signal,
)
from emulator.records.lag import LagRecorder

_LAG_BUCKETS_A_REPORT = 200
_SAY_AGAIN_REAL_NS = 5_000_000_000
"""How often a map's output that could not be fetched is asked for again, until it comes."""


class _CheckpointWanted(Exception):
    """Leads the task to its checkpoint; no key is half done."""


def run(task: TaskProcess) -> int:
    """Run one reduce task; returns its exit status.

    The status says what happened: committed, checkpointed, or input or output failed (the reason is then reported).
    Other errors propagate.
    """
    try:
        return _Reduce(task).run()
    except (
        OSError,
        MemoryChanged,
        records.RecordError,
        partial_output.OutputError,
        checkpoint.CheckpointError,
    ) as error:
        task.report("failed", reason=failure_reason(error))
        return EXIT_IO_FAILED


def rehearse(directory: str) -> None:
    """Do what a reduce does up to its first key, with a small input of its own in ``directory``, which is removed.

    Whatever this writes to is memory of this process afterwards, and no longer a copy to be made of its parent's.
    """
    params = {
        "container_id": "rehearsal",
        "job": "rehearsal",
        "task": 0,
        "maps": 1,
        "keys": 1,
        "reduce_keys": [1],
        "duration_ns": 0,
        "output_bytes": None,
        "outputs": [{"map": 0, "url": ""}],
        "checkpoint": None,
        "node": "here",
        "work_dir": directory,
        "output_dir": directory,
        "store": None,
        "secret": "",
        "network_bytes_real_s": 10**12,
        "origin_real_ns": time.monotonic_ns(),
        "scale": 1.0,
        "first_key_at_ns": 0,
        "save_period_ns": None,
    }
    nobody = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        shuffle.rehearse(params)
        slot = SlotWriter(memoryview(bytearray(SLOT_BYTES)).cast("Q"), 0)
        _Reduce(TaskProcess(params, slot, nobody)).rehearse()
    finally:
        os.close(nobody)
        shutil.rmtree(directory)


class _Reduce:
    def __init__(self, task: TaskProcess) -> None:
        params = task.params
        self._task = task
        self._container_id: str = params["container_id"]
        self._keys: int = params["keys"]
        self._duration_ns: int = params["duration_ns"]
        self._outputs: list[dict[str, Any]] = params["outputs"]
        self._kept = kept_files(params, self._give_sign_of_life)
        self._past: CheckpointFile | None = None
        self._in_key_ns = 0
        if params["checkpoint"] is not None:
            saved = CheckpointFile.from_dict(params["checkpoint"], "launch parameters")
            self._past = self._what_is_left_of(saved)
            if self._past == saved:
                self._in_key_ns = params.get("in_key_ns", 0)
        self._keys_done = self._past.keys_done if self._past else 0
        self._save_period_ns: int | None = params["save_period_ns"]
        self._keys_saved = self._keys_done
        self._input_path = records.input_path(params["work_dir"], params["job"], params["task"])
        self._stopped_real_ns = 0
        self._lag = LagRecorder()
        self._reader: records.KeyReader | None = None
        self._output = partial_output.PartialOutput(
            params["output_dir"],
            params["job"],
            params["task"],
            self._container_id,
            params["reduce_keys"],
            params["output_bytes"],
            self._keys_done,
        )

    def _what_is_left_of(self, past: CheckpointFile) -> CheckpointFile | None:
        """The part of a checkpoint whose partial outputs still match their seals; None: nothing of it."""
        params, containers = self._task.params, past.past_containers
        self._kept.get(*self._kept_paths(containers))
        keys = partial_output.sound_partials(params["output_dir"], params["job"], params["task"], containers)
        if len(keys) == len(containers) and sum(keys) == past.keys_done:
            return past
        return replace(past, past_containers=containers[: len(keys)], keys_done=sum(keys)) if keys else None

    def run(self) -> int:
        self._task.slot.start(self._keys_done, self._keys)
        try:
            self._localise()
            self._wait_first_key()
            self._write_memory()
            self._walk()
            self._check_memory()
        except _CheckpointWanted:
            self._write_checkpoint()
            return EXIT_CHECKPOINTED
        self._commit()
        return EXIT_DONE

    def rehearse(self) -> None:
        """Do all but the commit."""
        self._localise()
        self._wait_first_key()
        self._walk()
        self._output.close(durable=False)
        assert self._reader is not None
        self._reader.close()

    # Input

    def _localise(self) -> None:
        """Make sure that the merged input is on this node, from an earlier attempt or fetched now, and open it."""
        self._waited = False
        past = self._past
        # An input that is here needs no map outputs; if it is damaged, they are waited for then.
        here = past and past.hostname == self._task.params["node"] and os.path.exists(past.input_path)
        while True:
            while not here and self._maps_missing():
                self._wait_input()
            self._state(WorkState.FETCHING)
            try:
                self._input_path, _ = shuffle.fetch_and_merge(self._task.params, self._outputs, input_has_changed)
                break
            except shuffle.FetchFailed as error:
                here = False
                if not self._maps_missing():
                    self._wait_input(failed=error)
        self._reader = records.KeyReader(self._input_path, self._keys_done)

    def _maps_missing(self) -> bool:
        return len({output["map"] for output in self._outputs}) < self._task.params["maps"]

    def _wait_input(self, failed: shuffle.FetchFailed | None = None) -> None:
        """Wait until the node host sends a new list of map outputs; a map whose fetch ``failed`` must run again."""
        self._waited = True
        self._state(WorkState.WAITING_INPUT)
        self._task.report("settled")
        while True:
            if failed is not None:
                self._report_failed_fetch(failed)
            taken = self._task.wait(None if failed is None else time.monotonic_ns() + _SAY_AGAIN_REAL_NS)
            if taken == CHECKPOINT:
                raise _CheckpointWanted
            if taken == SUSPEND:
                self._stop()
                if failed is None and not self._maps_missing():
                    return  # restored elsewhere, it got them with its parameters
            elif taken == INPUT_CHANGED:
                packed = (self._task.container_directory / INPUT_FILE).read_bytes()
                self._outputs = msgpack.unpackb(packed)
                return

    def _report_failed_fetch(self, failed: shuffle.FetchFailed) -> None:
        version = max(output["version"] for output in self._outputs)
        self._task.report("fetch_failed", map=failed.map_index, version=version, reason=str(failed)[:1000])

    # Memory

    def _write_memory(self) -> None:
        if self._task.memory is not None:
            began_real_ns = time.monotonic_ns()
            self._task.use_memory(self._task.memory.write, self._obey_pending)
            self._base_real_ns += time.monotonic_ns() - began_real_ns

    def _check_memory(self) -> None:
        if self._task.memory is not None:
            self._task.use_memory(self._task.memory.check, self._obey_pending)

    def _give_sign_of_life(self) -> None:
        self._task.slot.alive(time.monotonic_ns())

    def _obey_pending(self) -> None:
        self._give_sign_of_life()
        while taken := take_signal(0):
            if taken == CHECKPOINT:
                raise _CheckpointWanted
            if taken == SUSPEND:
                self._stop()

    # Keys

    def _wait_first_key(self) -> None:
        """Wait until the launch overhead ends; being stopped does not move that time."""
        ready_real_ns = able_real_ns = time.monotonic_ns()
        due_real_ns = self._task.clock.to_real_ns(self._task.params["first_key_at_ns"])
        self._state(WorkState.WAITING_FIRST_KEY)
        self._task.report("settled")
        while taken := self._task.wait(due_real_ns):
            if taken == CHECKPOINT:
                raise _CheckpointWanted
            if taken == SUSPEND:
                self._stop()
                able_real_ns = time.monotonic_ns()
        # Work counts from the time it was due, even if the process woke up late.
        self._base_real_ns = max(due_real_ns, able_real_ns)
        self._state(WorkState.RUNNING)
        self._task.report(
            "first_key",
            real_ns=time.monotonic_ns(),
            input_ready_real_ns=ready_real_ns,
            waited=self._waited,
            past=list(self._past.past_containers if self._past else ()),
            keys_done=self._keys_done,
        )

    def _walk(self) -> None:
        assert self._reader is not None
        in_key_real_ns = self._task.clock.to_real_duration_ns(self._in_key_ns)
        self._base_real_ns -= self._work_real_ns(self._keys_done) + in_key_real_ns + self._stopped_real_ns
        for key, values in self._reader:
            wanted = self._work_one_key()
            self._output.append(key, values)
            self._keys_done += 1
            self._task.slot.key_done(self._keys_done, time.monotonic_ns())
            if wanted:
                raise _CheckpointWanted
            if self._save_period_ns is not None and self._keys_done < self._keys:
                self._save_if_due(self._save_period_ns)

    def _save_if_due(self, period_ns: int) -> None:
        """Save what is done, if the last save is so long ago, and go on; without it, if the disk takes nothing."""
        if self._work_ns(self._keys_done) - self._work_ns(self._keys_saved) < period_ns:
            return
        self._keys_saved = self._keys_done
        with suppress(partial_output.OutputError):
            self._output.seal_beside()
            self._task.report("saved", bytes=self._write_checkpoint_file())

    def _work_ns(self, keys: int) -> int:
        """Active time of the first `keys` keys."""
        return self._duration_ns * keys // self._keys

    def _work_real_ns(self, keys: int) -> int:
        """Real active time of the first `keys` keys."""
        return self._task.clock.to_real_duration_ns(self._work_ns(keys))

    def _work_one_key(self) -> bool:
        """Sleep for the next key's time; returns True if a checkpoint is wanted after it."""
        work_real_ns = self._work_real_ns(self._keys_done + 1)
        wanted = False
        while taken := self._task.wait(self._base_real_ns + work_real_ns + self._stopped_real_ns):
            if taken == SUSPEND:
                self._stop()
            wanted = wanted or taken == CHECKPOINT
        self._lag.record(self._base_real_ns + work_real_ns + self._stopped_real_ns, time.monotonic_ns())
        return wanted

    def _commit(self) -> None:
        self._state(WorkState.COMMITTING)
        self._task.report("committing", real_ns=time.monotonic_ns())
        self._output.close()
        params = self._task.params
        if self._past is not None and self._what_is_left_of(self._past) != self._past:
            raise partial_output.OutputError("what attempts before had written has changed since they were suspended")
        partial_output.commit(params["output_dir"], params["job"], params["task"], self._containers(), self._keys)
        self._kept.put(partial_output.final_path(params["output_dir"], params["job"], params["task"]))
        if self._past is not None:
            self._kept.remove(*self._kept_paths(self._past.past_containers))
        self._report_lag()
        self._state(WorkState.DONE)

    # Preemption

    def _stop(self) -> None:
        """Stop this process until it is continued; meanwhile nothing outside is open.

        Its output need not reach the disk: it outlives this process, and a machine that dies takes both.  But an image
        of the process would rely on the output.  It may continue as another process, on another node.
        """
        if self._task.params.get("images"):
            self._output.seal()
            self._kept.put(self._output.path)
        self._output.close(durable=False)
        if self._reader is not None:
            self._reader.close()
        state, here = self._slot_state, self._task.params["output_dir"]
        self._state(WorkState.STOPPED)
        stopped_at_real_ns, went_on_real_ns = self._task.stop()
        self._stopped_real_ns += went_on_real_ns - stopped_at_real_ns
        self._task.slot.start(self._keys_done, self._keys)
        self._task.slot.stopped(max(0, self._stopped_real_ns))
        self._state(state)
        self._outputs = self._task.params["outputs"] or self._outputs
        if self._reader is not None and not os.path.exists(self._reader.path):
            self._reader.path, _ = shuffle.fetch_and_merge(self._task.params, self._outputs)
        if self._task.params["output_dir"] != here:
            self._bring_output()
        self._output.reopen()

    def _bring_output(self) -> None:
        """Another process now, on a host with another directory: what it and those before it wrote is in the store."""
        self._kept = kept_files(self._task.params, self._give_sign_of_life)
        paths = self._kept_paths(self._containers())
        self._kept.get(*paths, anew=True)
        self._output.path = paths[-1]

    def _write_checkpoint(self) -> None:
        key_done_real_ns = time.monotonic_ns()
        self._output.seal()
        self._kept.put(self._output.path)
        size_bytes = self._write_checkpoint_file()
        self._state(WorkState.CHECKPOINTED)
        self._report_lag()
        self._task.report(
            "checkpoint_written",
            key_done_real_ns=key_done_real_ns,
            written_real_ns=time.monotonic_ns(),
            bytes=size_bytes,
        )

    def _write_checkpoint_file(self) -> int:
        saved = CheckpointFile(
            past_containers=self._containers(),
            keys_done=self._keys_done,
            input_path=self._input_path,
            hostname=self._task.params["node"],
        )
        return checkpoint.write(str(self._task.container_directory / CHECKPOINT_FILE), saved)

    def _containers(self) -> tuple[str, ...]:
        return (*(self._past.past_containers if self._past else ()), self._container_id)

    def _kept_paths(self, containers: Sequence[str]) -> list[str]:
        params = self._task.params
        return partial_output.kept_paths(params["output_dir"], params["job"], params["task"], containers)

    # Reports

    def _state(self, state: WorkState) -> None:
        self._slot_state = state
        self._task.slot.state(state, time.monotonic_ns())

    def _report_lag(self) -> None:
        """Report how late its keys were, in pieces small enough for the shared pipe."""
        record = self._lag.to_record()
        buckets = record["buckets"]
        for first in range(0, len(buckets), _LAG_BUCKETS_A_REPORT):
            piece = buckets[first : first + _LAG_BUCKETS_A_REPORT]
            self._task.report("lag", max_real_ns=record["max_real_ns"], buckets=piece)
