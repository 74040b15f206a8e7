"""The QOS of a site as ``sacctmgr`` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from emulator.errors import ConfigError, printable
from emulator.sites.slurm import MINUTE_NS, SECOND_NS, Mode, Qos
from workloads.saved import NotTaken
from workloads.slurm.lines import Where, read_table, time_ns, whole

COMMAND = "sacctmgr --parsable2 show qos format=Name,Priority,GraceTime,Preempt,PreemptMode,PreemptExemptTime"
"""Prints what is read here."""
_NEEDED = ("Name", "Preempt")
_CLUSTER = "cluster"
"""A QOS without a PreemptMode of its own."""
_OPTIONS = {
    "GANG": "",
    "WITHIN": "jobs of one QOS do not preempt each other here",
    "PRIORITY": "jobs have no priorities here, so those of a higher one are preempted, too",
}
"""What may stand beside a mode, and why it is not looked at here."""


def read_qos(path: Path, mode: Mode, exempt_ns: int) -> tuple[tuple[Qos, ...], list[NotTaken]]:
    """The QOS of a table, and what was not taken from it; ``mode`` and ``exempt_ns`` are the cluster's, for those that
    have none.

    Raises:
        ConfigError: it cannot be read, a column is missing, or a value is none.
    """
    found: dict[str, tuple[Where, Qos]] = {}
    left_out: list[NotTaken] = []
    for where, row in read_table(path, _NEEDED, COMMAND):
        if row["Name"] in found:
            raise where.error("Name", f"'{printable(row['Name'][:40])}' is there twice")
        found[row["Name"]] = where, _qos(where, row, mode, exempt_ns)
        text = row.get("PreemptMode", "")
        what = printable(f"PreemptMode={text} of QOS {row['Name']}")
        left_out += [NotTaken(what, str(where), why) for why in not_looked_at(text)]
    for where, qos in found.values():
        if unknown := [name for name in qos.preempts if name not in found]:
            raise where.error("Preempt", f"there is no QOS '{printable(unknown[0][:40])}'")
    try:
        TopologicalSorter({name: qos.preempts for name, (_, qos) in found.items()}).prepare()
    except CycleError as error:
        raise ConfigError(f"{path}: Preempt: QOS preempt each other: {printable(', '.join(error.args[1]))}") from None
    return tuple(qos for _, qos in found.values()), left_out


def _qos(where: Where, row: Mapping[str, str], mode: Mode, exempt_ns: int) -> Qos:
    own_mode, own_exempt = row.get("PreemptMode", ""), row.get("PreemptExemptTime", "")
    return Qos(
        row["Name"],
        tuple(filter(None, row["Preempt"].split(","))),
        mode if own_mode.lower() in ("", _CLUSTER) else read_mode(where, own_mode),
        time_ns(where, "GraceTime", row.get("GraceTime") or "0", SECOND_NS) or 0,
        (time_ns(where, "PreemptExemptTime", own_exempt, MINUTE_NS) or 0) if own_exempt else exempt_ns,
        whole(where, "Priority", row.get("Priority") or "0"),
    )


def read_mode(where: Where, text: str) -> Mode:
    """What ``PreemptMode`` says of victims."""
    names = ",".join(name for name in text.upper().split(",") if name not in _OPTIONS)
    try:
        return Mode(names) if names else Mode.OFF
    except ValueError:
        raise where.error("PreemptMode", f"'{printable(text[:40])}' is none of {', '.join(Mode)}") from None


def not_looked_at(text: str) -> list[str]:
    """Why something in a ``PreemptMode`` makes no difference here, for each that should."""
    return [why for name in text.upper().split(",") if (why := _OPTIONS.get(name))]
