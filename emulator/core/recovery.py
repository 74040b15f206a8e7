"""Jobs whose ApplicationMaster has died: another attempt goes on with what runs and what was committed.

Theory of operation
-------------------
A machine's journal is what it recovers from: fed to a fresh machine it makes the state of the one that has died, as the
job history does in Hadoop.  ``Start`` then tells the machine that it is on again.  Whatever was said while it was off
has been lost, which the protocol bears: NodeManagers keep their containers running and repeat what is not acknowledged
(YARN's work-preserving restart), and it repeats what has not been answered.

When the container of an ApplicationMaster has ended before its job, the ResourceManager asks for another one in its
place, until ``am_attempts`` have failed; as in YARN those lost with their node do not count.  What the job asks for and
has been given stays.  A job that holds the whole cluster with reduces that wait for its own maps would wait for ever:
its newest task is killed to make room, once a ``kill_timeout``.
"""

from __future__ import annotations

from emulator.core.applications import Application, HeldContainer
from emulator.core.cluster_state import ClusterState
from emulator.core.command_ledger import OrderLedger
from emulator.core.effects import Effect
from emulator.core.messages import ContainerReport, KillContainer, Outcome
from emulator.core.settings import Settings
from emulator.vocabulary import Kind

ROOM_FOR_MASTER = "room for its ApplicationMaster"
"""Why a container was killed."""


class MasterRecovery:
    """Part of the ResourceManager; see the module's theory of operation."""

    def __init__(self, settings: Settings, state: ClusterState, orders: OrderLedger) -> None:
        self.due_ns: int | None = None
        """From when on ``make_room`` may do something, or some time before; None: it will not, as things stand."""
        self._attempts_max = settings.protocol.am_attempts
        self._patience_ns = settings.protocol.kill_timeout_ns
        self._state = state
        self._orders = orders
        self._waiting_ns: dict[str, int] = {}
        """Jobs that have lost their ApplicationMaster: since when, or since room was last made."""

    def lost(self, application: Application, report: ContainerReport, now_ns: int) -> str | None:
        """Its ApplicationMaster has ended; why the job must fail, None: another attempt is to be made."""
        application.master_failures += report.outcome is not Outcome.LOST
        failures = application.master_failures
        if failures >= self._attempts_max:
            times = f", for the {failures}. time" if failures > 1 else ""
            return f"its ApplicationMaster ended{times}: {report.reason}"
        self._waiting_ns[application.name] = now_ns
        self._expect(now_ns)
        return None

    def make_room(self, now_ns: int) -> list[Effect] | None:
        """Kill the newest task of each job that has waited too long for a container for its ApplicationMaster.

        None: nothing has changed, not even for whom there is to be waited.
        """
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        effects: list[Effect] = []
        self.due_ns = None
        for job, since_ns in list(self._waiting_ns.items()):
            application = self._state.applications.get(job)
            if application is None or application.requests.application_master is None:
                del self._waiting_ns[job]
            elif since_ns + self._patience_ns > now_ns:
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
        is_task = held.kind is not Kind.APPLICATION_MASTER
        return is_task and self._state.on_slot(held) and held.id not in self._orders

    def _expect(self, since_ns: int) -> None:
        due_ns = since_ns + self._patience_ns
        self.due_ns = due_ns if self.due_ns is None else min(self.due_ns, due_ns)
