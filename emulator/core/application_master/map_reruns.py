"""Maps that run again because their output is lost, and how containers are found for them.

Theory of operation
-------------------
A map that has succeeded runs again if its node is lost, or a reduce cannot fetch its output, while reduces still need
it.  These reduces wait for it and need not fail.  They say so again and again, until all outputs are there; what they
say of outputs that they knew before a map ran again is not about its new one.

If the waiting reduces hold every container of the cluster, the map would wait for ever.  So when maps have waited long
and no other map will end and free its container, the job takes a container from one of its own reduces.  If maps have
slots of their own, this would not help, and is not done.
"""

from __future__ import annotations

from emulator.core.application_master.job_tasks import JobTasks
from emulator.core.application_master.releaser import view_of
from emulator.core.application_master.task import AttemptEvent, AttemptState, Task, TaskAttempt, TaskEvent, TaskState
from emulator.core.effects import Effect
from emulator.core.explanation import LAST_LAUNCHED, explain_tasks
from emulator.core.messages import FetchFailed, KillContainer
from emulator.core.settings import Settings
from emulator.vocabulary import Mechanism, Work


class MapReruns:
    """The maps of one job that must run again; see the module's theory of operation."""

    def __init__(self, tasks: JobTasks, settings: Settings) -> None:
        self._tasks = tasks
        self._timeout_ns = settings.protocol.kill_timeout_ns
        """How long maps wait before a container is taken for them."""
        self._have_own_slots = settings.own_slots
        self._new_in: dict[int, int] = {}
        """The version of the outputs that has the new output, by the map that ran again."""

    def node_lost(self, node: str, now_ns: int) -> list[Effect]:
        """Run the maps again whose output was on this node, if reduces may still need it."""
        tasks = self._tasks
        tasks.outputs.forget_node(node)
        tasks.blacklist.node_lost(node)
        if not tasks.walkers or tasks.groups.done:
            return []
        lost = [task for task in tasks.maps if task.state is TaskState.SUCCEEDED and task.output_node == node]
        for task in lost:
            self._run_again(task, now_ns)
        return self.kill_newest_reduce(now_ns) if lost else []

    def fetch_failed(self, message: FetchFailed, now_ns: int) -> None:
        """A reduce has asked several times for a map's output without success."""
        task = self._tasks.maps[message.map]
        version = self._tasks.outputs.version
        # Else the reduce will learn of other outputs.
        is_of_this = message.version == version >= self._new_in.get(message.map, version)
        if is_of_this and task.state is TaskState.SUCCEEDED:
            self._run_again(task, now_ns)

    def _run_again(self, map_task: Task, now_ns: int) -> None:
        tasks = self._tasks
        another = map_task.take(TaskEvent.OUTPUT_LOST)
        self._new_in[map_task.index] = tasks.outputs.version + 1
        tasks.groups.count(map_task, -1)
        tasks.map_news_ns = now_ns
        tasks.request(another)
        tasks.outputs.incomplete()

    def starve_ns(self) -> int | None:
        """When maps that must run again or resume have waited long, no other map will free its container, and a running
        reduce has one to give."""
        tasks = self._tasks
        if self._have_own_slots or tasks.groups.maps_are_done:
            return None
        if not tasks.asks.has_new_map and tasks.asks.first_map_to_resume is None:
            return None
        if any(a.work is Work.SHUFFLE and a.state is not AttemptState.SUSPENDED for a in tasks.live.values()):
            return None
        if not self._running:
            return None
        return tasks.map_news_ns + self._timeout_ns

    def kill_newest_reduce(self, now_ns: int) -> list[Effect]:
        """Kill the reduce launched last: else reduces that wait for a map's output could hold every container for ever.

        A stopped map needs a container of its own node.  Containers elsewhere are given back too, because the holders
        of that node's containers may wait for them.
        """
        tasks = self._tasks
        running = self._running
        if not running or self._have_own_slots:
            return []
        tasks.map_news_ns = now_ns
        stopped = None if tasks.asks.has_new_map else tasks.asks.first_map_to_resume
        needed = None if stopped is None else stopped.node
        running.sort(key=lambda a: (a.node == needed, a.running_since_ns, tasks.of(a).index), reverse=True)
        last = running[0]
        container, node = last.place
        last.take(AttemptEvent.CHOOSE, Mechanism.KILL)
        kill = KillContainer(container, tasks.job, "room for a map whose output is missing")
        views = tuple(view_of(tasks.job, attempt, now_ns) for attempt in running)
        why = explain_tasks(LAST_LAUNCHED, tasks.job, views, [task.container for task in views], victims=1)
        return [why, tasks.commands.send(container, node, kill, now_ns)]

    @property
    def _running(self) -> list[TaskAttempt]:
        """Running reduces: each has a container to give."""
        return [attempt for attempt in self._tasks.live_reduces if attempt.state is AttemptState.RUNNING]
