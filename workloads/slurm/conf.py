"""``slurm.conf`` as what Slurm's decisions are made from: nodes, partitions, preemption, the schedulers' parameters.

What each setting does to an answer is in ``settings.csv``.  Some of its rows hold only on some sites: where memory is a
resource that jobs consume, where priorities are made of weights, where nodes differ, where limits are enforced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.sites.slurm import (
    ENDED_IN_TURNS,
    MINUTE_NS,
    SECOND_NS,
    Association,
    Cluster,
    Mode,
    Node,
    Partition,
    Qos,
    Settings,
    Weights,
)
from emulator.vocabulary import Frozen
from workloads.setting_effects import Effect, Loss, settings_of
from workloads.slurm.lines import UNLIMITED, Line, Where, node_names, read_lines, read_table, time_ns, whole
from workloads.slurm.tres import (
    COMMAND_OF_ASSOCIATIONS,
    gres,
    limits_of_row,
    memory_mb,
    read_associations,
    weights_of_tres,
)

MICROSECOND_NS = 1000
_DEFAULT = "DEFAULT"
_CONF = "slurm.conf"
_NODE, _PARTITION, _SELECT = f"{_CONF} NodeName", f"{_CONF} PartitionName", f"{_CONF} SelectTypeParameters"
_ASSOCIATION = "association"
_LISTS = {
    "nodename": _NODE,
    "partitionname": _PARTITION,
    "nodeset": f"{_CONF} NodeSet",
    "downnodes": f"{_CONF} DownNodes",
    "frontendname": f"{_CONF} FrontendName",
    "poweraction": f"{_CONF} PowerAction",
}
"""The list of settings of each kind of line, by its first key; of any other it is that of the whole file."""


class Given(Frozen):
    """A setting of a file, or an option of one."""

    of: str
    """Its list in ``settings.csv``."""
    key: str
    value: str
    where: str
    what: str = ""
    """In the words of a message; blank: the key with its value."""


class Site:
    """What a configuration says, while its lines are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[str, Where] = {}
        self.node_pairs: dict[str, dict[str, str]] = {}
        """What is said of each node, the defaults included."""
        self.node_sets: dict[str, Line] = {}
        self.partitions: dict[str, tuple[Where, dict[str, str]]] = {}
        self.options: dict[str, Line] = {}
        """The last line of each setting of the whole file."""
        self.global_mode = Mode.OFF
        self.preempts_by_qos: Line | None = None
        self.settings: dict[str, Any] = {}
        self.given: list[Given] = []
        """What may be lost, which is known when all has been read."""
        self.losses: list[Loss] = []
        self.defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}

    def value(self, key: str, default: str = "") -> str:
        """The value of a setting of the whole file, whose key is in lower case."""
        line = self.options.get(key)
        return default if line is None else line.pairs[key]

    def lose(self, what: str, where: object, why: str) -> None:
        """Note what decides and is not modelled, though its setting is."""
        self.losses.append(Loss(printable(what)[:100], str(where), why, Effect.DECIDES))


class Usual(Frozen):
    """What jobs of a partition take that do not say it, or cannot take less."""

    cpus_at_once: int = 1
    """CPUs of what is given at least: a core or a socket (``CR_Core``, ``CR_Socket``)."""
    memory_per_cpu: int = 0
    """``DefMemPerCPU`` in megabytes."""
    memory_per_node: int = 0
    """``DefMemPerNode``; 0 beside 0 for each CPU: all that a node has."""
    exclusive: bool = False
    """Whether jobs share no node (``OverSubscribe=EXCLUSIVE``, ``select/linear``)."""


class ReadConf(Frozen):
    """What a ``slurm.conf`` describes, and what was not taken from it."""

    cluster: Cluster
    losses: tuple[Loss, ...]
    counts_memory: bool
    """Whether jobs consume memory there (``CR_Core_Memory`` and the like)."""
    usual: Mapping[str, Usual]
    """By partition."""


def read_conf(path: Path, qos_path: Path | None = None, associations: Path | None = None) -> ReadConf:
    """The cluster that a ``slurm.conf``, a table of QOS and one of associations describe.

    Raises:
        ConfigError: it cannot be read, a value is none, Slurm refuses it, or it has no nodes or partitions.
    """
    site = Site(path)
    for line in read_lines(path):
        of = _LISTS.get(line.kind, _CONF)
        for key, value in line.pairs.items():
            parts = value.split(",") if key == "priorityflags" else [value]
            site.given += [Given(of, key, each, str(line.where)) for each in parts]
        if line.kind == "nodename":
            _read_nodes(site, line)
        elif line.kind == "nodeset":
            site.node_sets[line.pairs["nodeset"]] = line
        elif line.kind == "partitionname":
            _read_partition(site, line)
        elif of == _CONF:
            for key, value in line.pairs.items():
                site.options[key] = line
                if (reader := _SETTINGS.get(key)) is not None:
                    reader(site, line, value)
    if not site.nodes:
        raise ConfigError(f"{path}: there is no NodeName line")
    if not site.partitions:
        raise ConfigError(f"{path}: there is no PartitionName line")
    _refuse_what_slurm_refuses(site)
    partitions = tuple(_partition(site, name) for name in site.partitions)
    qos = _qos(site, qos_path)
    _note_whom_oversubscribe_keeps(site, partitions, qos)
    _read_select_parameters(site)
    _read_weights(site)
    _read_enforced(site)
    conditions = _Conditions.of(site)
    nodes = {name: _node(site, name, conditions.counts_memory) for name in site.nodes}
    nodes |= {name: replace(nodes[name], sharing=jobs) for name, jobs in _sharing(site, partitions, nodes).items()}
    if conditions.counts_memory and (unknown := [name for name, node in nodes.items() if not node.memory_mb]):
        why = "memory is consumed there, and slurm.conf does not say how much a node has: it is not looked at"
        site.lose(f"RealMemory of {unknown[0]}", site.nodes[unknown[0]], why)
        nodes = {name: replace(node, memory_mb=0) for name, node in nodes.items()}
    below = () if associations is None else tuple(_associations(site, associations))
    cluster = Cluster(nodes, partitions, Settings(**site.settings), qos, below)
    _note_who_has_no_turns(site, cluster)
    usual = {each.name: _usual(site, each) for each in partitions}
    counts_memory = any(node.memory_mb for node in nodes.values())
    return ReadConf(cluster, (*site.losses, *_losses(site.given, conditions)), counts_memory, usual)


# ---- what is lost ----

_MEMORY = {"realmemory", "memspeclimit", "memlimitenforce"} | {
    f"{which}memper{of}" for which in ("def", "max") for of in ("cpu", "gpu", "node")
}
"""What decides only where jobs consume memory."""
_PRIORITY = {"fairsharedampeningfactor", "priorityjobfactor", "tresbillingweights"}
"""Beside what begins with ``Priority``: what decides only where priorities are made of weights."""
_NOT_OF_WEIGHTS = {"prioritytype", "prioritytier", "priority"}
_ALIKE = {"feature", "features", "tmpdisk", "topology"}
"""What decides only where nodes differ in it."""


class _Conditions(Frozen):
    """What a site's other settings say of those that may be lost."""

    counts_memory: bool
    has_weights: bool
    """Whether jobs' priorities are, or may be, made of weights."""
    enforces_limits: bool
    """Whether limits of associations and QOS are enforced."""
    differ: frozenset[str]
    """The keys of ``_ALIKE`` in which nodes differ."""

    @classmethod
    def of(cls, site: Site) -> _Conditions:
        select = [each.key.lower() for each in site.given if each.of == _SELECT]
        differ = {key for key in _ALIKE if len({pairs.get(key, "") for pairs in site.node_pairs.values()}) > 1}
        return cls(
            any(key.endswith("_memory") for key in select),
            site.value("prioritytype", "unknown").lower() != "priority/basic",
            bool(site.settings.get("enforces_limits")),
            frozenset(differ),
        )

    def hold(self, given: Given) -> bool:
        """Whether a setting decides here if its row says so."""
        key = given.key.lower()
        if given.of in ("QOS", _ASSOCIATION):
            is_limit = key.startswith(("grp", "max", "limitfactor", "usagethreshold"))
            return self.enforces_limits if is_limit else self.has_weights or key != "usagefactor"
        if key in _MEMORY:
            return self.counts_memory
        if key in _PRIORITY or (key.startswith("priority") and key not in _NOT_OF_WEIGHTS):
            return self.has_weights
        if given.of == _PARTITION and key == "qos":
            return self.enforces_limits
        return given.of != _NODE or key not in _ALIKE or key in self.differ


def _losses(given: list[Given], conditions: _Conditions) -> Iterator[Loss]:
    table = settings_of("slurm")
    for each in given:
        if not conditions.hold(each) or not each.value:
            continue
        setting = table.find(each.of, each.key)
        shown = each.what or printable(f"{setting.key if setting else each.key}={each.value[:60]}")
        loss = table.loss(each.of, each.key, each.value, each.where, what=shown)
        if loss is not None:
            yield loss


def _read_select_parameters(site: Site) -> None:
    """The options of SelectTypeParameters, and what is so where it, or SelectType, is not set."""
    if "selecttype" not in site.options:
        why = "SelectType is not set: whole nodes are allocated before Slurm 23.11, later cores; here single CPUs are"
        site.lose("SelectType is not set", site.path, why)
        return
    line = site.options.get("selecttypeparameters")
    if site.value("selecttype").lower() == "select/linear":
        if line is not None and "CR_MEMORY" in line.pairs["selecttypeparameters"].upper().split(","):
            site.given.append(Given(_SELECT, "CR_Memory", "set", str(line.where)))
        return
    if line is None:
        where, text = str(site.path), "CR_Core_Memory"
    else:
        where, text = str(line.where), line.pairs["selecttypeparameters"]
    for option in filter(None, text.split(",")):
        what = f"SelectTypeParameters={option}" if line else "SelectTypeParameters is not set: CR_Core_Memory"
        site.given.append(Given(_SELECT, option, "set", where, printable(what)))


def _refuse_what_slurm_refuses(site: Site) -> None:
    """Raises ConfigError, in the words of slurm.conf's page."""
    line = site.options.get("preemptmode")
    mode = "" if line is None else line.pairs["preemptmode"]
    if line is not None and site.global_mode is Mode.SUSPEND and not site.settings.get("gang"):
        what = (
            'SUSPEND without GANG, and Slurm does not start: "the SUSPEND preemption mode always needs the GANG option'
        )
        raise line.where.error("PreemptMode", f'{what} to be specified at the cluster level" (slurm.conf(5))')
    kind = site.options.get("preempttype")
    if kind is None or site.value("preempttype").lower() not in _PREEMPTS or site.global_mode is not Mode.OFF:
        return
    if mode.upper() not in ("", "OFF"):
        site.lose(
            f"PreemptMode={mode}", kind.where, "nobody is preempted: a PreemptType needs a PreemptMode beside GANG"
        )
        return
    given = f"PreemptMode={mode}" if mode else "no PreemptMode"
    what = f'{given}, and Slurm does not start: OFF, the default, "is only compatible with PreemptType=preempt/none'
    raise kind.where.error("PreemptType", f'{kind.pairs["preempttype"]} with {what} at a global level" (slurm.conf(5))')


def _note_whom_oversubscribe_keeps(site: Site, partitions: tuple[Partition, ...], qos: tuple[Qos, ...]) -> None:
    """Note where it decides and is not modelled, or not documented, that a partition shares nothing."""
    suspended = [each.tier for each in partitions if each.mode is Mode.SUSPEND]
    by_qos = any(each.mode is Mode.SUSPEND for each in qos)
    if not site.settings.get("gang") or not site.settings.get("preempts"):
        return
    for each in partitions:
        where, pairs = site.partitions[each.name]
        if _shares(pairs):
            continue
        what = f"OverSubscribe=NO of partition {each.name}"
        if by_qos:
            site.lose(what, where, "that OverSubscribe=NO disables suspension is not modelled under preempt/qos")
        elif not qos and any(tier < each.tier for tier in suspended):
            why = (
                "jobs of a partition that shares nothing are put over suspended ones: no manual says whether Slurm does"
            )
            site.lose(what, where, why)


def _shares(pairs: Mapping[str, str]) -> bool:
    """Whether CPUs of a partition may be shared: ``OverSubscribe=NO``, the default, disables preemption by SUSPEND."""
    text = pairs.get("oversubscribe", pairs.get("shared", "NO")).upper()
    return text.startswith(("FORCE", "YES")) and pairs.get("exclusive", "NO").upper() in ("NO", "USER")


_ANY_NUMBER = 1000
"""In place of as many jobs on a CPU as there is memory for."""
_FORCED = re.compile(r"(FORCE|YES)(?::(\d{1,5}))?")


def _sharing(site: Site, partitions: tuple[Partition, ...], nodes: Mapping[str, Node]) -> dict[str, int]:
    """How many jobs may have each CPU at once, of nodes where several may (``OverSubscribe=FORCE:n``, 4 if it has no
    number; ``CR_Memory``, where CPUs are not consumed); it is noted where that is not modelled."""
    options = {*site.value("selecttypeparameters").lower().split(",")}
    by_memory = site.value("selecttype").lower() != "select/linear" and "cr_memory" in options
    number_of = Counter(node for each in partitions for node in each.nodes)
    found: dict[str, int] = {}
    for each in partitions:
        where, pairs = site.partitions[each.name]
        text = pairs.get("oversubscribe", pairs.get("shared", "NO")).upper()
        form = _FORCED.fullmatch(text)
        if form is None and text not in ("NO", "EXCLUSIVE"):
            raise where.error("OverSubscribe", f"'{printable(text[:40])}' is none of NO, EXCLUSIVE, YES:n, FORCE:n")
        jobs = _ANY_NUMBER if by_memory else max(1, int(form[2] or 4)) if form else 1
        if jobs == 1:
            continue
        is_forced = by_memory or text.startswith("FORCE")
        alone = by_memory or all(number_of[node] == 1 for node in each.nodes)
        if why := _why_not_shared(each, nodes, is_forced=is_forced, alone=alone):
            what = "SelectTypeParameters=CR_Memory" if by_memory else f"OverSubscribe={text}"
            site.lose(f"{what} of partition {each.name}", where, why)
        else:
            found |= dict.fromkeys(each.nodes, jobs)
    return found


def _why_not_shared(partition: Partition, nodes: Mapping[str, Node], *, is_forced: bool, alone: bool) -> str:
    """Why jobs of a partition have CPUs of their own here; blank: they share them."""
    if not is_forced:
        return "which jobs ask to share CPUs (--oversubscribe) is not read: all have CPUs of their own"
    if not alone:
        return "jobs that share CPUs are modelled only on nodes of one partition: here they have CPUs of their own"
    if len({nodes[node].cpus for node in partition.nodes}) > 1:
        return "jobs that share CPUs are modelled only where nodes have equally many: here they have CPUs of their own"
    return ""


def _note_who_has_no_turns(site: Site, cluster: Cluster) -> None:
    """Note where jobs would share CPUs in turns that can also be ended for others."""
    sharing = cluster.sharing
    for each in cluster.partitions:
        if any(cluster.nodes[node].sharing > sharing[node] for node in each.nodes):
            site.lose(f"PreemptMode of partition {each.name}", site.partitions[each.name][0], ENDED_IN_TURNS)


# ---- priorities and limits ----

_WEIGHTS = {
    "priorityweightage": "age",
    "priorityweightassoc": "assoc",
    "priorityweightfairshare": "fair_share",
    "priorityweightjobsize": "job_size",
    "priorityweightpartition": "partition",
    "priorityweightqos": "qos",
    "fairsharedampeningfactor": "dampening",
}
_TIMES_OF_WEIGHTS = {
    "prioritymaxage": "max_age_ns",
    "prioritycalcperiod": "calc_period_ns",
    "prioritydecayhalflife": "half_life_ns",
}


def _read_weights(site: Site) -> None:
    """What priorities are made of; without slurmdbd there is no age, as recorded runs show."""
    if site.value("prioritytype", "priority/multifactor").lower() != "priority/multifactor":
        return
    found: dict[str, Any] = {}
    for key, line in site.options.items():
        value = line.pairs[key]
        if key in _WEIGHTS:
            found[_WEIGHTS[key]] = whole(line.where, key, value)
        elif key in _TIMES_OF_WEIGHTS:
            unit_ns = MINUTE_NS
            found[_TIMES_OF_WEIGHTS[key]] = time_ns(line.where, key, value, unit_ns) or 0
        elif key == "priorityweighttres":
            found["tres"] = weights_of_tres(line.where, key, value)
        elif key == "priorityfavorsmall":
            found["favors_small"] = value.upper() in ("YES", "TRUE", "1")
        elif key == "priorityflags":
            found["flags"] = tuple(value.lower().split(","))
    if not site.value("accountingstoragetype").lower().endswith("slurmdbd"):
        found["age"] = 0
    if any(found.get(key) for key in ("age", "assoc", "fair_share", "job_size", "partition", "qos", "tres")):
        site.settings["weights"] = Weights(**found)


def _read_enforced(site: Site) -> None:
    """Whether limits hold."""
    enforced = {*site.value("accountingstorageenforce").lower().split(",")}
    site.settings["enforces_limits"] = not enforced.isdisjoint(("limits", "safe", "all"))


# ---- QOS ----


def _qos(site: Site, path: Path | None) -> tuple[Qos, ...]:
    """The QOS of a site; where they decide who is preempted, nobody is without a table of them."""
    line = site.preempts_by_qos
    site.settings["qos_preempt"] = line is not None
    if path is None:
        if line is not None:
            site.lose("PreemptType=preempt/qos", line.where, "nobody is preempted: give the table of QOS with --qos")
        return ()
    site.settings["preempts"] = site.settings.get("preempts") or line is not None
    return _read_qos(site, path)


COMMAND = "sacctmgr --parsable2 show qos"
"""Prints what is read here."""
_SHORT_COLUMNS = {
    "UsageThres": "UsageThreshold",
    "MaxSubmitPU": "MaxSubmitJobsPU",
    "MaxSubmitPA": "MaxSubmitJobsPA",
}
"""Heads of columns that sacctmgr prints in other words than its page has."""
_CLUSTER = "cluster"
"""A QOS without a PreemptMode of its own."""
_OPTIONS = {
    "GANG": "",
    "WITHIN": "jobs of one QOS do not preempt each other here",
    "PRIORITY": "jobs have no priorities here, so those of a higher one are preempted, too",
}
"""What may stand beside a mode, and why it is not looked at here."""


def _read_qos(site: Site, path: Path) -> tuple[Qos, ...]:
    """The QOS of a table; those without a mode or an exempt time have the cluster's.

    Raises:
        ConfigError: it cannot be read, a column is missing, or a value is none.
    """
    found: dict[str, tuple[Where, Qos]] = {}
    for where, row in read_table(path, ("Name", "Preempt") if site.preempts_by_qos else ("Name",), COMMAND):
        name = row["Name"]
        if name in found:
            raise where.error("Name", f"'{printable(name[:40])}' is there twice")
        found[name] = where, _qos_of_row(where, row, site.global_mode, site.settings.get("exempt_ns", 0))
        for column, value in row.items():
            key = _SHORT_COLUMNS.get(column, column)
            for each in value.split(",") if key == "Flags" else [value]:
                site.given.append(Given("QOS", key, each, str(where), printable(f"{column}={each[:60]} of QOS {name}")))
        _note_options(site, row.get("PreemptMode", ""), where, f" of QOS {name}")
    for where, qos in found.values():
        if unknown := [name for name in qos.preempts if name not in found]:
            raise where.error("Preempt", f"there is no QOS '{printable(unknown[0][:40])}'")
    try:
        TopologicalSorter({name: qos.preempts for name, (_, qos) in found.items()}).prepare()
    except CycleError as error:
        raise ConfigError(f"{path}: Preempt: QOS preempt each other: {printable(', '.join(error.args[1]))}") from None
    return tuple(qos for _, qos in found.values())


def _associations(site: Site, path: Path) -> Iterator[Association]:
    """Those of a table.  Raises ConfigError: it cannot be read, a column is missing, or a value is none."""
    weights = site.settings.get("weights")
    has_tree = bool(site.settings.get("enforces_limits")) or (weights is not None and weights.fair_share > 0)
    for number, (where, row, association) in enumerate(read_associations(path, site.value("clustername"))):
        of = row["User"] or row["Account"]
        if has_tree and not number and "ParentName" not in row:
            why = f"accounts count as if none were in another; print the table with {COMMAND_OF_ASSOCIATIONS}"
            site.lose("no column ParentName", where, why)
        for column, value in row.items():
            what = printable(f"{column}={value[:60]} of association {of}")
            site.given.append(Given(_ASSOCIATION, column, value, str(where), what))
        if association is not None:
            yield association


def _qos_of_row(where: Where, row: Mapping[str, str], mode: Mode, exempt_ns: int) -> Qos:
    own_mode, own_exempt = row.get("PreemptMode", ""), row.get("PreemptExemptTime", "")
    return Qos(
        row["Name"],
        tuple(filter(None, row.get("Preempt", "").split(","))),
        mode if own_mode.lower() in ("", _CLUSTER) else read_mode(where, own_mode),
        time_ns(where, "GraceTime", row.get("GraceTime") or "0", SECOND_NS) or 0,
        (time_ns(where, "PreemptExemptTime", own_exempt, MINUTE_NS) or 0) if own_exempt else exempt_ns,
        whole(where, "Priority", row.get("Priority") or "0"),
        limits_of_row(where, row),
        float(row.get("UsageFactor") or 1),
    )


def read_mode(where: Where, text: str) -> Mode:
    """What ``PreemptMode`` says of victims."""
    names = ",".join(name for name in text.upper().split(",") if name not in _OPTIONS)
    try:
        return Mode(names) if names else Mode.OFF
    except ValueError:
        raise where.error("PreemptMode", f"'{printable(text[:40])}' is none of {', '.join(Mode)}") from None


def _note_options(site: Site, text: str, where: Where, of: str = "") -> None:
    """Note what in a ``PreemptMode`` makes no difference here, and should."""
    for name in text.upper().split(","):
        if why := _OPTIONS.get(name):
            site.lose(f"PreemptMode={text}{of}", where, why)


# ---- nodes ----


def _read_nodes(site: Site, line: Line) -> None:
    if line.pairs["nodename"].upper() == _DEFAULT:
        site.defaults["nodename"] |= line.pairs
        return
    given = {**site.defaults["nodename"], **line.pairs}
    for name in node_names(line.where, "NodeName", line.pairs["nodename"]):
        if name in site.nodes:
            raise line.where.error("NodeName", f"'{name}' is there twice")
        site.nodes[name], site.node_pairs[name] = line.where, given


def _node(site: Site, name: str, counts_memory: bool) -> Node:
    where, pairs = site.nodes[name], site.node_pairs[name]
    has = memory_mb(where, "RealMemory", pairs.get("realmemory", "0"))
    memory = has - memory_mb(where, "MemSpecLimit", pairs.get("memspeclimit", "0")) if counts_memory else 0
    return Node(
        _cpus(where, pairs)[0],
        max(0, memory),
        gres(where, "Gres", pairs.get("gres", "")),
        tuple(sorted(_features(pairs) - {""})),
        whole(where, "Weight", pairs.get("weight", "1")),
    )


def _cpus(where: Where, pairs: Mapping[str, str]) -> tuple[int, int, int]:
    """CPUs of a node, of a core and of a socket.  ``CPUs`` may be the number of sockets, of cores or of threads
    (slurm.conf's page); another number is not used where the sockets are given."""

    def number(key: str) -> int:
        return whole(where, key, pairs.get(key.lower(), "1"), least=1)

    cpus = whole(where, "CPUs", pairs.get("cpus") or pairs.get("procs") or "0")
    cores = number("CoresPerSocket")
    threads = cores * number("ThreadsPerCore")
    if "sockets" in pairs and "socketsperboard" not in pairs:
        sockets = number("Sockets")
    elif "socketsperboard" in pairs or not cpus or cpus % threads:
        sockets = number("Boards") * number("SocketsPerBoard")
    else:
        return cpus, threads // cores, threads
    if cpus not in (sockets, sockets * cores):
        return sockets * threads, threads // cores, threads
    return cpus, 1, cpus // sockets


# ---- partitions ----


def _read_partition(site: Site, line: Line) -> None:
    name = line.pairs["partitionname"]
    _note_options(site, line.pairs.get("preemptmode", ""), line.where)
    for option in filter(None, line.pairs.get("selecttypeparameters", "NONE").split(",")):
        if option.upper() != "NONE":
            what = printable(f"SelectTypeParameters={option} of partition {name}")
            site.given.append(Given(_SELECT, option, "set", str(line.where), what))
    for key in ("oversubscribe", "shared"):
        if line.pairs.get(key, "").upper() == "EXCLUSIVE":
            site.given.append(Given(_PARTITION, "Exclusive", "NODE", str(line.where), "OverSubscribe=EXCLUSIVE"))
    if name.upper() == _DEFAULT:
        site.defaults["partitionname"] |= line.pairs
        return
    if name in site.partitions:
        why = "it is there before; Slurm ignores the second one"
        site.losses.append(Loss(f"PartitionName={printable(name[:60])}", str(line.where), why, Effect.NOTHING))
        return
    site.partitions[name] = line.where, {**site.defaults["partitionname"], **line.pairs}


def _partition(site: Site, name: str) -> Partition:
    where, pairs = site.partitions[name]
    nodes = tuple(site.nodes)
    if pairs.get("nodes", "ALL").upper() != "ALL":
        nodes = tuple(dict.fromkeys(_nodes(site, where, pairs["nodes"])))
        if unknown := [node for node in nodes if node not in site.nodes]:
            raise where.error("Nodes", f"there is no NodeName '{unknown[0]}'")
    mode = read_mode(where, pairs["preemptmode"]) if "preemptmode" in pairs else site.global_mode
    if mode is Mode.SUSPEND and not site.settings.get("gang"):
        why = "SUSPEND in a partition, without GANG for the cluster, which it always needs: nobody is suspended here"
        site.lose(f"PreemptMode=SUSPEND of partition {name}", where, why)
    if mode is Mode.SUSPEND and not _shares(pairs):
        mode = Mode.OFF
    limit_key, limit = "DefaultTime", pairs.get("defaulttime", "NONE")
    if limit.upper() == "NONE":
        limit_key, limit = "MaxTime", pairs.get("maxtime", "UNLIMITED")
    return Partition(
        name,
        nodes,
        _tier(where, pairs),
        mode,
        time_ns(where, "GraceTime", pairs.get("gracetime", "0"), SECOND_NS) or 0,
        time_ns(where, limit_key, limit, MINUTE_NS),
        time_ns(where, "MaxTime", pairs.get("maxtime", "UNLIMITED"), MINUTE_NS),
        None if (most := pairs.get("maxnodes", "UNLIMITED")).upper() in UNLIMITED else whole(where, "MaxNodes", most),
        whole(where, "PriorityJobFactor", pairs.get("priorityjobfactor", "1")),
        pairs.get("qos", ""),
        weights_of_tres(where, "TRESBillingWeights", pairs.get("tresbillingweights", "")),
    )


def _usual(site: Site, partition: Partition) -> Usual:
    where, pairs = site.partitions[partition.name]
    text = pairs.get("selecttypeparameters", "NONE")
    if text.upper() == "NONE":
        text = site.value("selecttypeparameters", "CR_Core_Memory" if "selecttype" in site.options else "CR_CPU")
    options = {*text.lower().split(",")}
    place = 1 if options & {"cr_core", "cr_core_memory"} else 2 if options & {"cr_socket", "cr_socket_memory"} else None
    at_once = {1 if place is None else _cpus(where, site.node_pairs[node])[place] for node in partition.nodes} or {1}
    if len(at_once) > 1:
        why = "where cores or sockets of a partition have different numbers of CPUs, the largest is taken for all"
        site.lose(f"SelectTypeParameters={text} in partition {partition.name}", where, why)

    def default(key: str) -> int:
        of_all = site.options.get(key)
        value = pairs.get(key, "0" if of_all is None else of_all.pairs[key])
        return 0 if value.upper() in UNLIMITED else memory_mb(where, key, value)

    exclusive = pairs.get("oversubscribe", pairs.get("shared", "")).upper() == "EXCLUSIVE"
    exclusive |= pairs.get("exclusive", "NO").upper() in ("YES", "NODE")
    exclusive |= site.value("selecttype").lower() == "select/linear"
    return Usual(max(at_once), default("defmempercpu"), default("defmempernode"), exclusive)


def _tier(where: Where, pairs: Mapping[str, str]) -> int:
    """``Priority``, as before version 17.02, goes before ``PriorityTier``."""
    key = "Priority" if "priority" in pairs else "PriorityTier"
    return whole(where, key, pairs.get(key.lower(), "1"))


def _nodes(site: Site, where: Where, text: str) -> Iterator[str]:
    """The nodes of a list, which may name sets (``NodeSet``); none of an empty one."""
    for name in node_names(where, "Nodes", text) if text else ():
        if (line := site.node_sets.get(name)) is None:
            yield name
            continue
        if listed := line.pairs.get("nodes"):
            yield from node_names(line.where, "Nodes", listed)
        wanted = line.pairs.get("feature")
        yield from (node for node, pairs in site.node_pairs.items() if wanted in _features(pairs))


def _features(pairs: Mapping[str, str]) -> set[str]:
    """The features of a node, which older versions call ``Feature``."""
    return {*pairs.get("feature", "").split(","), *pairs.get("features", "").split(",")}


# ---- settings ----


_PREEMPTS = ("preempt/partition_prio", "preempt/qos")


def _preempt_type(site: Site, line: Line, text: str) -> None:
    site.settings["preempts"] = text.lower() == "preempt/partition_prio"
    site.preempts_by_qos = line if text.lower() == "preempt/qos" else None
    if text.lower() not in (*_PREEMPTS, "preempt/none", ""):
        site.lose(f"PreemptType={text}", line.where, "only tiers of partitions and QOS preempt here")


def _preempt_mode(site: Site, line: Line, text: str) -> None:
    site.global_mode = read_mode(line.where, text)
    site.settings["gang"] = "GANG" in text.upper().split(",")
    _note_options(site, text, line.where)


def _scheduler_type(site: Site, line: Line, text: str) -> None:
    if text.lower() != "sched/backfill":
        site.settings["backfills"] = False


def _auth_info(site: Site, line: Line, text: str) -> None:
    for option in text.split(","):
        name, _, value = option.partition("=")
        if name == "cred_expire":
            site.settings["cred_expire_ns"] = whole(line.where, "AuthInfo", value) * SECOND_NS


def _exempt_time(site: Site, line: Line, text: str) -> None:
    site.settings["exempt_ns"] = time_ns(line.where, "PreemptExemptTime", text, MINUTE_NS) or 0


def _time_slice(site: Site, line: Line, text: str) -> None:
    site.settings["time_slice_ns"] = whole(line.where, "SchedulerTimeSlice", text, least=5) * SECOND_NS


_NUMBERS = {
    "bf_interval": ("bf_interval_ns", SECOND_NS, 1),
    "bf_window": ("bf_window_ns", MINUTE_NS, 1),
    "bf_window_linear": ("bf_window_linear_ns", SECOND_NS, 0),
    "bf_resolution": ("bf_resolution_ns", SECOND_NS, 1),
    "sched_interval": ("sched_interval_ns", SECOND_NS, 1),
    "sched_min_interval": ("sched_min_interval_ns", MICROSECOND_NS, 0),
    "batch_sched_delay": ("batch_sched_delay_ns", SECOND_NS, 0),
    "bf_max_job_test": ("bf_max_job_test", 1, 1),
    "default_queue_depth": ("default_queue_depth", 1, 1),
    "preempt_reorder_count": ("reorder_count", 1, 0),
}
"""The field of each option, its unit, and the least that it may be."""
_FLAGS = {"preempt_youngest_first": "youngest_first", "preempt_strict_order": "strict_order"}


def _note_each_option(site: Site, line: Line, text: str, key: str) -> None:
    """Each option of a setting has a row of its own."""
    for option in filter(None, text.split(",")):
        name, _, value = option.partition("=")
        what = printable(f"{key}={option[:60]}")
        site.given.append(Given(f"{_CONF} {key}", name, value or "set", str(line.where), what))


def _read_options(site: Site, line: Line, text: str, key: str, begin: str = "") -> None:
    """The options of a setting; ``begin`` is what names of the same options elsewhere begin with."""
    _note_each_option(site, line, text, key)
    for option in filter(None, text.split(",")):
        name, _, value = option.partition("=")
        name = begin + name.lower()
        if option == "bf_interval=-1":
            site.settings["backfills"] = False
        elif option == "sched_interval=-1":
            site.lose(option, line.where, "the main scheduler runs here")
        elif name in _NUMBERS:
            field, unit, least = _NUMBERS[name]
            site.settings[field] = whole(line.where, name, value, least) * unit
        elif name == "assoc_limit_stop":
            site.settings["keeps_order_under_limits"] = True
        elif name in _FLAGS:
            site.settings[_FLAGS[name]] = True


_SETTINGS: dict[str, Callable[[Site, Line, str], None]] = {
    "preempttype": _preempt_type,
    "preemptmode": _preempt_mode,
    "preemptexempttime": _exempt_time,
    "schedulertimeslice": _time_slice,
    "schedulertype": _scheduler_type,
    "schedulerparameters": partial(_read_options, key="SchedulerParameters"),
    # Where later versions have the options of SchedulerParameters that begin with preempt_.
    "preemptparameters": partial(_read_options, key="PreemptParameters", begin="preempt_"),
    "slurmctldparameters": partial(_note_each_option, key="SlurmctldParameters"),
    "authinfo": _auth_info,
}
