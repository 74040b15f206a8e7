"""What a job is to YARN."""

from __future__ import annotations

from msgspec import field

from emulator.vocabulary import Details, Frozen


class YarnDetails(Details, Frozen, tag_field="kind", tag="yarn"):
    """What a job is to YARN, beside its queue, its priority and its groups of tasks."""

    user: str = ""
    priorities: dict[str, int] = field(default_factory=dict)
    """The priorities of the requests of its groups; the smallest number is the most urgent.  Groups that are not named
    come in their order."""
