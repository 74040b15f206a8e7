"""Which strategy an allocation has, by the form of its record: chosen when the ResourceManager is assembled."""

from __future__ import annotations

from emulator.core.resource_manager.allocation import Allocation
from emulator.core.resource_manager.by_queues import ByQueues
from emulator.core.resource_manager.by_scheduler import ByScheduler
from emulator.core.resource_manager.by_shares import ByShares
from emulator.core.resource_manager.by_sized_queues import BySizedQueues
from emulator.core.resource_manager.offers import Parts
from emulator.core.resource_manager.paced import Paced
from emulator.core.resource_manager.reserving_queues import ReservingQueues
from emulator.policies.allocation_forms import (
    PacedAllocation,
    SchedulerAllocation,
    ShareAllocation,
)


def strategy(parts: Parts) -> Allocation:
    """The strategy for the allocation of the settings."""
    match parts.settings.scheduler.allocation:
        case ShareAllocation():
            return ByShares(parts)
        case PacedAllocation(pace=pace):
            offers = ReservingQueues(parts) if parts.settings.has_sizes else ByQueues(parts)
            return offers if pace is None else Paced(parts, pace, offers)
        case SchedulerAllocation():
            return ByScheduler(parts)
        case _:
            return BySizedQueues(parts) if parts.settings.has_sizes else ByQueues(parts)
