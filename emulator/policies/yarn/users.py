"""What one user of a queue may hold, and how much of it ApplicationMasters may.

The *active* users of a queue are those with a running application that still asks for something.  Each may hold an
equal part of what they hold together, or ``minimum-user-limit-percent`` of the queue if that is more.  The queue counts
as what it is guaranteed, or what it holds if that is more.  No user may hold more than ``user-limit-factor`` times the
guarantee, however idle the cluster is.  One who holds more than his limit gets nothing; so he may exceed it by one
container.

The ApplicationMasters of a queue hold together at most ``maximum-am-resource-percent`` of what it may use, and those of
a user his part of that.  While none runs, one may start whatever its size.

(Hadoop 3.4: ``UsersManager``, ``AbstractLeafQueue``.  Held against the examples of its documentation, and against runs
of its ResourceManager with several users: docs/yarn.md.)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, NamedTuple

import msgspec

from emulator.policies.resources import fits, minus, plus
from emulator.policies.yarn.amounts import Amounts, exact
from emulator.vocabulary import Frozen, Resources


class QueueLimits(Frozen):
    """What is set of the users and the ApplicationMasters of a queue."""

    user_limit_factor: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """``user-limit-factor``: what one user may hold at most, as a multiple of the queue's guarantee.  None: -1, all
    that the queue may."""
    minimum_user_limit_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 100.0
    """``minimum-user-limit-percent``: the part of the queue that a user may hold, however many are active."""
    user_weights: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = msgspec.field(default_factory=dict)
    """``user-settings.<user>.weight``: how many times the limit of other users each of these has."""
    maximum_am_resource_percent: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """``maximum-am-resource-percent``: the share of the queue that ApplicationMasters may hold.  None: any."""
    max_parallel_apps: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """``max-parallel-apps``, or the FairScheduler's ``maxRunningApps``: how many of its applications run at once; those
    of a parent are those of its queues.  None: any number."""

    @property
    def limits_nobody(self) -> bool:
        """Whether each user may hold what the queue may."""
        return self.user_limit_factor is None and self.minimum_user_limit_percent == 100 and not self.user_weights

    def weight_of(self, user: str) -> Fraction:
        """How many times the limit of other users this one has."""
        return exact(self.user_weights.get(user, 1.0))


class QueueUse(NamedTuple):
    """A queue as its users share it."""

    guaranteed: Resources
    maximum: Resources
    share: Fraction
    """The sum of its users' dominant shares of the cluster."""
    active: Resources
    """What its active users hold together."""
    active_weights: Fraction
    """The sum of the weights of the active users."""


def user_limit(
    limits: QueueLimits, use: QueueUse, weight: Fraction, smallest: Resources, amounts: Amounts
) -> Resources:
    """What an active user of this weight may hold, in multiples of the smallest container."""
    current = guaranteed = amounts.larger(use.guaranteed, smallest)
    consumed = _up(amounts.whole, use.share, smallest)
    if not amounts.more(guaranteed, consumed):
        current = plus(consumed, smallest)
    equal = amounts.none
    if use.active_weights:
        equal = _up(plus(use.active, smallest), 1 / use.active_weights, smallest)
    part = amounts.larger(equal, _up(current, exact(limits.minimum_user_limit_percent) / 100, smallest))
    largest = use.maximum
    if limits.user_limit_factor is not None and any(use.guaranteed):
        largest = amounts.part(guaranteed, exact(limits.user_limit_factor))
    found = _up(amounts.smaller(part, largest), Fraction(1), smallest)
    return found if weight == 1 else Amounts(amounts.whole, _steps(smallest)).part(found, weight)


def masters_limit(share: Fraction, usable: Resources, smallest: Resources) -> Resources:
    """What the ApplicationMasters of a queue that can use so much may hold together; ``share``: that of its
    ``maximum-am-resource-percent``."""
    return _up(usable, share, smallest)


def user_masters_limit(
    limits: QueueLimits,
    share: Fraction,
    guaranteed: Resources,
    active_users: int,
    weight: Fraction,
    smallest: Resources,
) -> Resources:
    """What the ApplicationMasters of one of so many active users may hold together."""
    part = max(exact(limits.minimum_user_limit_percent) / 100, Fraction(1, max(active_users, 1)))
    factor = Fraction(1)
    if limits.user_limit_factor is not None:
        factor = min(part * weight, Fraction(1)) * exact(limits.user_limit_factor)
    return _up(guaranteed, share * factor, smallest)


def may_start(master: Resources, held: Resources, limit: Resources) -> bool:
    """Whether one more ApplicationMaster may start beside those of the queue that hold so much."""
    return not any(held) or fits(plus(held, master), limit)


def to_give_up(limit: Resources, held: Resources, reserved: Resources, amounts: Amounts) -> Resources | None:
    """What of its reservations an application has to give up for its user to hold no more than his limit; None: that
    would not be enough, so it gets nothing."""
    if not amounts.more(held, limit):
        return amounts.none
    if not amounts.some(reserved) or amounts.more(minus(held, reserved), limit):
        return None
    return minus(held, limit)


def _up(amount: Resources, part: Fraction, smallest: Resources) -> Resources:
    """That part of it, up to whole steps."""
    of, divisor = part.as_integer_ratio()
    return tuple(-(-each * of // (divisor * step)) * step for each, step in zip(amount, _steps(smallest), strict=True))


def _steps(smallest: Resources) -> Resources:
    """What limits are multiples of: the smallest container, of 1 where it has none."""
    return tuple(each or 1 for each in smallest)
