"""The queues of Hadoop's CapacityScheduler and FairScheduler as leaves with absolute capacities.

A queue's capacity is a percentage of its parent's, a weight among its siblings (``3w``), or an amount of resources
(``[memory=10240,vcores=12]``), of which only memory counts, as under Hadoop's default calculator.  ``capacity`` of a
leaf is a share of the whole cluster, the product down the tree; ``maximum`` likewise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError, printable
from emulator.files.strict import NAME_RULE, is_name
from emulator.sites.yarn import fair_shares
from emulator.vocabulary import Frozen
from workloads.setting_effects import Loss, settings_of
from workloads.yarn.settings import Element, Settings, flag, number, read_xml

PREFIX = "yarn.scheduler.capacity."
DEEPEST_QUEUE = 32
MAX_QUEUES = 10_000
_VECTOR = re.compile(r"\[(.*)\]", re.DOTALL)
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-zA-Z%]*)")
_UNITS_MB = {"": 1.0, "m": 1.0, "mb": 1.0, "mi": 1.0, "k": 2.0**-10, "ki": 2.0**-10, "g": 2.0**10, "gi": 2.0**10}
_UNITS_MB |= {"gb": 2.0**10, "t": 2.0**20, "ti": 2.0**20, "tb": 2.0**20}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A queue that takes applications."""

    path: str
    """Without ``root.``."""
    capacity: float
    maximum: float
    is_disabled: bool = False
    """Whether nothing is taken from it for other queues (``disable_preemption``, its own or that of a queue above)."""


@dataclass(frozen=True, slots=True)
class Parent:
    """A queue of queues."""

    path: str
    """Without ``root.``."""
    maximum: float


@dataclass(frozen=True, slots=True)
class _Amount:
    """The capacity of a queue as given: a share of its parent's, a weight among its siblings, or MiB."""

    value: float
    unit: str
    """``%``, ``w`` or ``mb``."""


def capacity_queues(settings: Settings, cluster_mb: float) -> tuple[list[Leaf], list[Parent]]:
    """The queues below ``yarn.scheduler.capacity.root``.  Raises ConfigError, which names the file and line."""
    leaves: list[Leaf] = []
    parents: list[Parent] = []
    _capacity_children(settings, "root", Fraction(1), Fraction(1), False, cluster_mb, leaves, parents)
    return leaves, parents


def _capacity_children(
    settings: Settings,
    path: str,
    capacity: Fraction,
    maximum: Fraction,
    is_disabled: bool,
    cluster_mb: float,
    leaves: list[Leaf],
    parents: list[Parent],
) -> None:
    names = settings.take(f"{PREFIX}{path}.queues", [], _names)
    is_disabled = settings.take(f"{PREFIX}{path}.disable_preemption", is_disabled, flag)
    if not names:
        leaves.append(Leaf(path.removeprefix("root."), float(capacity), float(maximum), is_disabled))
        return
    if path != "root":
        parents.append(Parent(path.removeprefix("root."), float(maximum)))
    if path.count(".") == DEEPEST_QUEUE or len(leaves) + len(names) > MAX_QUEUES:
        raise ConfigError(f"{settings.where(f'{PREFIX}{path}.queues')}: too many queues, or nested too deeply")
    keys = {name: f"{PREFIX}{path}.{name}" for name in names}
    amounts = {name: settings.take(f"{key}.capacity", _Amount(0, "%"), _amount) for name, key in keys.items()}
    shares = _shares(amounts, capacity, cluster_mb)
    if sum(shares.values()) > capacity * Fraction(1_000_001, 1_000_000):
        where = settings.where(f"{keys[names[-1]]}.capacity")
        given = ", ".join(f"{name} {float(share):.4g}" for name, share in shares.items())
        in_mb = f"'s {cluster_mb:,.0f} MiB" if any(amount.unit == "mb" for amount in amounts.values()) else ""
        of_cluster = f"of the cluster{in_mb}: {given}"
        raise ConfigError(f"{where}: the queues of {path} exceed its share ({of_cluster}); lower them")
    for name, key in keys.items():
        limit = settings.take(f"{key}.maximum-capacity", _Amount(100, "%"), _maximum)
        most = min(maximum, _shares({name: limit}, maximum, cluster_mb)[name])
        if most < shares[name] or not most:
            where = settings.where(f"{key}.maximum-capacity")
            raise ConfigError(f"{where}: must be above 0 and no less than the queue's capacity; raise it")
        _capacity_children(settings, f"{path}.{name}", shares[name], most, is_disabled, cluster_mb, leaves, parents)


def _shares(amounts: Mapping[str, _Amount], of: Fraction, cluster_mb: float) -> dict[str, Fraction]:
    """The share of the cluster of each queue, if their parent has ``of``."""
    values = {name: Fraction(str(amount.value)) for name, amount in amounts.items()}
    weights = sum(values[name] for name, amount in amounts.items() if amount.unit == "w")
    found = {}
    for name, amount in amounts.items():
        value = values[name]
        if amount.unit == "mb":
            found[name] = value / Fraction(str(cluster_mb))
        elif amount.unit == "w":
            found[name] = of * value / weights if weights else Fraction(0)
        else:
            found[name] = of * value / 100
    return found


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    twice = next((name for name in names if names.count(name) > 1), None) if len(names) <= MAX_QUEUES else None
    if twice is not None:
        raise ValueError(f"has the queue {twice[:80]!r} twice")
    if not all(map(is_name, names)):
        raise ValueError(f"the name of a queue must be {NAME_RULE}")
    return names


def _amount(text: str) -> _Amount:
    vector = _VECTOR.fullmatch(text)
    if vector is None:
        return _Amount(number(text[:-1]), "w") if text.endswith("w") else _Amount(_percent(text.rstrip("%")), "%")
    for part in vector[1].split(","):
        kind, _, told = part.partition("=")
        if kind.strip() in ("memory", "memory-mb"):
            return _memory(told.strip())
    raise ValueError(f"{text[:80]!r} has no memory; write [memory=MB,vcores=N]")


def _maximum(text: str) -> _Amount:
    return _Amount(100, "%") if text in ("-1", "-1.0") else _amount(text)


def _percent(text: str) -> float:
    if (value := number(text)) > 100:
        raise ValueError(f"{text[:40]!r} is above 100 percent")
    return value


def _memory(text: str) -> _Amount:
    found = _AMOUNT.fullmatch(text)
    unit = found[2].lower() if found else None
    if found is None or (unit not in _UNITS_MB and unit not in ("%", "w")):
        raise ValueError(f"{text[:40]!r} is not an amount of memory; write it in MB, as 10240")
    if unit in ("%", "w"):
        return _Amount(_percent(found[1]) if unit == "%" else float(found[1]), unit)
    assert unit is not None
    return _Amount(float(found[1]) * _UNITS_MB[unit], "mb")


# ---- the FairScheduler ----

_FAIR_QUEUE_TAGS = ("queue", "pool")
_FAIR = "fair-scheduler.xml"
_FAIR_POLICIES = ("fifo", "fair", "drf")
_NEVER_S = 1e8
"""So long, or longer, is never: an experiment is shorter.  Hadoop's default has 19 digits."""


class FairQueues(Frozen):
    """What the FairScheduler's allocation file says."""

    leaves: tuple[Leaf, ...]
    parents: tuple[Parent, ...]
    losses: tuple[Loss, ...]
    settings: dict[str, dict[str, Any]]
    """What else is set of leaves and parents, by path; the root is the blank path."""

    @property
    def preempts(self) -> bool:
        """Whether a queue has a time after which it preempts; without one it never does."""
        fair = (item for each in self.settings.values() for item in each["fair"].items())
        return any(key.endswith("timeout_s") and value < _NEVER_S for key, value in fair)

    @property
    def is_dominant(self) -> bool:
        """Whether cores count as well (``drf``)."""
        return any(each.get("ordering_policy") == "drf" for each in self.settings.values())


def fair_queues(path: Path, cluster_mb: float) -> FairQueues:
    """The leaves of the FairScheduler's allocation file, with weights as capacities, and what is lost of it.

    The file may also be one of settings (``<configuration>``) that names an allocation file in the same directory.
    Raises ConfigError.
    """
    root = read_xml(path)
    if root.tag == "configuration":
        path = _allocation_file(path, root)
        root = read_xml(path)
    if root.tag != "allocations":
        raise ConfigError(f"{path}:{root.line}: begins with <{root.tag}>; an allocation file begins with <allocations>")
    reader = _FairReader(path, cluster_mb, root)
    tops = [child for child in root.children if child.tag in _FAIR_QUEUE_TAGS]
    if len(tops) == 1 and tops[0].attributes.get("name") == "root":
        reader.note_losses(root, "")
        root = tops[0]
    reader.settings[""] = reader.settings_of(root)
    reader.children(root, "", Fraction(1), Fraction(1))
    if not reader.leaves:
        reader.leaves.append(Leaf("default", 1.0, 1.0))
    return FairQueues(tuple(reader.leaves), tuple(reader.parents), tuple(reader.losses), reader.settings)


def _allocation_file(path: Path, root: Element) -> Path:
    settings = Settings()
    settings.read(path)
    named = settings.take("yarn.scheduler.fair.allocation.file", "", str)
    beside = path.parent / Path(named).name
    if not named or not beside.is_file():
        where = f"{path}:{root.line}"
        raise ConfigError(
            f"{where}: has settings; its allocation file {named[:80]!r} is not in the same directory: name that one"
        )
    return beside


_INHERITED = {
    "min_share_preemption_timeout_s": ("minSharePreemptionTimeout", "defaultMinSharePreemptionTimeout"),
    "fair_share_preemption_timeout_s": ("fairSharePreemptionTimeout", "defaultFairSharePreemptionTimeout"),
    "fair_share_preemption_threshold": ("fairSharePreemptionThreshold", "defaultFairSharePreemptionThreshold"),
}
"""By our key: what a queue has, and what is set for the root."""
_POLICIES = ("schedulingPolicy", "schedulingMode")
_DEFAULT_POLICIES = ("defaultQueueSchedulingPolicy", "defaultQueueSchedulingMode")


class _FairReader:
    def __init__(self, path: Path, cluster_mb: float, top: Element) -> None:
        """``top``: the element of the file, with what is set for all queues."""
        self._path, self._cluster_mb, self._top = path, cluster_mb, top
        self.leaves: list[Leaf] = []
        self.parents: list[Parent] = []
        self.losses: list[Loss] = []
        self.settings: dict[str, dict[str, Any]] = {}

    def children(self, parent: Element, prefix: str, capacity: Fraction, maximum: Fraction) -> None:
        """Add the queues under ``parent``, which has these shares of the cluster."""
        self.note_losses(parent, prefix.rstrip("."))
        queues = [child for child in parent.children if child.tag in _FAIR_QUEUE_TAGS]
        weights = [self._number(queue, "weight", 1.0) for queue in queues]
        maxima = [min(maximum, self._maximum(queue, maximum)) for queue in queues]
        limits = [(weight, Fraction(0), most) for weight, most in zip(weights, maxima, strict=True)]
        for queue, share, most in zip(queues, fair_shares(capacity, limits), maxima, strict=True):
            name = queue.attributes.get("name", "").strip()
            if not is_name(name):
                raise ConfigError(f"{self._path}:{queue.line}: a queue needs a name of {NAME_RULE}")
            path = f"{prefix}{name}"
            self.settings[path] = self.settings_of(queue)
            if any(child.tag in _FAIR_QUEUE_TAGS for child in queue.children):
                self.parents.append(Parent(path, float(most)))
                self.children(queue, f"{path}.", share, most)
            else:
                self.note_losses(queue, path)
                self.leaves.append(Leaf(path, float(share), float(most)))

    def settings_of(self, queue: Element) -> dict[str, Any]:
        """What else is set of a queue, or of the root."""
        is_root = queue.tag not in _FAIR_QUEUE_TAGS or queue.attributes.get("name") == "root"
        fair = dict[str, Any]()
        if not is_root:
            fair |= {"weight": float(self._number(queue, "weight", 1.0))}
            fair |= {"min_share": float(least)} if (least := self._part(queue, "minResources")) else {}
        for key, (own, default) in _INHERITED.items():
            of_root = self._top if is_root and queue.child(own) is None else queue
            tag = default if of_root is self._top and of_root.child(own) is None else own
            found = of_root.child(tag)
            if found is not None:
                is_never = len(found.text) > len(f"{_NEVER_S:.0f}")
                fair[key] = _NEVER_S if is_never else min(_NEVER_S, float(self._number(of_root, tag, 0)))
        policies = [*map(queue.child, _POLICIES), *map(self._top.child, _DEFAULT_POLICIES)]
        order = next((each.text.strip().lower() for each in policies if each is not None), "")
        allows = queue.child("allowPreemptionFrom")
        of_queue = queue if is_root or queue.child("maxRunningApps") is not None else self._top
        tag = "maxRunningApps" if of_queue is queue else "queueMaxAppsDefault"
        most = None if of_queue.child(tag) is None else self._number(of_queue, tag, 0)
        return {
            **({} if most is None else {"max_parallel_apps": int(most)}),
            "fair": fair,
            **({"ordering_policy": order} if order in _FAIR_POLICIES else {}),
            **({"disable_preemption": True} if allows is not None and allows.text.strip().lower() == "false" else {}),
        }

    def note_losses(self, element: Element, queue: str) -> None:
        """Record what is lost of the parts of an element."""
        for child in element.children:
            told = child.text or " ".join(f"{tag.tag}={tag.text}" for tag in child.children)
            what = printable(f"{queue or 'allocations'}: {child.tag}={told[:60]}")
            loss = settings_of("yarn").loss(_FAIR, child.tag, told, f"{self._path}:{child.line}", what=what)
            if loss is not None:
                self.losses.append(loss)

    def _number(self, queue: Element, tag: str, default: float) -> Fraction:
        child = queue.child(tag)
        if child is None:
            return Fraction(default)
        try:
            return Fraction(str(number(child.text)))
        except ValueError as error:
            raise ConfigError(printable(f"{self._path}:{child.line}: {tag}: {error}")) from None

    def _maximum(self, queue: Element, parent: Fraction) -> Fraction:
        found = self._part(queue, "maxResources")
        if found is None:
            found = self._part(self._top, "queueMaxResourcesDefault")
        if found == 0:
            raise ConfigError(f"{self._path}:{queue.line}: maxResources: must have memory above 0; raise it")
        return parent if found is None else min(Fraction(1), found)

    def _part(self, element: Element, tag: str) -> Fraction | None:
        """The share of the cluster's memory that it names; None: it does not name any."""
        child = element.child(tag)
        if child is None:
            return None
        found = next(filter(None, (form.search(child.text) for form in _MEMORY_OF_MAXIMUM)), None)
        if found is None:
            raise ConfigError(
                printable(f"{self._path}:{child.line}: {tag}: {child.text[:80]!r} has no amount of memory")
            )
        amount, is_share = Fraction(found[1]), found[2] == "%"
        return amount / 100 if is_share else amount / Fraction(str(self._cluster_mb))


_NUMBER_AND_UNIT = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*"
_MEMORY_OF_MAXIMUM = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"memory(?:-mb)?\s*=\s*{_NUMBER_AND_UNIT}(%?)",
        rf"{_NUMBER_AND_UNIT}(%)\s*memory",
        rf"{_NUMBER_AND_UNIT}(mb)\b",
        rf"^\s*{_NUMBER_AND_UNIT}(%?)\s*$",
    )
)
"""The forms in which an amount of resources has memory: ``memory-mb=Y``, ``Y% memory``, ``Y mb``, ``Y%``."""
