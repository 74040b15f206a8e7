"""What an answer about a site rests on: what decides there and is not modelled, and what was left out.

An import makes it of its losses.  The imported file carries it, and every answer shows it before the answer.
"""

from __future__ import annotations

from emulator.vocabulary import Frozen


class Gap(Frozen):
    """Losses of an import that have one reason."""

    reason: str
    """What is not modelled, or why something was left out."""
    number: int
    """How many of ``kind`` have it."""
    kind: str
    """What is counted, in the plural: settings, pods, jobs, queues, workloads."""
    example: str
    """One of them, with its file and line."""
    total: int = 0
    """All that the files have of that kind; 0: not known."""
    work_share: float | None = None
    """Of what was left out: its share of the work of all; None: its work is not known."""

    def __str__(self) -> str:
        """One line: how many of how many, why, and one of them."""
        many = f"{self.number:,} of {self.total:,}" if self.total else f"{self.number:,}"
        share = "" if self.work_share is None else f" ({self.work_share:.1%} of the work)"
        kind = self.kind.removesuffix("s") if self.number == 1 and not self.total else self.kind
        return f"{many} {kind}{share}: {self.reason}; for example {self.example}"


class Basis(Frozen):
    """What an answer about a site rests on."""

    decides: tuple[Gap, ...] = ()
    """What decides who starts, where, or who is preempted, and is not modelled; what most have first."""
    left_out: tuple[Gap, ...] = ()
    """Jobs, pods and workloads of the files that are not there; what most have first."""
    rest: int = 0
    """Settings that decide nothing and are not carried over."""

    def __bool__(self) -> bool:
        """Whether something that decides is not modelled, or something was left out."""
        return bool(self.decides or self.left_out)
