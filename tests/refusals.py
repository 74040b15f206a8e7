"""What is said of an input that cannot be, and an input that is wrong in one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.errors import ConfigError


def refused(read: Callable[..., object], *arguments: object, **keywords: object) -> str:
    """The message of the ConfigError of this call, which must be the only exception."""
    with pytest.raises(ConfigError) as caught:
        read(*arguments, **keywords)
    assert caught.value.exit_code == 2
    return caught.value.message


def changed(text: str, old: str, new: str) -> str:
    """With the first ``old`` replaced: it must be there, or a test of what is wrong would try a right text."""
    assert old in text
    return text.replace(old, new, 1)
