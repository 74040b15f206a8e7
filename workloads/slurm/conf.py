"""``slurm.conf`` as what Slurm's decisions are made from: nodes, partitions, preemption, the schedulers' parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from emulator.errors import ConfigError, printable
from emulator.sites.slurm import MINUTE_NS, SECOND_NS, Cluster, Mode, Partition, Qos, Settings
from workloads.setting_effects import Loss
from workloads.slurm.lines import Line, Where, node_names, read_lines, read_table, time_ns, whole

MICROSECOND_NS = 1000
_DEFAULT = "DEFAULT"
_CPU_KEYS = {"cpus", "procs", "sockets", "corespersocket", "threadspercore", "boards", "socketsperboard"}
_NODE_KEYS = {*_CPU_KEYS, "nodename", "nodeaddr", "nodehostname", "port", "bcastaddr", "state", "reason"}
_PARTITION_KEYS = {
    *("partitionname", "nodes", "prioritytier", "preemptmode", "gracetime", "defaulttime", "maxtime", "default"),
    *("oversubscribe", "shared", "state", "priority"),
}
_QUIET = {
    *("clustername", "slurmctldhost", "slurmctldport", "slurmdport", "slurmuser", "slurmduser", "authtype"),
    *("statesavelocation", "slurmdspooldir", "slurmctldlogfile", "slurmdlogfile", "slurmctldpidfile", "slurmdpidfile"),
    *("slurmctlddebug", "slurmddebug", "mpidefault", "slurmdparameters", "credtype", "switchtype", "logtimeformat"),
}
"""What decides nothing about jobs, and is not worth a line."""


class Site:
    """What a configuration says, while its lines are read."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.features: dict[str, set[str]] = {}
        """The features of each node."""
        self.node_sets: dict[str, Line] = {}
        self.partitions: dict[str, tuple[Where, dict[str, str]]] = {}
        self.global_mode = Mode.OFF
        self.preempts_by_qos: Line | None = None
        self.settings: dict[str, Any] = {}
        self.left_out: list[Loss] = []
        self.defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}

    def expect(self, line: Line, key: str, values: Sequence[str], why: str) -> None:
        """Note a setting that has none of these values, which are in upper case."""
        if line.pairs.get(key, values[0]).upper() not in values:
            self.leave_out(line, key, why)

    def leave_out(self, line: Line, key: str, why: str = "") -> None:
        """Note a setting that nothing here looks at."""
        text = f"{key}={printable(line.pairs[key][:60])}"
        self.left_out.append(Loss(text, str(line.where), why))


def read_conf(path: Path, qos_path: Path | None = None) -> tuple[Cluster, list[Loss]]:
    """The cluster that a ``slurm.conf`` and a table of QOS describe, and what was not taken from them: what has a
    reason before the rest.

    Raises:
        ConfigError: it cannot be read, a value is none, or it has no nodes or partitions.
    """
    site = Site()
    for line in read_lines(path):
        if line.kind == "nodename":
            _read_nodes(site, line)
        elif line.kind == "nodeset":
            site.node_sets[line.pairs["nodeset"]] = line
        elif line.kind == "partitionname":
            _read_partition(site, line)
        else:
            for key in line.pairs:
                _read_setting(site, line, key)
    if not site.nodes:
        raise ConfigError(f"{path}: there is no NodeName line")
    if not site.partitions:
        raise ConfigError(f"{path}: there is no PartitionName line")
    partitions = tuple(_partition(site, name) for name in site.partitions)
    qos = _qos(site, qos_path)
    left_out = sorted(site.left_out, key=lambda each: not each.why)
    return Cluster(site.nodes, partitions, Settings(**site.settings), qos), left_out


def _qos(site: Site, path: Path | None) -> tuple[Qos, ...]:
    """The QOS of a site where they decide; without a table of them nobody is preempted."""
    line = site.preempts_by_qos
    if line is None:
        return ()
    if path is None:
        site.leave_out(line, "preempttype", "nobody is preempted: give the table of QOS with --qos")
        return ()
    site.settings["preempts"] = True
    qos, left_out = read_qos(path, site.global_mode, site.settings.get("exempt_ns", 0))
    site.left_out += left_out
    return qos


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


def read_qos(path: Path, mode: Mode, exempt_ns: int) -> tuple[tuple[Qos, ...], list[Loss]]:
    """The QOS of a table, and what was not taken from it; ``mode`` and ``exempt_ns`` are the cluster's, for those that
    have none.

    Raises:
        ConfigError: it cannot be read, a column is missing, or a value is none.
    """
    found: dict[str, tuple[Where, Qos]] = {}
    left_out: list[Loss] = []
    for where, row in read_table(path, _NEEDED, COMMAND):
        if row["Name"] in found:
            raise where.error("Name", f"'{printable(row['Name'][:40])}' is there twice")
        found[row["Name"]] = where, _qos_of_row(where, row, mode, exempt_ns)
        text = row.get("PreemptMode", "")
        what = printable(f"PreemptMode={text} of QOS {row['Name']}")
        left_out += [Loss(what, str(where), why) for why in not_looked_at(text)]
    for where, qos in found.values():
        if unknown := [name for name in qos.preempts if name not in found]:
            raise where.error("Preempt", f"there is no QOS '{printable(unknown[0][:40])}'")
    try:
        TopologicalSorter({name: qos.preempts for name, (_, qos) in found.items()}).prepare()
    except CycleError as error:
        raise ConfigError(f"{path}: Preempt: QOS preempt each other: {printable(', '.join(error.args[1]))}") from None
    return tuple(qos for _, qos in found.values()), left_out


def _qos_of_row(where: Where, row: Mapping[str, str], mode: Mode, exempt_ns: int) -> Qos:
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


# ---- nodes ----


def _read_nodes(site: Site, line: Line) -> None:
    for key in (key for key in line.pairs if key not in _NODE_KEYS):
        site.leave_out(line, key, "only CPUs decide here")
    site.expect(line, "state", ("UNKNOWN", "IDLE", "CLOUD"), "all nodes are up here")
    if line.pairs["nodename"].upper() == _DEFAULT:
        site.defaults["nodename"] |= line.pairs
        return
    given = {**site.defaults["nodename"], **line.pairs}
    cpus = _cpus(line.where, given)
    features = {*given.get("feature", "").split(","), *given.get("features", "").split(",")}
    for name in node_names(line.where, "NodeName", line.pairs["nodename"]):
        if name in site.nodes:
            raise line.where.error("NodeName", f"'{name}' is there twice")
        site.nodes[name], site.features[name] = cpus, features


def _cpus(where: Where, pairs: Mapping[str, str]) -> int:
    """CPUs of a node, as Slurm infers them: a number that fits neither its sockets, its cores nor its threads is not
    used (``_parse_nodename`` in Slurm's src/common/read_config.c)."""

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
        return cpus
    return cpus if cpus in (sockets, sockets * cores, sockets * threads) else sockets * threads


# ---- partitions ----


def _read_partition(site: Site, line: Line) -> None:
    name = line.pairs["partitionname"]
    for key in (key for key in line.pairs if key not in _PARTITION_KEYS):
        site.leave_out(line, key)
    site.expect(line, "state", ("UP",), "all partitions are up here")
    why = "jobs of one partition share no CPUs here, and nodes are not exclusive"
    for key in ("oversubscribe", "shared"):
        site.expect(line, key, ("NO", "FORCE:1"), why)
    for why in not_looked_at(line.pairs.get("preemptmode", "")):
        site.leave_out(line, "preemptmode", why)
    if name.upper() == _DEFAULT:
        site.defaults["partitionname"] |= line.pairs
        return
    if name in site.partitions:
        site.leave_out(line, "partitionname", "it is there before; Slurm ignores the second one")
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
    )


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
        yield from (node for node, has in site.features.items() if line.pairs.get("feature") in has)


# ---- settings ----


def _read_setting(site: Site, line: Line, key: str) -> None:
    reader = _SETTINGS.get(key)
    if reader is not None:
        reader(site, line, line.pairs[key])
    elif key in _EXPECTED:
        site.expect(line, key, *_EXPECTED[key])
    elif key not in _QUIET:
        site.leave_out(line, key)


def _preempt_type(site: Site, line: Line, text: str) -> None:
    site.settings["preempts"] = text.lower() == "preempt/partition_prio"
    site.preempts_by_qos = line if text.lower() == "preempt/qos" else None
    if text.lower() not in ("preempt/partition_prio", "preempt/qos", "preempt/none"):
        site.leave_out(line, "preempttype", "only tiers of partitions and QOS preempt here")


def _preempt_mode(site: Site, line: Line, text: str) -> None:
    site.global_mode = read_mode(line.where, text)
    site.settings["gang"] = "GANG" in text.upper().split(",")
    for why in not_looked_at(text):
        site.leave_out(line, "preemptmode", why)


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


def _read_options(site: Site, line: Line, text: str, key: str, begin: str = "") -> None:
    for option in filter(None, text.split(",")):
        name, _, value = option.partition("=")
        name = begin + name.lower()
        if option == "bf_interval=-1":
            site.settings["backfills"] = False
        elif option == "sched_interval=-1":
            site.left_out.append(Loss(option, str(line.where), "the main scheduler runs here"))
        elif name in _NUMBERS:
            field, unit, least = _NUMBERS[name]
            site.settings[field] = whole(line.where, name, value, least) * unit
        elif name in _FLAGS:
            site.settings[_FLAGS[name]] = True
        else:
            site.left_out.append(Loss(f"{key}: {printable(option[:60])}", str(line.where)))


_SETTINGS: dict[str, Callable[[Site, Line, str], None]] = {
    "preempttype": _preempt_type,
    "preemptmode": _preempt_mode,
    "preemptexempttime": _exempt_time,
    "schedulertimeslice": _time_slice,
    "schedulertype": _scheduler_type,
    "schedulerparameters": partial(_read_options, key="SchedulerParameters"),
    # Where later versions have the options of SchedulerParameters that begin with preempt_.
    "preemptparameters": partial(_read_options, key="PreemptParameters", begin="preempt_"),
    "authinfo": _auth_info,
}
_EXPECTED: dict[str, tuple[tuple[str, ...], str]] = {
    "jobrequeue": (("1",), "REQUEUE requeues all jobs here, not only those with --requeue"),
    "selecttype": (
        ("SELECT/CONS_TRES", "SELECT/CONS_RES"),
        "nodes are shared by CPU here, as under select/cons_tres",
    ),
    "selecttypeparameters": (("CR_CPU",), "single CPUs decide here, as under CR_CPU, not cores or memory"),
}
"""Values that make no difference here, and what is so whatever else a setting says."""
