"""What the ResourceManager must tell one ApplicationMaster: numbered news, collected until its next heartbeat."""

from __future__ import annotations

from emulator.core.delivery import NumberedNews
from emulator.core.messages import AllocatedContainer, Answer, ContainerReport, TaskOrder
from emulator.core.resource_manager.cost_ledger import CostLedger
from emulator.vocabulary import Resources


class MasterNews:
    """Containers given, ended or asked back, lost nodes, orders about tasks."""

    def __init__(self, address: str, changed: list[str] | None = None) -> None:
        """``address`` is added to ``changed`` whenever there is more to tell."""
        self._address = address
        self._changed = [] if changed is None else changed
        self._answers: NumberedNews[Answer] = NumberedNews()
        self.heard_id = 0
        """Id of the last answer that it is known to have; kept where news are told at once."""
        self._allocated: list[AllocatedContainer] = []
        self._finished: list[ContainerReport] = []
        self.reclaim = 0
        """Containers to ask back that it has not been asked for yet."""
        self._withdrawn = 0
        """Containers asked back before that it need no longer give."""
        self._keeps_changed = False
        """Whether it must hear what it may keep of nodes."""
        self._named: list[str] = []
        self._device_queues: list[tuple[str, int]] = []
        self._lost_nodes: list[str] = []
        self._orders: list[TaskOrder] = []

    # ---- what is to be told ----

    def give(self, allocation: AllocatedContainer) -> None:
        """It gets a container."""
        self._allocated.append(allocation)
        self._changed.append(self._address)

    def ended(self, report: ContainerReport) -> None:
        """A container has ended that it has not acknowledged."""
        self._finished.append(report)
        self._changed.append(self._address)

    def ask_back(self) -> None:
        """It must give a container, of its own choice."""
        self.reclaim += 1
        self._changed.append(self._address)

    def withdraw(self) -> None:
        """It must give one less than it was asked for, or would be."""
        if self.reclaim:
            self.reclaim -= 1
            return
        self._withdrawn += 1
        self._changed.append(self._address)

    def change_keeps(self) -> None:
        """What it may keep of a node has changed."""
        self._keeps_changed = True
        self._changed.append(self._address)

    def ask_by_name(self, container: str, queue_ns: int | None = None) -> None:
        """It must give this container; ``queue_ns``: what an image of it waits for the device, if that is counted."""
        self._named.append(container)
        if queue_ns is not None:
            self._device_queues.append((container, queue_ns))
        self._changed.append(self._address)

    def node_lost(self, node: str) -> None:
        """A node is gone with all that was there."""
        self._lost_nodes.append(node)
        self._changed.append(self._address)

    def order(self, order: TaskOrder) -> None:
        """It must do something with a single task."""
        self._orders.append(order)
        self._changed.append(self._address)

    # ---- telling it ----

    def is_awaited(self, heard_id: int) -> bool:
        """Whether the next heartbeat gets an answer, if the last answer heard is ``heard_id``."""
        return self._waits or self._answers.unheard(heard_id) is not None

    @property
    def _waits(self) -> bool:
        counts = self.reclaim or self._withdrawn or self._keeps_changed
        return bool(self._allocated or self._finished or counts or self._named or self._lost_nodes or self._orders)

    @property
    def are_unheard(self) -> bool:
        """Whether it is not known to have the last answer."""
        return self.heard_id < self._answers.number

    @property
    def can_be_sent(self) -> bool:
        """Whether there is something to tell that can be told at once."""
        return self._waits and not self.are_unheard

    def heard(self, answer_id: int) -> bool:
        """It has this answer; returns whether that is new."""
        is_new = answer_id > self.heard_id
        self.heard_id = max(self.heard_id, answer_id)
        if is_new and self._waits:
            self._changed.append(self._address)
        return is_new

    def undelivered(self, heard_id: int) -> list[AllocatedContainer]:
        """Allocations that are not known to an ApplicationMaster whose last answer is ``heard_id``."""
        again = self._answers.unheard(heard_id)
        return [*(again.allocated if again else ()), *self._allocated]

    def answer(self, heard_id: int, costs: CostLedger, keeps: tuple[tuple[str, Resources], ...] = ()) -> Answer | None:
        """The answer to a heartbeat: the last one again if it was not heard, else a new one, else None; ``keeps``: see
        ``Answer``."""
        again = self._answers.unheard(heard_id)
        if again is not None or not self._waits:
            return again
        number = self._answers.number + 1
        answer = Answer(
            id=number,
            allocated=tuple(self._allocated),
            finished=tuple(self._finished),
            reclaim=self.reclaim,
            named=tuple(self._named),
            device_queues=tuple(self._device_queues),
            withdrawn=self._withdrawn,
            lost_nodes=tuple(self._lost_nodes),
            keeps=keeps,
            costs=costs.measured() if self.reclaim or self._named or keeps else None,
            orders=tuple(self._orders),
        )
        self._allocated, self._finished, self._lost_nodes, self._orders = [], [], [], []
        self._named, self._device_queues = [], []
        self.reclaim = self._withdrawn = 0
        self._keeps_changed = False
        self._changed.append(self._address)
        return self._answers.send(number, answer)
