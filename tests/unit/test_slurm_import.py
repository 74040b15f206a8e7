"""A Slurm site's files as natjam reads them, the file that it writes, and the play of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest

import workloads.saved
from analysis.advise.sites import PREVIEW, busiest_day, slurm_question
from emulator.errors import ConfigError
from emulator.policies.slurm.scheduler import jobs_player
from emulator.policies.slurm.snapshot import FOREVER_NS
from emulator.sites.slurm import (
    MINUTE_NS,
    SECOND_NS,
    Cluster,
    Job,
    Limits,
    Mode,
    Node,
    Partition,
    Qos,
    Settings,
    Slurm,
    Weights,
    has_features,
)
from tests.advice import played
from tests.commands import run_natjam
from tests.refusals import changed, refused
from workloads.saved import read_saved, write_saved
from workloads.setting_effects import Effect, Loss
from workloads.slurm.conf import read_conf
from workloads.slurm.lines import Where, node_names, time_ns
from workloads.slurm.sacct import read_sacct, read_slurm

# After the example at the end of slurm.conf's page (https://slurm.schedmd.com/slurm.conf.html).
EXAMPLE = """\
SlurmctldHost=dev0(12.34.56.78)  # Primary server
AuthType=auth/munge
Epilog=/usr/local/slurm/epilog
FirstJobId=65536
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=00:10:00
AuthInfo=socket=/run/munge.socket,cred_expire=60
SchedulerParameters=bf_interval=10,bf_window=2880,preempt_youngest_first,bf_continue
NodeName=DEFAULT CPUs=2 RealMemory=2000 TmpDisk=64000
NodeName=dev[0-25] NodeAddr=edev[0-25] Weight=16
NodeName=big CPUs=32 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2
DownNodes=dev20 State=DOWN Reason="power,ETA=Dec25"
PartitionName=DEFAULT MaxTime=30 MaxNodes=10 State=UP
PartitionName=debug Nodes=dev[0-8,18-25] Default=YES PreemptMode=OFF
PartitionName=batch Nodes=dev[9-17] MinNodes=4 \\
    GraceTime=120 PriorityTier=5
PartitionName=long Nodes=ALL MaxTime=2-12 AllowGroups=admin
"""
# The settings of slurm.conf.simple, which Debian's package slurmctld ships, and of its slurm.conf.cgroup.
PACKAGED = """\
ClusterName=cluster
SlurmctldHost=workstation
ProctrackType=proctrack/linuxproc
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/slurmdbd
AccountingStoreFlags=job_comment
JobCompType=jobcomp/none
NodeName=server CPUs=16 RealMemory=64000
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# After the examples of https://slurm.schedmd.com/preempt.html and slurm.conf's section on nodesets.
PREEMPTING = """\
PreemptType = preempt/partition_prio
PreemptMode = SUSPEND,GANG
JobRequeue=0
SchedulerParameters=bf_interval=-1,sched_interval=-1,bf_max_job_test=50
NodeName=n[12-16] CPUs=4 Features=fast,gpu Reason="it's new = fast"
NodeName=n17
NodeSet=fast Feature=fast Nodes=n17
PartitionName=active PriorityTier=1000 Nodes=n[12-16] Shared=FORCE:1
PartitionName=hipri PriorityTier=500 Nodes=fast PreemptMode=OFF
PartitionName=none Nodes=
PartitionName=hipri Nodes=n12
"""
CONF = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-2] CPUs=4
PartitionName=low Nodes=ALL PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""
SACCT = """\
JobIDRaw|Partition|Submit|ElapsedRaw|Suspended|State|NNodes|NCPUS|TimelimitRaw
11|low|2026-11-24T10:00:00|700|00:00:00|PREEMPTED|2|8|60
11|low|2026-11-24T10:00:00|3600|00:10:00|COMPLETED|2|8|60
11.batch||2026-11-24T10:00:00|3600|00:00:00|COMPLETED|1|4|
12|high|2026-11-24T10:05:00|600|00:00:00|FAILED|1|3|Partition_Limit
13|high|2026-11-24T10:06:00|0|00:00:00|PENDING|1|1|10
14|gone|2026-11-24T10:07:00|5|00:00:00|COMPLETED|1|1|10
15|low|2026-11-24T10:08:00|5|00:00:00|CANCELLED by 1000|1|64|10
16|low|2026-11-24T10:09:00|7|00:00:00|COMPLETED|1|1|UNLIMITED
"""


def by_effect(losses: Iterable[Loss]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """What decides, and what decides nothing, each with the number of its line."""
    found: dict[Effect, set[tuple[str, str]]] = {Effect.DECIDES: set(), Effect.NOTHING: set()}
    for each in losses:
        found[each.effect].add((each.where.rpartition(":")[2], each.what))
    return found[Effect.DECIDES], found[Effect.NOTHING]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def test_the_example_of_slurms_own_page(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(EXAMPLE)
    found = read_conf(path)
    cluster, lost = found.cluster, found.losses
    assert (len(cluster.nodes), cluster.nodes["dev7"].cpus, cluster.nodes["big"].cpus) == (27, 2, 32)
    debug, batch, long = cluster.partitions
    assert (len(debug.nodes), debug.mode, debug.limit_ns) == (17, Mode.OFF, 30 * MINUTE_NS)
    assert (batch.nodes[0], batch.grace_ns, batch.tier, batch.mode) == ("dev9", 120 * SECOND_NS, 5, Mode.REQUEUE)
    assert (len(long.nodes), long.limit_ns) == (27, 60 * 60 * MINUTE_NS)
    settings = cluster.settings
    assert settings.preempts
    assert settings.youngest_first
    assert not settings.gang
    assert (settings.exempt_ns, settings.cred_expire_ns) == (10 * MINUTE_NS, 60 * SECOND_NS)
    assert (settings.bf_interval_ns, settings.bf_window_ns) == (10 * SECOND_NS, 2880 * MINUTE_NS)
    decides, nothing = by_effect(lost)
    assert {("3", "Epilog=/usr/local/slurm/epilog"), ("12", "SchedulerParameters=bf_continue")} <= nothing
    assert {("19", "MinNodes=4"), ("21", "AllowGroups=admin")} <= nothing
    of_long = "SelectTypeParameters=CR_Core_Memory in partition long"  # its nodes' cores differ in their threads
    assert decides == {("16", "DownNodes=dev20"), ("21", of_long)}
    assert [cluster.nodes[f"dev{number}"].weight for number in (0, 25)] == [16, 16]
    assert (cluster.nodes["dev7"].memory_mb, debug.max_nodes, found.usual["long"].cpus_at_once) == (2000, 10, 2)
    for text, is_listed in (("NO", False), ("FORCE:1", False), ("FORCE:4", True), ("EXCLUSIVE", False)):
        path.write_text(EXAMPLE.replace("AllowGroups=admin", f"OverSubscribe={text}"))
        found = read_conf(path)
        assert (("21", f"OverSubscribe={text} of partition long") in by_effect(found.losses)[0]) == is_listed
        assert found.usual["long"].exclusive == (text == "EXCLUSIVE")


def test_the_example_that_a_package_ships(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(PACKAGED)
    found = read_conf(path)
    cluster, lost = found.cluster, found.losses
    settings = Settings(qos_preempt=False)
    assert cluster == Cluster({"server": Node(16, 64000)}, (Partition("debug", ("server",)),), settings)
    assert by_effect(lost)[0] == set()
    path.write_text(PACKAGED.replace("CR_Core_Memory", "CR_Core"))
    found = read_conf(path)
    assert (found.cluster.nodes["server"], found.usual["debug"].cpus_at_once) == (Node(16), 1)
    path.write_text(PACKAGED.replace("CR_Core_Memory", "CR_Core").replace("CPUs=16", "CPUs=16 ThreadsPerCore=2"))
    assert read_conf(path).usual["debug"].cpus_at_once == 2, "a core has two CPUs"


def test_a_group_of_nodes_of_this_machine_is_no_node_of_the_site() -> None:
    where = Where(Path("slurm.conf"), 1)
    assert node_names(where, "Nodes", "@local:all,n[1-2]") == ("@local:all", "n1", "n2")


def test_an_example_of_preemption_with_sets_of_nodes(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(PREEMPTING)
    found = read_conf(path)
    cluster, lost = found.cluster, found.losses
    assert [(each.name, len(each.nodes), each.tier, each.mode) for each in cluster.partitions] == [
        ("active", 5, 1000, Mode.SUSPEND),
        ("hipri", 6, 500, Mode.OFF),
        ("none", 0, 1, Mode.OFF),
    ], "who shares nothing, as is the default, is not suspended"
    settings = cluster.settings
    assert (settings.preempts, settings.gang, settings.backfills) == (True, True, False)
    assert (settings.bf_max_job_test, settings.sched_interval_ns) == (50, MINUTE_NS)
    decides, nothing = by_effect(lost)
    assert {("3", "JobRequeue=0"), ("4", "sched_interval=-1")} <= decides
    assert cluster.nodes["n12"].features == ("fast", "gpu")
    assert ("11", "PartitionName=hipri") in nothing


def test_keys_and_values_as_sites_write_them(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        "PREEMPTTYPE=Preempt/Partition_Prio\npreemptmode=suspend,gang\nPreemptExemptTime=10\n"
        "PreemptParameters=Youngest_First,reorder_count=3,send_user_signal\n"
        "SchedulerParameters=bf_window=4320,\\\nbf_resolution=300\n"
        "NodeName=DEFAULT CPUs=8\nNodeName=n[01-10,12]\nNodeName=n11 State=DRAIN\n"
        "PartitionName=DEFAULT Nodes=n[01-10,12] DefaultTime=30 MaxTime=60\nPartitionName=low preemptmode=requeue\n"
        "PartitionName=DEFAULT DefaultTime=NONE OverSubscribe=FORCE:1\n"
        "PartitionName=high Nodes=ALL PriorityTier=2 State=DOWN\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_CPU\n"
    )
    found = read_conf(path)
    cluster, lost = found.cluster, found.losses
    low, high = cluster.partitions
    assert (low.nodes[-2:], low.mode, low.limit_ns) == (("n10", "n12"), Mode.REQUEUE, 30 * MINUTE_NS)
    assert (len(high.nodes), high.mode, high.limit_ns) == (12, Mode.SUSPEND, 60 * MINUTE_NS)
    settings = cluster.settings
    assert (settings.preempts, settings.gang, settings.exempt_ns) == (True, True, 10 * MINUTE_NS)
    assert (settings.youngest_first, settings.reorder_count) == (True, 3)
    assert (settings.bf_window_ns, settings.bf_resolution_ns) == (4320 * MINUTE_NS, 300 * SECOND_NS)
    assert {what for _, what in by_effect(lost)[0]} == {
        *("State=DRAIN", "State=DOWN"),
    }


@pytest.mark.parametrize(
    ("default", "given", "cpus"),
    [
        ("Sockets=2 CoresPerSocket=16 ThreadsPerCore=2", "CoresPerSocket=8", 32),
        ("CPUs=64", "Sockets=2 CoresPerSocket=8", 16),
        ("CPUs=64", "CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", 16),
        ("CPUs=64", "Boards=2 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2", 32),
        ("CoresPerSocket=4", "CPUs=6", 4),
        ("Procs=8", "CPUs=2 Sockets=2 CoresPerSocket=4", 2),
    ],
)
def test_cpus_as_slurm_infers_them(tmp_path: Path, default: str, given: str, cpus: int) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(f"NodeName=DEFAULT {default}\nNodeName=a {given}\nPartitionName=p\n")
    assert read_conf(path).cluster.nodes == {"a": Node(cpus)}


def test_included_lines_are_in_their_places(conf: Path) -> None:
    (conf.parent / "nodes.conf").write_text("NodeName=n[1-2] CPUs=4\n")
    conf.write_text(CONF.replace("NodeName=n[1-2] CPUs=4", "Include nodes.conf"))
    assert read_conf(conf).cluster.nodes == {"n1": Node(4), "n2": Node(4)}
    (conf.parent / "nodes.conf").write_text("Include nodes.conf\n")
    with pytest.raises(ConfigError, match=r"nodes\.conf:1: Include: more than 10 files deep"):
        read_conf(conf)
    for number in range(5):
        (conf.parent / f"f{number}.conf").write_text(f"Include f{number + 1}.conf\n" * 30)
    (conf.parent / "f5.conf").write_text("")
    with pytest.raises(ConfigError, match="Include: more than 1,000 files"):
        read_conf(conf.parent / "f0.conf")


def test_what_is_no_file_is_not_read(conf: Path) -> None:
    os.mkfifo(conf.parent / "pipe")
    for name in ("/dev/zero", "pipe"):
        conf.write_text(f"Include {name}\n")
        with pytest.raises(ConfigError, match=f"{name}: is not a regular file"):
            read_conf(conf)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CPUs=4", "CPUs=four", ":5: CPUs: 'four' is not a whole number"),
        ("CPUs=4", "CPUs=4 ThreadsPerCore=0", ":5: ThreadsPerCore: must be at least 1, not 0"),
        ("NodeName=n[1-2]", "NodeName=n[1-", ":5: NodeName: "),
        ("NodeName=n[1-2]", "NodeName=n[1-99999999]", ":5: NodeName: has more than 100,000 nodes"),
        ("NodeName=n[1-2]", "NodeName=n[0-99]r[0-99]c[0-99]", ":5: NodeName: has more than 100,000 nodes"),
        ("NodeName=n[1-2]", "NodeName=" + "n[1-99999]," * 2 + "x", ":5: NodeName: has more than 100,000 nodes"),
        ("low Nodes=ALL", "low Nodes=n7", ":6: Nodes: there is no NodeName 'n7'"),
        ("PreemptMode=OFF", "PreemptMode=STOP", ":7: PreemptMode: 'STOP' is none of OFF, CANCEL, REQUEUE, SUSPEND"),
        ("PreemptType=preempt/partition_prio", "Preempt", ":3: 'Preempt' is not Key=Value"),
        ("PreemptMode=REQUEUE\n", 'PreemptMode="REQUEUE\n', ":4: "),
        ("NodeName=", "SchedulerTimeSlice=0\nNodeName=", ":5: SchedulerTimeSlice: must be at least 5, not 0"),
        ("NodeName=", "SchedulerParameters=bf_interval=0\nNodeName=", ":5: bf_interval: must be at least 1, not 0"),
        ("PriorityTier=10", "GraceTime=1:2:3:4", ":7: GraceTime: '1:2:3:4' is not a time"),
        ("PriorityTier=10", "MaxTime=soon", ":7: MaxTime: 'soon' is not a time"),
        ("PriorityTier=10", "MaxTime=soon DefaultTime=now", ":7: DefaultTime: 'now' is not a time"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(conf: Path, old: str, new: str, message: str) -> None:
    conf.write_text(changed(CONF, old, new))
    assert refused(read_conf, conf).startswith(f"{conf}{message}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("10:00", 600), ("1:00:00", 3600), ("2-12", 216000), ("1-0:30", 88200), ("UNLIMITED", None)],
)
def test_times(text: str, seconds: int | None) -> None:
    found = time_ns(Where(Path("f"), 1), "k", text, SECOND_NS)
    assert found == (None if seconds is None else seconds * SECOND_NS)


def test_jobs_of_sacct(conf: Path, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    found = read_sacct(path, read_conf(conf))
    assert found.jobs == (
        Job("11", "low", 2, 4, 3600 * SECOND_NS, 0, 60 * MINUTE_NS),
        Job("12", "high", 1, 3, 600 * SECOND_NS, 300 * SECOND_NS, None),
        Job("16", "low", 1, 1, 7 * SECOND_NS, 540 * SECOND_NS, FOREVER_NS),
    )
    assert [(each.what, each.why, each.work) for each in found.losses] == [
        ("job 13", "how long it works is not known: it is PENDING", 0),
        ("job 14", "there is no partition 'gone' in slurm.conf", 5),
        ("job 15", "it has more nodes, or more of a resource on each, than its partition", 5 * 64),
    ]
    assert (found.total, found.work_s) == (6, 3600 * 8 + 600 * 3 + 5 + 5 * 64 + 7)


QOS = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|
normal|0|00:00:00|||cluster||
urgent|100|00:00:00|normal,scavenger||cluster||
scavenger|0|00:00:30||10|cancel||
"""


def test_what_stands_beside_a_mode_and_is_not_looked_at_is_said(conf: Path, tmp_path: Path) -> None:
    text = PREEMPTING.replace("partition_prio", "qos").replace("SUSPEND,GANG", "PRIORITY,REQUEUE")
    conf.write_text(text.replace("PreemptMode=OFF", "PreemptMode=CANCEL,PRIORITY"))
    table = tmp_path / "qos.txt"
    table.write_text("Name|Preempt|PreemptMode\nlow||within,cancel\nhigh|low|\n")
    found = read_conf(conf, table)
    cluster, lost = found.cluster, found.losses
    assert [(each.name, each.mode) for each in cluster.qos] == [("low", Mode.CANCEL), ("high", Mode.REQUEUE)]
    assert [each.mode for each in cluster.partitions] == [Mode.REQUEUE, Mode.CANCEL, Mode.REQUEUE]
    beside = [each.what for each in lost if each.what.startswith("PreemptMode=")]
    assert beside == [
        *("PreemptMode=PRIORITY,REQUEUE", "PreemptMode=CANCEL,PRIORITY", "PreemptMode=within,cancel of QOS low"),
    ]
    table.write_text("Name|Preempt|PreemptMode\nlow||cancel,requeue\n")
    with pytest.raises(ConfigError, match=r"qos\.txt:2: PreemptMode: 'cancel,requeue' is none of"):
        read_conf(conf, table)


def test_qos_say_who_preempts_whom(conf: Path, tmp_path: Path) -> None:
    def preempting(text: str) -> str:
        return CONF.replace("preempt/partition_prio", "preempt/qos") + text

    table, sacct, out = tmp_path / "qos.txt", tmp_path / "jobs.txt", tmp_path / "mine.yaml"
    table.write_text(QOS)
    conf.write_text(preempting("PreemptExemptTime=5\n"))
    found = read_conf(conf, table)
    cluster, lost = found.cluster, found.losses
    assert cluster.settings.preempts
    assert cluster.qos == (
        Qos("normal", (), Mode.REQUEUE, 0, 5 * MINUTE_NS),
        Qos("urgent", ("normal", "scavenger"), Mode.REQUEUE, 0, 5 * MINUTE_NS, 100),
        Qos("scavenger", (), Mode.CANCEL, 30 * SECOND_NS, 10 * MINUTE_NS),
    )
    assert not by_effect(lost)[0]
    found = read_conf(conf)
    cluster, lost = found.cluster, found.losses
    assert (cluster.settings.preempts, lost[0].why) == (
        False,
        "nobody is preempted: give the table of QOS with --qos",
    )
    table.write_text(QOS.replace("normal,scavenger", "normal,other"))
    with pytest.raises(ConfigError, match=r"qos\.txt:3: Preempt: there is no QOS 'other'"):
        read_conf(conf, table)
    table.write_text(QOS.replace("00:00:30||", "00:00:30|urgent|"))
    with pytest.raises(ConfigError, match="QOS preempt each other"):
        read_conf(conf, table)
    table.write_text(QOS)
    lines = SACCT.splitlines()
    qos = {"11": "normal", "12": "urgent", "16": "gone"}
    sacct.write_text("\n".join([f"{lines[0]}|QOS", *(f"{line}|{qos.get(line[:2], 'normal')}" for line in lines[1:])]))
    conf.write_text(preempting(""))
    files = ("--conf", str(conf), "--sacct", str(sacct), "--qos", str(table), "--out", str(out))
    done = run_natjam("import", "slurm", *files)
    assert "there is no QOS 'gone' in the table of QOS" in done.output
    run_natjam("play", out, "--mode", "normal=OFF", "--out", tmp_path / "stays.csv")
    ends = [row.split(",")[:2] + row.split(",")[4:5] for row in (tmp_path / "stays.csv").read_text().splitlines()]
    assert ["as configured", "11", "requeued"] in ends
    assert ["normal=OFF", "11", "requeued"] not in ends


def test_import_and_play(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)
    out, stays = tmp_path / "mine.yaml", tmp_path / "stays.csv"
    arguments = ["import", "slurm", "--conf", str(conf), "--sacct", str(tmp_path / "jobs.txt"), "--out", str(out)]
    done = run_natjam(*arguments)
    assert "2 nodes, 2 partitions, 3 jobs" in done.output
    assert "1 of 6 jobs (1.0% of the work): it has more nodes" in done.output
    site = read_saved(out, Slurm)
    assert site.cluster.partitions[1] == Partition("high", ("n1", "n2"), 10)
    run_natjam("play", out, "--mode", "low=suspend", "--out", stays)
    rows = stays.read_text().splitlines()
    assert rows[0] == "variant,job,start_s,end_s,end,nodes,stopped_s,preempted_by"
    assert rows[1].startswith("as configured,11,0.0,300.0,requeued,n1 n2,0.0,12")
    [suspended] = [row for row in rows if row.startswith("low=SUSPEND,11,")]
    assert suspended == "low=SUSPEND,11,0.0,4200.0,done,n1 n2,600.0,"
    refused = run_natjam("play", out, "--mode", "medium=CANCEL", status=2)
    assert "there is no partition 'medium' (low, high)" in refused.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("22.05", "21", "slurm: another natjam has imported it; import it again: natjam import slurm --conf"),
        ("partition: high", "partition: other", "slurm.jobs: 12: there is no partition 'other'"),
        ("cpus: 3", "cpus: 0", "slurm.jobs[1].cpus: Expected `int` >= 1"),
        ("cpus: 3", "cpus: many", "slurm.jobs[1].cpus: "),
        ("settings:\n", "settings:\n      bf_interval_ns: 0\n", "settings.bf_interval_ns: Expected `int` >= 1"),
    ],
)
def test_a_saved_site_with_an_error(conf: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT)
    out = tmp_path / "mine.yaml"
    arguments = ["import", "slurm", "--conf", str(conf), "--sacct", str(tmp_path / "jobs.txt"), "--out", str(out)]
    run_natjam(*arguments)
    out.write_text(changed(out.read_text(), old, new))
    assert message in refused(read_saved, out, Slurm)


def test_advice_for_a_site(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(SACCT.replace("12|high|2026-11-24T10:05", "12|high|2026-11-24T10:40"))
    site, out = tmp_path / "site.yaml", tmp_path / "advice"
    imported = ["import", "slurm", "--conf", str(conf), "--sacct", str(tmp_path / "jobs.txt"), "--out", str(site)]
    run_natjam(*imported)
    said = run_natjam("advise", site, "--out", out)
    assert "urgent: the jobs of high (the highest PriorityTier)" in said.output
    facts = json.loads((out / "advise.json").read_text())
    by_way = {(each["mode"], each["exempt"], each["grace"], each["saves"]): each for each in facts["ways"]}
    assert len(by_way) == len(facts["ways"])
    waits, requeued = by_way["OFF", "0", "0", "-"], by_way["REQUEUE", "0", "0", "-"]
    assert waits["lost_node_h"] == by_way["REQUEUE", "24 h", "0", "-"]["lost_node_h"] == 0
    assert requeued["urgent_wait_s"] < waits["urgent_wait_s"]
    assert requeued["lost_node_h"] > by_way["REQUEUE, saved", "0", "0", "every 15 min"]["lost_node_h"]
    assert requeued["lost_node_h"] > by_way["image, SSD", "0", "0", "when told"]["lost_node_h"] > 0
    assert by_way["checkpoint", "0", "0", "when told"]["lost_node_h"] == 0
    assert (out / "advise.png").stat().st_size > 10_000


def test_advice_where_qos_decide() -> None:
    low, high = Qos("normal", mode=Mode.CANCEL), Qos("urgent", ("normal",))
    cluster = Cluster(
        {"n0": Node(8)}, (Partition("all", ("n0",)),), Settings(preempts=True, cred_expire_ns=0), (low, high)
    )
    jobs = [
        Job("a", "all", 1, 8, 600 * SECOND_NS, qos="normal"),
        Job("b", "all", 1, 8, 60 * SECOND_NS, 200 * SECOND_NS, qos="urgent"),
    ]
    question = slurm_question(Path("site.yaml"), Slurm(cluster, tuple(jobs)))
    assert question.first == {"OFF-0-0", "SUSPEND-0-0", "REQUEUE-0-0", "CANCEL-0-0"}
    found, _ = question.results(played(question))
    by_way = {tuple(each.text(key) for key in ("mode", "exempt", "grace")): each for each in found}
    lost_s = {way: 3600 * (each.value("lost_node_h") or 0) for way, each in by_way.items()}
    waits_s = {way: each.value("urgent_wait_s") for way, each in by_way.items()}
    assert lost_s["REQUEUE", "0", "0"] == pytest.approx(200, abs=5)
    assert lost_s["CANCEL", "5 min", "0"] == pytest.approx(300, abs=5)
    assert (waits_s["OFF", "0", "0"], waits_s["CANCEL", "5 min", "0"]) == (400, pytest.approx(100, abs=5))
    assert waits_s["CANCEL", "0", "0"] == pytest.approx(0, abs=5)


def test_advice_wants_urgent_jobs_and_others(conf: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("\n".join(line for line in SACCT.splitlines() if "|high|" not in line) + "\n")
    site = tmp_path / "site.yaml"
    imported = ["import", "slurm", "--conf", str(conf), "--sacct", str(tmp_path / "jobs.txt"), "--out", str(site)]
    run_natjam(*imported)
    said = run_natjam("advise", site, "--out", tmp_path / "advice", status=2)
    assert "site.yaml: slurm.jobs: there are no urgent jobs" in said.output


# ---- what decides, is left out, or is refused ----

SITE = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n1 CPUs=8
PartitionName=low Nodes=ALL PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""
TWO_JOBS = """\
JobIDRaw|Partition|Submit|ElapsedRaw|State|NNodes|NCPUS|TimelimitRaw
1|low|2026-11-02T10:00:00|600|COMPLETED|1|8|60
2|high|2026-11-02T10:01:00|120|COMPLETED|1|8|60
"""


def site_of(folder: Path, conf: str, jobs: str = "", qos: str = "") -> tuple[Slurm, tuple[Loss, ...]]:
    """The site of these files, as ``natjam import slurm`` reads them."""
    (folder / "site.conf").write_text(conf)
    paths: dict[str, Path | None] = {"sacct": None, "qos": None}
    for name, text in (("sacct", jobs), ("qos", qos)):
        if text:
            paths[name] = folder / f"{name}.txt"
            (folder / f"{name}.txt").write_text(text)
    return read_slurm(folder / "site.conf", paths["sacct"], paths["qos"])


def starts_s(site: Slurm) -> dict[str, list[float]]:
    """When each job starts, in a play."""
    finished = jobs_player(site.cluster, site.jobs).finish()
    return {name: [each.start_ns / SECOND_NS for each in executions] for name, executions in finished.items()}


def test_the_clusters_name_is_in_names_of_included_files_and_they_are_beside_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/linux_nodes.conf").write_text("Include parts/more.conf\n")
    (tmp_path / "parts/more.conf").write_text("NodeName=n[1-2] CPUs=8\n")
    conf = tmp_path / "slurm.conf"
    for text in ("ClusterName=linux\n{}", "{}ClusterName=linux\n"):
        conf.write_text(text.format("include parts/%c_nodes.conf\nPartitionName=p Nodes=ALL\n"))
        assert read_conf(conf).cluster.nodes == {"n1": Node(8), "n2": Node(8)}
    conf.write_text("include parts/%c_nodes.conf\n")
    with pytest.raises(ConfigError, match=r"slurm\.conf:1: Include: .* there is no ClusterName"):
        read_conf(conf)


def test_a_partition_that_shares_nothing_is_not_suspended(tmp_path: Path) -> None:
    suspending = SITE.replace("REQUEUE", "SUSPEND,GANG")
    forced = suspending.replace("Nodes=ALL", "Nodes=ALL OverSubscribe=FORCE:1")
    refused = suspending.replace("Nodes=ALL", "Nodes=ALL OverSubscribe=NO")
    assert starts_s(site_of(tmp_path, forced, TWO_JOBS)[0]) == {"1": [0], "2": [60]}
    for text in (refused, suspending):
        site, losses = site_of(tmp_path, text, TWO_JOBS)
        assert starts_s(site) == {"1": [0], "2": [600]}
        assert not by_effect(losses)[0]
    site, losses = site_of(tmp_path, forced.replace("FORCE:1 PriorityTier=10", "NO PriorityTier=10"), TWO_JOBS)
    assert [each.what for each in losses if each.effect is Effect.DECIDES] == ["OverSubscribe=NO of partition high"]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("PreemptMode=SUSPEND", ":4: PreemptMode: SUSPEND without GANG, and Slurm does not start"),
        ("PreemptMode=OFF", ":3: PreemptType: preempt/partition_prio with PreemptMode=OFF"),
        ("KillWait=30", ":3: PreemptType: preempt/partition_prio with no PreemptMode"),
    ],
)
def test_what_slurm_refuses_is_refused(tmp_path: Path, mode: str, message: str) -> None:
    said = refused(site_of, tmp_path, changed(SITE, "PreemptMode=REQUEUE", mode))
    assert f"site.conf{message}" in said
    assert "(slurm.conf(5))" in said
    without = SITE.replace("preempt/partition_prio", "preempt/none").replace("PreemptMode=REQUEUE", "KillWait=30", 1)
    assert not site_of(tmp_path, without)[0].cluster.settings.preempts


def test_suspend_in_a_partition_without_gang_is_said(tmp_path: Path) -> None:
    conf = SITE.replace("PriorityTier=1\n", "PriorityTier=1 PreemptMode=SUSPEND OverSubscribe=FORCE:1\n")
    _, losses = site_of(tmp_path, conf)
    assert [each.what for each in losses if each.effect is Effect.DECIDES] == ["PreemptMode=SUSPEND of partition low"]


QOS_OF_TWO = "Name|Priority|GraceTime|Preempt|PreemptMode|PreemptExemptTime\nlow|1|||cluster|\nhigh|10||low|cluster|\n"
JOBS_OF_TWO = TWO_JOBS.replace("Raw\n", "Raw|QOS\n").replace("|60\n", "|60|low\n", 1).replace("|60\n", "|60|high\n")


def test_turns_of_qos_in_one_partition_are_said_to_be_missing(tmp_path: Path) -> None:
    conf = SITE.replace("partition_prio", "qos").replace("REQUEUE", "SUSPEND,GANG")
    conf = conf.replace("=ALL", "=ALL OverSubscribe=FORCE:1")
    one = JOBS_OF_TWO.replace("|high|", "|low|")
    site, losses = site_of(tmp_path, conf, one, QOS_OF_TWO)
    [turns] = [each for each in losses if each.effect is Effect.DECIDES]
    assert turns.what == "QOS high of job 2"
    assert "take turns" in turns.why
    assert str(site.basis.decides[0]).startswith("1 of 2 jobs: jobs of one partition take turns")
    _, losses = site_of(tmp_path, conf, JOBS_OF_TWO, QOS_OF_TWO)
    assert not by_effect(losses)[0], "in two partitions one is suspended, as in Slurm"
    requeued, losses = site_of(tmp_path, conf.replace("SUSPEND,GANG", "REQUEUE"), one, QOS_OF_TWO)
    assert not by_effect(losses)[0]
    write_saved(tmp_path / "mine.yaml", requeued, ())
    said = run_natjam("play", tmp_path / "mine.yaml", "--mode", "low=SUSPEND").output
    assert "low=SUSPEND: 1 of 2 jobs: jobs of one partition take turns" in said
    heads = slurm_question(Path("site.yaml"), requeued).heads
    assert heads[1].startswith("SUSPEND: 1 of 2 jobs: jobs of one partition take turns")


ASSOCIATIONS = """\
Cluster|Account|User|ParentName|Share|GrpTRES|GrpJobs|MaxTRES|MaxJobs|MaxWall|Partition
c|root|||1||||||
c|a||root|40|cpu=512,mem=1T,gres/gpu=8||||7-00:00:00|
c|a|u||parent||3|node=2|5||
d|a|w|b|1||||||
c|a|u||1|||||| gpu
"""


def test_a_play_can_begin_with_the_jobs_that_ran_at_a_time(tmp_path: Path) -> None:
    """At 12:00 job 1 had ended, 2 ran, 3 waited and 9 and 10 came later, in one second."""
    head = "JobIDRaw|Partition|Submit|Start|ElapsedRaw|State|NNodes|NCPUS|TimelimitRaw\n"
    jobs = (
        "1|low|2026-11-02T08:00:00|2026-11-02T08:00:00|3600|COMPLETED|1|8|60\n"
        "3|low|2026-11-02T09:05:00|2026-11-02T13:00:00|60|COMPLETED|1|8|60\n"
        "2|low|2026-11-02T09:00:00|2026-11-02T09:00:00|14400|COMPLETED|1|8|300\n"
        "10|low|2026-11-02T12:30:00|2026-11-02T13:30:00|60|COMPLETED|1|8|60\n"
        "9|low|2026-11-02T12:30:00|2026-11-02T13:20:00|60|COMPLETED|1|8|60\n"
        "11|low|2026-11-02T11:00:00|2026-11-02T11:00:00|3600|RUNNING|1|8|180\n"
    )
    (tmp_path / "slurm.conf").write_text(SITE)
    (tmp_path / "jobs.txt").write_text(head + jobs)
    noon = datetime(2026, 11, 2, 12)
    site, _ = read_slurm(tmp_path / "slurm.conf", tmp_path / "jobs.txt", since=noon)
    hour_ns = 60 * MINUTE_NS
    assert [(job.name, job.submit_ns, job.length_ns, job.limit_ns) for job in site.jobs] == [
        ("2", 0, hour_ns, 2 * hour_ns),
        ("11", 0, 2 * hour_ns, 2 * hour_ns),
        ("3", 0, 60 * SECOND_NS, hour_ns),
        ("9", hour_ns // 2, 60 * SECOND_NS, hour_ns),
        ("10", hour_ns // 2, 60 * SECOND_NS, hour_ns),
    ]
    files = ["--conf", tmp_path / "slurm.conf", "--sacct", tmp_path / "jobs.txt", "--out", tmp_path / "mine.yaml"]
    run_natjam("import", "slurm", *files, "--from", "2026-11-02T12:00:00")
    assert read_saved(tmp_path / "mine.yaml", Slurm).jobs == site.jobs
    (tmp_path / "jobs.txt").write_text(TWO_JOBS)
    with pytest.raises(ConfigError, match="there is no column Start"):
        read_slurm(tmp_path / "slurm.conf", tmp_path / "jobs.txt", since=noon)


def test_associations_and_limits_as_sacctmgr_prints_them(tmp_path: Path) -> None:
    (tmp_path / "assoc.txt").write_text(ASSOCIATIONS.replace("| gpu", "|gpu"))
    (tmp_path / "qos.txt").write_text(
        "Name|Priority|UsageFactor|GrpTRES|MaxWall|MaxTRESPU|MaxJobsPU|MaxTRESPA|Flags\n"
        "q|10|2.000000|cpu=24|1-00:00:00|gres/gpu=4|2|node=3|DenyOnLimit\n"
    )
    lines = "AccountingStorageEnforce=limits\nAccountingStorageType=accounting_storage/slurmdbd\n"
    lines += "PriorityWeightFairshare=1000\nPriorityWeightTRES=cpu=100,GRES/gpu=200\nPriorityWeightAge=5\n"
    of_partition = "=ALL QOS=q PriorityJobFactor=7 MaxNodes=3 MaxTime=60 TRESBillingWeights=CPU=1,Mem=0.5G"
    (tmp_path / "site.conf").write_text(f"ClusterName=C\n{lines}{SITE.replace('=ALL', of_partition, 1)}")
    found = read_conf(tmp_path / "site.conf", tmp_path / "qos.txt", tmp_path / "assoc.txt")
    root, account, user = found.cluster.associations
    assert (root.account, account.shares, user.shares, user.user) == ("root", 40, None, "u")
    assert account.limits == Limits({"cpu": 512, "mem": 1 << 20, "gpu": 8}, wall_ns=7 * 24 * 60 * MINUTE_NS)
    assert user.limits == Limits(group_jobs=3, job_tres={"node": 2}, user_jobs=5)
    low = found.cluster.partitions[0]
    assert (low.qos, low.job_factor, low.max_nodes, low.max_ns) == ("q", 7, 3, 60 * MINUTE_NS)
    assert low.billing == {"cpu": 1.0, "mem": 0.5 / 1024}
    [qos] = found.cluster.qos
    expected = Limits({"cpu": 24}, None, {"gpu": 4}, 2, {"node": 3}, wall_ns=24 * 60 * MINUTE_NS)
    assert (qos.limits, qos.usage_factor, found.cluster.by_qos) == (expected, 2.0, False)
    settings = found.cluster.settings
    assert settings.enforces_limits
    assert settings.weights == Weights(age=5, fair_share=1000, tres={"cpu": 100.0, "gpu": 200.0})
    assert [each.what for each in found.losses if each.effect is Effect.DECIDES] == ["Partition=gpu of association u"]


def test_accounts_without_their_parents_are_said_where_there_are_shares_or_limits(tmp_path: Path) -> None:
    (tmp_path / "assoc.txt").write_text("Account|User|Share\nroot||1\nbio||60\nbio|ana|1\n")
    of_all = f"ClusterName=C\nAccountingStorageType=accounting_storage/slurmdbd\n{SITE}"
    for lines, said in (("", 0), ("AccountingStorageEnforce=limits\n", 1)):
        (tmp_path / "site.conf").write_text(lines + of_all)
        found = read_conf(tmp_path / "site.conf", None, tmp_path / "assoc.txt")
        assert [each.what for each in found.losses].count("no column ParentName") == said


def test_what_decides_in_associations_and_is_not_modelled_is_said(tmp_path: Path) -> None:
    (tmp_path / "assoc.txt").write_text(
        "Account|User|Par Name|Share|GrpWall|GrpTRESMins|MaxJobsAccrue|MaxSubmit|Def QOS\n"
        "root|||1|||||\n"
        "bio||root|60|7-00:00:00|cpu=100||10|normal\n"
        "bio|ana||1|||4||\n"
    )
    lines = "AccountingStorageEnforce=limits\nAccountingStorageType=accounting_storage/slurmdbd\nClusterName=C\n"
    (tmp_path / "site.conf").write_text(lines + SITE)
    found = read_conf(tmp_path / "site.conf", None, tmp_path / "assoc.txt")
    assert [each.parent for each in found.cluster.associations] == ["", "root", ""]
    assert [each.what for each in found.losses if "of association" in each.what and each.effect is Effect.DECIDES] == [
        "GrpWall=7-00:00:00 of association bio",
        "GrpTRESMins=cpu=100 of association bio",
        "MaxJobsAccrue=4 of association ana",
    ]


def test_priorities_are_as_they_were_where_shares_are_not_given(tmp_path: Path) -> None:
    lines = "PriorityWeightFairshare=1000\nPriorityWeightAge=1000\n"
    jobs = TWO_JOBS.replace("Raw\n", "Raw|Priority\n").replace("|60\n", "|60|7\n", 1) + "|9"
    site, losses = site_of(tmp_path, lines + SITE, jobs.replace("|60\n|9", "|60|9\n"))
    assert [each.priority for each in site.jobs] == [7, 9]
    assert [each.what for each in losses if each.effect is Effect.DECIDES] == ["no associations"]
    assert site.cluster.settings.weights is not None
    assert site.cluster.settings.weights.age == 0, "without slurmdbd it does not count"


def test_priorities_of_associations_are_read_where_they_weigh(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text(f"PriorityWeightAssoc=1000\n{SITE}")
    (tmp_path / "assoc.txt").write_text("Account|User|Share|Priority\nroot||1|\na||2|7\na|u|3|40\n")
    (tmp_path / "sacct.txt").write_text(TWO_JOBS)
    found = read_conf(tmp_path / "site.conf", associations=tmp_path / "assoc.txt")
    assert [each.priority for each in found.cluster.associations] == [0, 7, 40]
    assert found.cluster.settings.weights == Weights(assoc=1000)
    for table, said in ((tmp_path / "assoc.txt", []), (None, ["no associations"])):
        _, losses = read_slurm(tmp_path / "site.conf", tmp_path / "sacct.txt", associations=table)
        assert [each.what for each in losses if each.effect is Effect.DECIDES] == said


def test_what_fair_share_does_not_know_is_said(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text(f"PriorityWeightFairshare=1000\n{SITE}")
    (tmp_path / "sacct.txt").write_text(TWO_JOBS)
    said = {}
    for share in ("parent", "3"):
        (tmp_path / "assoc.txt").write_text(f"Account|User|ParentName|Share\nroot|||1\na||root|2\na|u||{share}\n")
        _, losses = read_slurm(tmp_path / "site.conf", tmp_path / "sacct.txt", associations=tmp_path / "assoc.txt")
        said[share] = [each.what for each in losses if each.effect is Effect.DECIDES]
    assert said == {"parent": ["usage", "Share=parent"], "3": ["usage"]}


def test_of_a_site_with_many_jobs_the_busiest_day_is_played_first() -> None:
    """Its figures are shown until the whole can be compared."""
    cluster = Cluster({"n": Node(8)}, (Partition("low", ("n",)), Partition("high", ("n",), 10)), Settings())
    day_ns, names = 24 * 60 * MINUTE_NS, ["low", "high"] * 1001
    jobs = [Job(f"j{n}", name, 1, 4, SECOND_NS, n * 100 * SECOND_NS, MINUTE_NS) for n, name in enumerate(names)]
    jobs.append(Job("long", "low", 1, 8, 600 * SECOND_NS, day_ns + SECOND_NS))
    question = slurm_question(Path("site.yaml"), Slurm(cluster, tuple(jobs)))
    day = busiest_day(jobs)
    assert ("long" in {job.name for job in day}, len(day), min(job.submit_ns for job in day)) == (True, 865, 0)
    plays = {candidate.name: play for candidate, play in question.candidates}
    early = {(name, PREVIEW): plays[name](PREVIEW) for name in question.first}
    assert question.results(dict([*early.items()][:-1])) == ([], 0)
    found, days = question.results(early)
    assert (len(found), days, question.plays) == (
        len(question.first),
        0,
        len(question.candidates) + len(question.first),
    )
    assert "This is of the busiest day only" in "\n".join(question.text(found, days))


def test_what_stopped_jobs_keep_is_counted_for_suspend() -> None:
    """Two GB and two GPUs are kept for a minute on a node."""
    nodes = {"n": Node(8, 8000, {"gpu": 4})}
    cluster = Cluster(nodes, (Partition("low", ("n",)), Partition("high", ("n",), 10)), Settings())
    low = Job("low", "low", 1, 8, 600 * SECOND_NS, memory_mb=2048, gres={"gpu": 2})
    question = slurm_question(
        Path("site.yaml"), Slurm(cluster, (low, Job("high", "high", 1, 8, 60 * SECOND_NS, MINUTE_NS)))
    )
    suspend = next(play for candidate, play in question.candidates if candidate.mechanism == "SUSPEND")
    measures = suspend(0)
    assert measures is not None
    assert measures["stopped_gb_h"] == measures["stopped_gres_h"] == pytest.approx(2 / 60)
    found, _ = question.results(played(question))
    said = "\n".join(question.words(found))
    assert "Jobs that are suspended keep 0 GB-hours of memory and 0 hours of GPUs" in said
    assert "; 0 of 1 urgent jobs waited for memory or GRES." in said


def test_it_says_how_many_urgent_jobs_waited_for_memory_or_gpus_that_others_keep() -> None:
    nodes = {"n": Node(8, 8000, {"gpu": 4})}
    cluster = Cluster(nodes, (Partition("low", ("n",)), Partition("high", ("n",), 10)), Settings())
    low = Job("low", "low", 1, 8, 600 * SECOND_NS, gres={"gpu": 3})
    gpus, cpus = (
        Job(name, "high", 1, 4, 60 * SECOND_NS, MINUTE_NS, gres=gres) for name, gres in (("a", {"gpu": 2}), ("b", {}))
    )
    site = Slurm(cluster, (low, gpus, cpus))
    question = slurm_question(Path("site.yaml"), site)
    suspend = next(play for candidate, play in question.candidates if candidate.mechanism == "SUSPEND")
    measures = suspend(0)
    assert measures is not None
    assert (measures["lacked_jobs"], measures["urgent_jobs"], measures["preempted"]) == (1, 2, 1)
    assert measures["lacked_s"] == pytest.approx(600, abs=60)
    found, _ = question.results(played(question))
    assert re.search(
        r"1 of 2 urgent jobs waited for memory or GRES, each [56]\d\d s on average", "\n".join(question.words(found))
    )


def test_jobs_that_share_no_node_have_it_whole(tmp_path: Path) -> None:
    jobs = TWO_JOBS.replace("|1|8|60", "|1|2|60").replace("|high|", "|low|")
    for conf, starts in ((SITE, [0, 60]), (SITE.replace("=ALL", "=ALL OverSubscribe=EXCLUSIVE"), [0, 600])):
        site, losses = site_of(tmp_path, conf, jobs)
        assert [start for start, *_ in starts_s(site).values()] == starts
        assert not by_effect(losses)[0]
    site, losses = site_of(tmp_path, SITE.replace("cons_tres", "linear"), jobs)
    assert [start for start, *_ in starts_s(site).values()] == [0, 600]


def test_a_suspended_job_keeps_memory_and_gpus_and_who_needs_them_waits(tmp_path: Path) -> None:
    """As in the recorded ``memory-suspend`` and ``gres-suspend`` runs; ``two`` needs less, and is put over it."""
    conf = SITE.replace("REQUEUE", "SUSPEND,GANG").replace("=ALL", "=ALL OverSubscribe=FORCE:1")
    conf = conf.replace("CR_CPU", "CR_CPU_Memory").replace("CPUs=8", "CPUs=8 RealMemory=8000 Gres=gpu:2")
    head, first, second = TWO_JOBS.splitlines()
    for held, asked, start in (("mem=6000M", "mem=2000M", 60), ("mem=6000M", "mem=2001M", 600)):
        table = "\n".join((head + "|AllocTRES", f"{first}|cpu=8,{held}", f"{second}|cpu=8,{asked}"))
        site, _ = site_of(tmp_path, conf, table)
        assert starts_s(site)["2"] == [start], asked
    gpus = "\n".join((head + "|AllocTRES", f"{first}|mem=1G,gres/gpu=1", f"{second}|mem=1G,gres/gpu=2"))
    assert starts_s(site_of(tmp_path, conf, gpus)[0])["2"] == [600]
    requeued = conf.replace("SUSPEND,GANG", "REQUEUE")
    assert starts_s(site_of(tmp_path, requeued, gpus)[0])["2"] == [60]


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        ("new", ["n2"]),
        ("amd|new", ["n1", "n2"]),
        ("new&intel", ["n2"]),
        ("[old|(new&amd)]", ["n1"]),
        ("new*1", ["n2"]),
        ("gone", []),
        ("", ["n1", "n2"]),
    ],
)
def test_features_as_sbatch_takes_them(wanted: str, nodes: list[str]) -> None:
    has = {"n1": Node(features=("amd", "old")), "n2": Node(features=("intel", "new"))}
    assert [name for name, node in has.items() if has_features(node, wanted)] == nodes


def test_a_job_gets_a_node_with_the_features_that_it_asks_for(tmp_path: Path) -> None:
    conf = SITE.replace("=n1 CPUs=8", "=n1 CPUs=8 Feature=old\nNodeName=n2 CPUs=8 Feature=new")
    head, first, _ = TWO_JOBS.splitlines()
    site, _ = site_of(tmp_path, conf, f"{head}|Constraints\n{first}|new\n")
    assert jobs_player(site.cluster, site.jobs).finish()["1"][0].nodes == ("n2",)


def test_a_qos_orders_the_queue_by_its_weight_only(tmp_path: Path) -> None:
    conf = SITE.replace("partition_prio", "qos")
    jobs = JOBS_OF_TWO + "3|low|2026-11-02T10:02:00|60|COMPLETED|1|8|60|vip\n"
    jobs = jobs.replace("|high\n", "|low\n").replace("|high|", "|low|")
    qos = QOS_OF_TWO.replace("high|10||low", "vip|1000||")
    found = {}
    for text in ("PriorityType=priority/basic", "PriorityType=priority/multifactor\nPriorityWeightQOS=10"):
        site, losses = site_of(tmp_path, f"{text}\n{conf}", jobs, qos)
        found[text.partition("/")[2][:5]] = [start for start, *_ in starts_s(site).values()], len(by_effect(losses)[0])
    assert found == {"basic": ([0, 600, 720], 0), "multi": ([0, 660, 600], 0)}


def test_the_youngest_goes_first_whatever_its_tier(tmp_path: Path) -> None:
    conf = SITE.replace("NodeName=n1", "PreemptParameters=youngest_first\nNodeName=n[1-2]")
    conf += "PartitionName=mid Nodes=ALL PriorityTier=5\n"
    jobs = TWO_JOBS.replace("|600|", "|6000|") + "3|mid|2026-11-02T10:00:30|6000|COMPLETED|1|8|60\n"
    for text, victim in ((conf, "3"), (conf.replace("PreemptParameters=youngest_first\n", ""), "1")):
        site, losses = site_of(tmp_path, text, jobs)
        assert [name for name, starts in starts_s(site).items() if len(starts) > 1] == [victim]
        assert not by_effect(losses)[0]


def test_jobs_that_are_left_out_are_counted_by_reason_with_their_work(tmp_path: Path) -> None:
    jobs = TWO_JOBS + (
        "3|low|2026-11-02T10:02:00|600|PREEMPTED|1|8|60\n4|low|2026-11-02T10:02:00|600|NODE_FAIL|1|8|60\n"
        "5|gone|2026-11-02T10:02:00|600|COMPLETED|1|8|60\n6|low|2026-11-02T10:02:00|600|COMPLETED|8|64|60\n"
        "7|low|a|b|2026-11-02T10:02:00|600|COMPLETED|1|8|60\n7.batch|low|a|b|c|600|COMPLETED|1|8|60\n8|low|Unknown|600|COMPLETED|1|8|60\n"
        "9|low|2026-11-02T10:02:00|600|COMPLETED|?|8|60\n10|low|2026-11-02T10:02:00|600|RUNNING|1|8|UNLIMITED\n"
    )
    site, _ = site_of(tmp_path, SITE, jobs)
    assert [each.name for each in site.jobs] == ["1", "2", "3", "4"]
    assert [job.length_ns for job in site.jobs[2:]] == [60 * MINUTE_NS] * 2, "until the time limit"
    [cut] = [each for each in site.basis.decides if "until its time limit" in each.reason]
    assert (cut.number, cut.total) == (2, 10)
    assert [(each.number, each.total, each.reason.split(" (")[0]) for each in site.basis.left_out] == [
        (2, 10, "a value of its row cannot be read"),
        (1, 10, "its row has more or fewer values than there are columns"),
        (1, 10, "there is no partition 'gone' in slurm.conf"),
        (1, 10, "it has more nodes, or more of a resource on each, than its partition"),
        (1, 10, "how long it works is not known: it is RUNNING, and has no time limit"),
    ]
    work = 7 * 600 * 8 + 120 * 8 + 600 * 64
    assert [each.work_share for each in site.basis.left_out[:3]] == [2 * 4800 / work, None, 4800 / work]
    with pytest.raises(ConfigError, match=r"sacct\.txt:2: Submit: 'soon' is not a time"):
        site_of(tmp_path, SITE, TWO_JOBS.splitlines()[0] + "\n1|low|soon|600|COMPLETED|1|8|60\n")


def test_what_decides_about_jobs_is_counted_by_job(tmp_path: Path) -> None:
    head, first, second = TWO_JOBS.splitlines()
    jobs = "\n".join((head + "|Licenses|JobName", first + "||a", second + "|matlab:1|b"))
    site, _ = site_of(tmp_path, SITE, jobs)
    assert {(gap.kind, gap.number, gap.reason.split()[0]) for gap in site.basis.decides} == {("jobs", 1, "licences")}


HOLDING = """\
JobIDRaw|JobID|Partition|Submit|Eligible|ElapsedRaw|State|NNodes|NCPUS|TimelimitRaw|AllocTRES|ReqMem|Constraints|User|Account
1|1|low|2026-11-02T10:00:00|2026-11-02T10:00:00|600|COMPLETED|2|8|60|cpu=8,mem=8192000K,gres/gpu=4,gres/gpu:a100=4|4Gn|fast|u|a
2|2|high|2026-11-02T10:01:00|2026-11-02T16:00:00|120|COMPLETED|1|3|60|||fast\\|slow|v|a
3|3|high|2026-11-02T10:01:00|Unknown|120|COMPLETED|2|8|60|cpu=8|1000Mc||v|a
7|4_0|low|2026-11-02T10:02:00|2026-11-02T10:02:00|60|COMPLETED|1|1|60|cpu=1|4G||u|a
4|4_[1-9%2]|low|2026-11-02T10:02:00|2026-11-02T10:02:00|0|PENDING|1|1|60|cpu=1|4G||u|a
"""


def test_what_jobs_hold_and_when_they_may_start(tmp_path: Path) -> None:
    conf = SITE.replace("CR_CPU", "CR_Core_Memory").replace(
        "NodeName=n1 CPUs=8",
        "NodeName=n[1-2] CPUs=8 ThreadsPerCore=2 RealMemory=16000 Gres=gpu:a100:4(S:0) Feature=fast",
    )
    conf = "GresTypes=gpu\nDefMemPerCPU=500\n" + conf
    site, losses = site_of(tmp_path, conf, HOLDING.replace("fast\\|slow", "[fast&slow]"))
    assert site.cluster.nodes["n1"] == Node(8, 16000, {"gpu": 4, "gpu:a100": 4}, ("fast",))
    assert [each.why for each in losses if each.effect is Effect.LEFT_OUT] == [
        "it has more nodes, or more of a resource on each, than its partition",
        "how long it works is not known: it is PENDING",
    ]
    first, third, task = site.jobs
    assert (first.cpus, first.memory_mb, first.gres, first.features) == (4, 4000, {"gpu": 2, "gpu:a100": 2}, "fast")
    assert (third.cpus, third.memory_mb, third.user, third.account) == (4, 4000, "v", "a")
    assert (task.cpus, task.memory_mb, task.array, task.array_limit) == (2, 4096, "4", 2)
    site, _ = site_of(tmp_path, conf, HOLDING.replace("fast\\|slow", "fast*1"))
    second = site.jobs[1]
    assert (second.cpus, second.memory_mb, second.eligible_ns) == (4, 2000, 6 * 60 * MINUTE_NS), "a core has two CPUs"
    site, _ = site_of(tmp_path, conf.replace("CR_Core_Memory", "CR_CPU"), HOLDING.replace("fast\\|slow", "fast"))
    assert [(each.cpus, each.memory_mb) for each in site.jobs] == [(4, 0), (3, 0), (4, 0), (1, 0)]


@pytest.mark.parametrize(
    ("lines", "decides"),
    [
        ("PriorityType=priority/basic\nPriorityWeightAge=1000\nPriorityFlags=MAX_TRES", set()),
        (
            "PriorityWeightAge=1000\nPriorityWeightAssoc=5\nPriorityFlags=NO_FAIR_TREE,INCR_ONLY",
            {"PriorityFlags=INCR_ONLY"},
        ),
        ("JobRequeue=1\nOverTimeLimit=0\nCompleteWait=0\nTopologyPlugin=topology/none", set()),
        ("Licenses=foo:4\nOverTimeLimit=5\nKillWait=30", {"Licenses=foo:4", "OverTimeLimit=5"}),
        ("NewInSlurm30=yes", {"newinslurm30=yes"}),
        ("SchedulerParameters=bf_max_job_user=0,bf_continue,defer", {"SchedulerParameters=defer"}),
    ],
)
def test_what_decides_is_known_from_what_does_not(tmp_path: Path, lines: str, decides: set[str]) -> None:
    _, losses = site_of(tmp_path, f"{lines}\n{SITE}")
    assert {what for _, what in by_effect(losses)[0]} == decides


def test_what_is_not_set_decides_too(tmp_path: Path) -> None:
    _, losses = site_of(tmp_path, SITE.replace("SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n", ""))
    assert {what for _, what in by_effect(losses)[0]} == {"SelectType is not set"}
    without = SITE.replace("SelectTypeParameters=CR_CPU\n", "")
    _, losses = site_of(tmp_path, without)
    assert {what for _, what in by_effect(losses)[0]} == {"RealMemory of n1"}, "memory is consumed"
    _, losses = site_of(tmp_path, without.replace("CPUs=8", "CPUs=8 RealMemory=4000"), TWO_JOBS)
    assert {what for _, what in by_effect(losses)[0]} == {"no column ReqMem, AllocTRES"}


def test_nodes_that_are_alike_differ_in_no_topology(tmp_path: Path) -> None:
    same = SITE.replace("NodeName=n1 CPUs=8", "NodeName=DEFAULT Topology=a Feature=a\nNodeName=n[1-2] CPUs=8")
    assert not by_effect(site_of(tmp_path, same)[1])[0]
    other = same + "NodeName=n3 CPUs=8 Topology=b\n"
    assert {what for _, what in by_effect(site_of(tmp_path, other)[1])[0]} == {"Topology=a", "Topology=b"}


def test_the_screen_shows_what_decides_and_all_on_demand(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text(f"Licenses=foo:4\nKillWait=30\n{SITE}")
    (tmp_path / "jobs.txt").write_text(TWO_JOBS)
    out = tmp_path / "mine.yaml"
    files = ["--conf", tmp_path / "site.conf", "--sacct", tmp_path / "jobs.txt", "--out", out]
    said = run_natjam("import", "slurm", *files).output
    assert "1 setting: licences are not modelled" in said
    assert "KillWait" not in said
    assert "KillWait=30" in run_natjam("import", "slurm", *files, "--all").output
    assert "#   KillWait=30" in out.read_text()
    assert read_saved(out, Slurm).basis.rest == 1
    assert "licences are not modelled" in run_natjam("play", out).output
    assert "--strict" in run_natjam("play", out, "--strict", status=1).output


def test_too_many_jobs_are_refused_before_the_work(conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "many.txt"
    rows = (f"{number}|low|2026-11-24T10:00:00|3600|COMPLETED|2|4" for number in range(10_000, 11_000))
    table.write_text("JobIDRaw|Partition|Submit|ElapsedRaw|State|NNodes|NCPUS\n" + "\n".join(rows) + "\n")
    monkeypatch.setattr(workloads.saved, "MAX_SAVED_JOBS", 1000)
    jobs = read_sacct(table, read_conf(conf)).jobs
    site = Slurm(read_conf(conf).cluster, jobs)
    for name, saved in (("none", Slurm(site.cluster)), ("all", site)):
        write_saved(tmp_path / f"{name}.yaml", saved, ())
    written, without = ((tmp_path / f"{name}.yaml").stat().st_size for name in ("all", "none"))
    assert 1 <= (written - without) / 1000 / workloads.saved.JOB_BYTES < 1.2
    monkeypatch.setattr(workloads.saved, "MAX_SAVED_JOBS", 999)
    with pytest.raises(ConfigError, match=r"has 1,000 jobs, above 999: .* larger than 256 MiB"):
        read_sacct(table, read_conf(conf))
