"""The base of messages, effects, views and other values: quick to make, and written as they are declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        return lambda cls: cls


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A value: it cannot be changed, equals what has equal fields, and can be a key.

    A simulation makes tens of millions of them, each several times as fast as a dataclass, and writes most of them in
    its journal, where fields that have their default are left out.  They refer to no cycles, so the garbage collector
    need not look at them.
    """
