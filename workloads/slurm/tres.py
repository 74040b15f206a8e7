"""Amounts of resources in a site's files: memory with its unit, TRES, GRES, and limits of these."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from emulator.errors import printable
from emulator.sites.slurm import Association, Limits
from workloads.slurm.lines import Where, read_table, time_ns, whole

_UNITS = "KMGTP"
"""Powers of 1024."""
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([KMGTP]?)B?", re.IGNORECASE)
_GRES, _NOT_CONSUMED = "gres/", "no_consume"
_NONE = ("", "n/a", "-1", "none", "(null)")


def memory_mb(where: Where, key: str, text: str) -> int:
    """Megabytes, rounded up, of such as ``4000``, ``4G`` or ``65536K``."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise where.error(key, f"'{printable(text[:40])}' is not an amount such as 4000M or 4G")
    return -int(-float(found[1]) * 1024.0 ** (_power(found[2] or "M") - 2) // 1)


def _power(unit: str) -> int:
    return _UNITS.index(unit.upper()) + 1 if unit else 0


def tres(where: Where, key: str, text: str) -> dict[str, int]:
    """Amounts by TRES of such as ``cpu=8,mem=4G,node=2,gres/gpu=4,gres/gpu:a100=4``; GRES without ``gres/``."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, is_given, value = part.partition("=")
        name = _named(name)
        if not is_given or value.lower() in _NONE:
            continue
        if name == "mem":
            found[name] = memory_mb(where, key, value)
        elif re.fullmatch(r"\d{1,15}", value):
            found[name] = int(value)
    return found


def _named(text: str) -> str:
    """A TRES as it is called here: in small letters, without ``gres/``, and with what no resource may have as ``_``."""
    return re.sub(r"[^a-z0-9_.:-]", "_", text.lower().removeprefix(_GRES))


def gres(where: Where, key: str, text: str) -> dict[str, int]:
    """Amounts by name, and by name and type, of such as ``gpu:a100:4(S:0-1),gpu:2``; of those that are consumed."""
    found: Counter[str] = Counter()
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = _named(part.strip().replace("=", ":")).split(":")
        if name in _NONE or _NOT_CONSUMED in rest:
            continue
        count = rest.pop() if rest and rest[-1][:1].isdigit() else "1"
        amount = _AMOUNT.fullmatch(count)
        if amount is None:
            raise where.error(key, f"'{printable(part[:40])}' is not such as gpu:2 or gpu:a100:2")
        many = int(float(amount[1]) * 1024 ** _power(amount[2]))
        found.update({name: many, **({f"{name}:{rest[0]}": many} if rest else {})})
    return dict(found)


def weights_of_tres(where: Where, key: str, text: str) -> dict[str, float]:
    """Weights by TRES of such as ``CPU=1.0,Mem=0.25G,GRES/gpu=2.0``; of memory for each megabyte."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.lower().partition("=")
        amount = _AMOUNT.fullmatch(value)
        if amount is None:
            raise where.error(key, f"'{printable(part[:40])}' is not such as CPU=1.0 or Mem=0.25G")
        power = _power(amount[2] or "M") - 2 if name == "mem" else 0
        found[name.removeprefix(_GRES)] = float(amount[1]) / 1024.0**power
    return found


# ---- limits ----

_LIMITS = {
    "grptres": "group_tres",
    "grpjobs": "group_jobs",
    "grptresrunmins": "group_run_minutes",
    "maxtresperuser": "user_tres",
    "maxtrespu": "user_tres",
    "maxjobsperuser": "user_jobs",
    "maxjobspu": "user_jobs",
    "maxjobs": "user_jobs",
    "maxtresperaccount": "account_tres",
    "maxtrespa": "account_tres",
    "maxjobsperaccount": "account_jobs",
    "maxjobspa": "account_jobs",
    "maxtres": "job_tres",
    "maxtresperjob": "job_tres",
    "maxtrespj": "job_tres",
    "maxwall": "wall_ns",
    "maxwalldurationperjob": "wall_ns",
}
"""The field of each column, by its name and its short name."""
_OLD = {"grpcpurunmins": ("group_run_minutes", "cpu")}
_OLD |= {"grpcpus": ("group_tres", "cpu"), "grpnodes": ("group_tres", "node"), "maxcpusperuser": ("user_tres", "cpu")}
_OLD |= {"maxnodesperuser": ("user_tres", "node"), "maxcpus": ("job_tres", "cpu"), "maxnodes": ("job_tres", "node")}
"""Columns of one TRES, as before Slurm 15.08."""


def limits_of_row(where: Where, row: Mapping[str, str]) -> Limits:
    """The limits in a row of ``sacctmgr show qos`` or ``show assoc``."""
    found: dict[str, object] = {}
    of_tres: dict[str, dict[str, int]] = {}
    for column, value in row.items():
        field = _LIMITS.get(column.lower())
        if value.lower() in _NONE:
            continue
        if (old := _OLD.get(column.lower())) is not None:
            of_tres.setdefault(old[0], {})[old[1]] = whole(where, column, value)
        elif field is None:
            continue
        elif field.endswith(("_tres", "_minutes")):
            of_tres.setdefault(field, {}).update(tres(where, column, value))
        elif field == "wall_ns":
            found[field] = time_ns(where, column, value, 60 * 10**9)
        else:
            found[field] = whole(where, column, value)
    return Limits(**of_tres, **found)  # type: ignore[arg-type]


COMMAND_OF_ASSOCIATIONS = (
    "sacctmgr --parsable2 show assoc format=Account,User,ParentName,Share,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpWall,"
    "GrpJobs,MaxTRES,MaxJobs,MaxWall,Priority"
)
"""Prints what ``read_associations`` reads."""
_PRINTED = {"Par Name": "ParentName", "Def QOS": "DefaultQOS", "Fairshare": "Share"}
"""Heads of columns that sacctmgr prints in other words than its page has."""


def read_associations(path: Path, cluster: str) -> Iterator[tuple[Where, Mapping[str, str], Association | None]]:
    """The associations of a table, each with its row; those of other clusters are left out, and None stands for one
    of a user in one partition only.

    Raises:
        ConfigError: it cannot be read, a column is missing, or a value is none.
    """
    seen: set[tuple[str, str]] = set()
    for where, as_printed in read_table(path, ("Account", "User"), COMMAND_OF_ASSOCIATIONS):
        row = {_PRINTED.get(column, column): value for column, value in as_printed.items()}
        named = row["Account"], row["User"]
        if row.get("Cluster", cluster).lower() != cluster.lower():
            continue
        if row.get("Partition"):
            yield where, row, None
            continue
        if named in seen:
            continue
        seen.add(named)
        share = row.get("Share", "1") or "1"
        shares = None if share.lower() == "parent" else whole(where, "Share", share)
        priority = row.get("Priority", "").lower()
        priority = 0 if priority in _NONE else whole(where, "Priority", priority)
        yield where, row, Association(*named, row.get("ParentName", ""), shares, limits_of_row(where, row), priority)
