"""What is lost of YARN's files: the rows of ``settings.csv``, and where they hold.

Some hold only under one scheduler, or where preemption is on.  Some settings decide by their default where they are not
set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec.structs import replace

from emulator.errors import printable
from emulator.vocabulary import Frozen
from workloads.setting_effects import Effect, Loss, settings_of
from workloads.yarn.queue_settings import user_factor
from workloads.yarn.queues import PREFIX, Leaf
from workloads.yarn.settings import Property, Settings, flag

SITE, CAPACITY = "yarn-site.xml", "capacity-scheduler.xml"
SCHEDULER = "yarn.resourcemanager.scheduler.class"
"""Which scheduler it is; what is lost by it is known when the queues are read."""
_OF_PREEMPTION = re.compile(
    r".*(monitor\.capacity\.preemption\.|disable_preemption$|underutilized-preemption|lazy-preemption"
    r"|fair\.(am\.)?preemption|waitTime|PreemptionTimeout|PreemptionThreshold|allowPreemptionFrom)"
)
_OF_LABELS = re.compile(r".*(accessible-node-labels|node-label-expression)")
_ORDER_POLICY = "yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.preemption-order-policy"
_DETECTS = "yarn.nodemanager.resource.detect-hardware-capabilities"


class Scheduler(Frozen):
    """What of a site says which of its settings decide."""

    is_fair: bool
    preempts: bool
    within_queues: bool
    """Whether jobs of a queue are preempted for others of it."""
    detects: bool
    """Whether nodes may detect their own memory and cores."""
    has_users: bool = False
    """Whether it is known whose each application is."""


def losses_of(settings: Settings, leaves: Sequence[Leaf], scheduler: Scheduler) -> Iterator[Loss]:
    """What is lost of the properties of all files, and of those that are not set and decide by their default."""
    variables = settings.variables()
    for found in settings.properties():
        loss = _loss(settings, found, scheduler)
        if loss is not None and found.name in variables:
            loss = _nothing(found, "a variable of other values")
        if loss is not None:
            yield loss
    if not scheduler.is_fair:
        if not scheduler.has_users:
            yield from _of_users(settings, leaves)
        yield from _by_default(settings, scheduler)


def in_scheduler(losses: Iterable[Loss], scheduler: Scheduler) -> Iterator[Loss]:
    """The same losses; what is about preemption decides nothing where there is none."""
    for each in losses:
        key = each.what.partition("=")[0]
        is_off = not scheduler.preempts and _OF_PREEMPTION.match(key)
        yield replace(each, why="preemption is off", effect=Effect.NOTHING) if is_off else each


def _loss(settings: Settings, found: Property, scheduler: Scheduler) -> Loss | None:
    """What is lost of one property."""
    name = found.name
    if name.startswith(PREFIX) and scheduler.is_fair:
        return _nothing(found, "the FairScheduler's queues are imported")
    if name.startswith("yarn.scheduler.fair.") and not scheduler.is_fair:
        return _nothing(found, "the scheduler is not the FairScheduler")
    if _OF_LABELS.match(name) and not settings.take("yarn.node-labels.enabled", True, flag):
        return _nothing(found, "node labels are off")
    if name == SCHEDULER or (name == _DETECTS and not scheduler.detects):
        return None  # said elsewhere, or of no effect
    of = CAPACITY if name.startswith(PREFIX) else SITE
    what = printable(f"{name}={found.value[:60]}")
    loss = settings_of("yarn").loss(of, name, settings.text(name), found.where, what=what)
    return None if loss is None else next(in_scheduler([loss], scheduler))


def _nothing(found: Property, why: str) -> Loss:
    return Loss(printable(f"{found.name}={found.value[:60]}"), found.where, why, Effect.NOTHING)


def _of_users(settings: Settings, leaves: Sequence[Leaf]) -> Iterator[Loss]:
    """The queues in which a user may hold less than the queue may, where nobody's user is known."""
    for leaf in leaves:
        key, factor = user_factor(settings, leaf.path)
        if 0 <= factor * Fraction(str(leaf.capacity)) < Fraction(str(leaf.maximum)):
            given = "" if key in settings else ", which is not set"
            what = f"user-limit-factor={float(factor):g} of queue {leaf.path}{given}"
            yield Loss(printable(what), settings.where(key), _WHY_NO_USERS, Effect.DECIDES, "queues", leaf.path)


_WHY_NO_USERS = (
    "the users of the jobs are not known, so nobody's limit holds; give applications with their users (--apps)"
)


def _by_default(settings: Settings, scheduler: Scheduler) -> Iterator[Loss]:
    """What is not set, and decides by its default, which is not modelled."""
    defaults: Mapping[str, tuple[str, str]] = {}
    if scheduler.preempts and scheduler.within_queues:
        defaults = {_ORDER_POLICY: (SITE, "userlimit_first")}
    for key, (of, value) in defaults.items():
        if key not in settings:
            what = f"{key} is not set: {value}"
            loss = settings_of("yarn").loss(of, key, value, of, what=what)
            if loss is not None:
                yield loss
