"""What decides at a site and is not modelled, and what was left out: the first lines of every answer about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from emulator.display.console import say
from emulator.errors import RunError
from emulator.sites.basis import Basis, Gap

MAX_SHOWN = 10
"""Reasons of each kind, on a terminal."""
DECIDES = "decides at this site and is not modelled, so the site may act otherwise"
LEFT_OUT = "left out"


def basis_of_run(summary: Mapping[str, Any]) -> Basis:
    """What a run's answer rests on, from its ``summary.json``."""
    return msgspec.convert(summary.get("basis", {}), Basis)


def basis_lines(basis: Basis, limit: int | None = MAX_SHOWN) -> Iterator[str]:
    """One line for each reason below its title, at most ``limit`` of each kind; None: all."""
    for title, gaps in ((DECIDES, basis.decides), (LEFT_OUT, basis.left_out)):
        if gaps:
            yield f"{title}:"
            yield from _shown(gaps, limit)


def _shown(gaps: tuple[Gap, ...], limit: int | None) -> Iterator[str]:
    shown = gaps[:limit]
    yield from (f"  {gap}" for gap in shown)
    if more := len(gaps) - len(shown):
        yield f"  and {more:,} reasons more; the imported file has all"


def head_answer(basis: Basis, strict: bool, *, error: bool = False) -> None:
    """Show what an answer rests on, before it; on standard error if the answer is data.

    Raises RunError: something that decides is not modelled, and the answer must be ``strict``.
    """
    for line in basis_lines(basis):
        say(line, error=error)
    if strict and basis.decides:
        raise RunError("--strict: the lines above say what decides at this site and is not modelled")
