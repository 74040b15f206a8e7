"""Recovery from the death of an ApplicationMaster: another attempt continues with what runs and what was committed.

Theory of operation
-------------------
A machine recovers from its journal: given to a new machine, the journal restores the state of the dead one, like the
job history in Hadoop.  Then ``Start`` tells the machine that it runs again.  Messages sent to it in between are lost,
and the protocol tolerates this: NodeManagers keep their containers running and repeat what was not acknowledged (YARN's
work-preserving restart), and the machine repeats what was not answered.

If the container of an ApplicationMaster ends before its job, the ResourceManager requests another one for it, until
``am_attempts`` have failed; as in YARN, masters lost with their node do not count.  The job keeps its requests and its
containers.  If its own reduces hold the whole cluster and wait for its maps, no container would ever become free for
the new master.  So once per ``kill_timeout`` the job's newest task is killed to make room.
"""

from __future__ import annotations

from emulator.core.delivery import CommandLedger
from emulator.core.effects import Effect
from emulator.core.messages import ContainerReport, KillContainer, Outcome
from emulator.core.resource_manager.applications import Application, HeldContainer
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.settings import Settings
from emulator.vocabulary import MASTER_GROUP

ROOM_FOR_MASTER = "room for its ApplicationMaster"
"""Why a container was killed."""


class MasterRecovery:
    """Restarts lost ApplicationMasters for the ResourceManager (see the module's theory of operation)."""

    def __init__(self, settings: Settings, state: ClusterState, orders: CommandLedger) -> None:
        self.due_ns: int | None = None
        """Earliest time at which ``kill_newest_reduce`` may do something (never too late); None: there is none."""
        self._attempts_max = settings.protocol.am_attempts
        self._timeout_ns = settings.protocol.kill_timeout_ns
        self._state = state
        self._orders = orders
        self._waiting_ns: dict[str, int] = {}
        """Jobs without their ApplicationMaster: since when, or when room was last made."""

    def lost(self, application: Application, report: ContainerReport, now_ns: int) -> str | None:
        """A job's ApplicationMaster has ended; returns why the job must fail, or None: another attempt follows."""
        application.master_failures += report.outcome is not Outcome.LOST
        failures = application.master_failures
        if failures >= self._attempts_max:
            times = f", for the {failures}. time" if failures > 1 else ""
            return f"its ApplicationMaster ended{times}: {report.reason}"
        self._waiting_ns[application.name] = now_ns
        self._expect(now_ns)
        return None

    def restart_timeouts(self, now_ns: int) -> None:
        """The ResourceManager was away: it has not heard of containers that became free."""
        self._waiting_ns = dict.fromkeys(self._waiting_ns, now_ns)

    def kill_newest_reduce(self, now_ns: int) -> list[Effect] | None:
        """For each job that has waited too long for its ApplicationMaster's container, kill the job's newest task.

        Returns None if nothing has changed, not even the list of waiting jobs.
        """
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        effects: list[Effect] = []
        self.due_ns = None
        for job, since_ns in list(self._waiting_ns.items()):
            application = self._state.applications.get(job)
            if application is None or application.requests.application_master is None:
                del self._waiting_ns[job]
            elif since_ns + self._timeout_ns > now_ns:
                self._expect(since_ns)
            else:
                self._waiting_ns[job] = now_ns
                self._expect(now_ns)
                effects += self._kill_newest(application, now_ns)
        return effects

    def _kill_newest(self, application: Application, now_ns: int) -> list[Effect]:
        tasks = [held for held in application.containers.values() if self._can_go(held)]
        if not tasks:
            return []
        held = max(tasks, key=lambda held: (held.since_ns, held.id))
        return [self._orders.send(held.id, held.node, KillContainer(held.id, held.job, ROOM_FOR_MASTER), now_ns)]

    def _can_go(self, held: HeldContainer) -> bool:
        is_task = held.group is not MASTER_GROUP
        return is_task and self._state.on_slot(held) and held.id not in self._orders

    def _expect(self, since_ns: int) -> None:
        due_ns = since_ns + self._timeout_ns
        self.due_ns = due_ns if self.due_ns is None else min(self.due_ns, due_ns)
