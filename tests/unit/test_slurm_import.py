"""A Slurm site's files as natjam reads them, the file that it writes, and the play of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from analysis.advise.sites import slurm_question
from emulator.errors import ConfigError
from emulator.policies.slurm.snapshot import FOREVER_NS
from emulator.sites.slurm import MINUTE_NS, SECOND_NS, Cluster, Job, Mode, Partition, Qos, Settings, Slurm
from tests.commands import run_natjam
from workloads.saved import read_saved
from workloads.slurm.conf import read_conf
from workloads.slurm.lines import Where, node_names, time_ns
from workloads.slurm.sacct import read_sacct

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


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def test_the_example_of_slurms_own_page(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(EXAMPLE)
    cluster, left_out = read_conf(path)
    assert (len(cluster.nodes), cluster.nodes["dev7"], cluster.nodes["big"]) == (27, 2, 32)
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
    said = {(each.where.rpartition(":")[2], each.what) for each in left_out}
    assert ("3", "epilog=/usr/local/slurm/epilog") in said
    assert ("12", "SchedulerParameters: bf_continue") in said
    assert {("7", "selecttypeparameters=CR_Core_Memory"), ("13", "realmemory=2000"), ("14", "weight=16")} <= said
    assert {("17", "maxnodes=10"), ("19", "minnodes=4"), ("21", "allowgroups=admin")} <= said
    for text, is_listed in (("NO", False), ("FORCE:1", False), ("FORCE:4", True), ("EXCLUSIVE", True)):
        path.write_text(EXAMPLE.replace("AllowGroups=admin", f"OverSubscribe={text}"))
        assert (
            ("21", f"oversubscribe={text}") in {(w.where.rpartition(":")[2], w.what) for w in read_conf(path)[1]}
        ) == (is_listed)


def test_the_example_that_a_package_ships(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(PACKAGED)
    cluster, left_out = read_conf(path)
    assert cluster == Cluster({"server": 16}, (Partition("debug", ("server",)),), Settings(backfills=True))
    lines = [PACKAGED.splitlines()[int(each.where.rpartition(":")[2]) - 1] for each in left_out]
    assert [line.partition("=")[0] for line in lines] == [
        *("SelectTypeParameters", "NodeName", "ProctrackType", "ReturnToService", "TaskPlugin"),
        *("AccountingStorageType", "AccountingStoreFlags", "JobCompType"),
    ]


def test_a_group_of_nodes_of_this_machine_is_no_node_of_the_site() -> None:
    where = Where(Path("slurm.conf"), 1)
    assert node_names(where, "Nodes", "@local:all,n[1-2]") == ("@local:all", "n1", "n2")


def test_an_example_of_preemption_with_sets_of_nodes(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(PREEMPTING)
    cluster, left_out = read_conf(path)
    assert [(each.name, len(each.nodes), each.tier, each.mode) for each in cluster.partitions] == [
        ("active", 5, 1000, Mode.SUSPEND),
        ("hipri", 6, 500, Mode.OFF),
        ("none", 0, 1, Mode.SUSPEND),
    ]
    settings = cluster.settings
    assert (settings.preempts, settings.gang, settings.backfills) == (True, True, False)
    assert (settings.bf_max_job_test, settings.sched_interval_ns) == (50, MINUTE_NS)
    assert [(each.where.rpartition(":")[2], each.what) for each in left_out] == [
        ("3", "jobrequeue=0"),
        ("4", "sched_interval=-1"),
        ("5", "features=fast,gpu"),
        ("11", "partitionname=hipri"),
    ]


def test_keys_and_values_as_sites_write_them(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        "PREEMPTTYPE=Preempt/Partition_Prio\npreemptmode=suspend,gang\nPreemptExemptTime=10\n"
        "PreemptParameters=Youngest_First,reorder_count=3,send_user_signal\n"
        "SchedulerParameters=bf_window=4320,\\\nbf_resolution=300\n"
        "NodeName=DEFAULT CPUs=8\nNodeName=n[01-10,12]\nNodeName=n11 State=DRAIN\n"
        "PartitionName=DEFAULT Nodes=n[01-10,12] DefaultTime=30 MaxTime=60\nPartitionName=low preemptmode=requeue\n"
        "PartitionName=DEFAULT DefaultTime=NONE\nPartitionName=high Nodes=ALL PriorityTier=2 State=DOWN\n"
    )
    cluster, left_out = read_conf(path)
    low, high = cluster.partitions
    assert (low.nodes[-2:], low.mode, low.limit_ns) == (("n10", "n12"), Mode.REQUEUE, 30 * MINUTE_NS)
    assert (len(high.nodes), high.mode, high.limit_ns) == (12, Mode.SUSPEND, 60 * MINUTE_NS)
    settings = cluster.settings
    assert (settings.preempts, settings.gang, settings.exempt_ns) == (True, True, 10 * MINUTE_NS)
    assert (settings.youngest_first, settings.reorder_count) == (True, 3)
    assert (settings.bf_window_ns, settings.bf_resolution_ns) == (4320 * MINUTE_NS, 300 * SECOND_NS)
    assert [each.what for each in left_out] == ["state=DRAIN", "state=DOWN", "PreemptParameters: send_user_signal"]


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
    assert read_conf(path)[0].nodes == {"a": cpus}


def test_included_lines_are_in_their_places(conf: Path) -> None:
    (conf.parent / "nodes.conf").write_text("NodeName=n[1-2] CPUs=4\n")
    conf.write_text(CONF.replace("NodeName=n[1-2] CPUs=4", "Include nodes.conf"))
    assert read_conf(conf)[0].nodes == {"n1": 4, "n2": 4}
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
        ("CPUs=4", "CPUs=four", ":3: CPUs: 'four' is not a whole number"),
        ("CPUs=4", "CPUs=4 ThreadsPerCore=0", ":3: ThreadsPerCore: must be at least 1, not 0"),
        ("NodeName=n[1-2]", "NodeName=n[1-", ":3: NodeName: "),
        ("NodeName=n[1-2]", "NodeName=n[1-99999999]", ":3: NodeName: has more than 100,000 nodes"),
        ("NodeName=n[1-2]", "NodeName=n[0-99]r[0-99]c[0-99]", ":3: NodeName: has more than 100,000 nodes"),
        ("NodeName=n[1-2]", "NodeName=" + "n[1-99999]," * 2 + "x", ":3: NodeName: has more than 100,000 nodes"),
        ("low Nodes=ALL", "low Nodes=n7", ":4: Nodes: there is no NodeName 'n7'"),
        ("PreemptMode=OFF", "PreemptMode=STOP", ":5: PreemptMode: 'STOP' is none of OFF, CANCEL, REQUEUE, SUSPEND"),
        ("PreemptType=preempt/partition_prio", "Preempt", ":1: 'Preempt' is not Key=Value"),
        ("PreemptMode=REQUEUE\n", 'PreemptMode="REQUEUE\n', ":2: "),
        ("NodeName=", "SchedulerTimeSlice=0\nNodeName=", ":3: SchedulerTimeSlice: must be at least 5, not 0"),
        ("NodeName=", "SchedulerParameters=bf_interval=0\nNodeName=", ":3: bf_interval: must be at least 1, not 0"),
        ("PriorityTier=10", "GraceTime=1:2:3:4", ":5: GraceTime: '1:2:3:4' is not a time"),
        ("PriorityTier=10", "MaxTime=soon", ":5: MaxTime: 'soon' is not a time"),
        ("PriorityTier=10", "MaxTime=soon DefaultTime=now", ":5: DefaultTime: 'now' is not a time"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(conf: Path, old: str, new: str, message: str) -> None:
    conf.write_text(CONF.replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        read_conf(conf)
    assert refused.value.message.startswith(f"{conf}{message}")


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
    jobs, left_out = read_sacct(path, read_conf(conf)[0])
    assert jobs == (
        Job("11", "low", 2, 4, 3600 * SECOND_NS, 0, 60 * MINUTE_NS),
        Job("12", "high", 1, 3, 600 * SECOND_NS, 300 * SECOND_NS, None),
        Job("16", "low", 1, 1, 7 * SECOND_NS, 540 * SECOND_NS, FOREVER_NS),
    )
    assert [(each.what, each.why) for each in left_out] == [
        ("job 13", "how long it works is not known: it is PENDING"),
        ("job 14", "there is no partition 'gone' in slurm.conf"),
        ("job 15", "1 nodes with 64 CPUs each are not in its partition"),
    ]


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
    cluster, left_out = read_conf(conf, table)
    assert [(each.name, each.mode) for each in cluster.qos] == [("low", Mode.CANCEL), ("high", Mode.REQUEUE)]
    assert [each.mode for each in cluster.partitions] == [Mode.REQUEUE, Mode.CANCEL, Mode.REQUEUE]
    said = [(each.what, each.why.split()[0]) for each in left_out]
    beside = [each for each in said if each[0].lower().startswith("preemptmode=")]
    assert beside == [
        ("preemptmode=PRIORITY,REQUEUE", "jobs"),
        ("preemptmode=CANCEL,PRIORITY", "jobs"),
        ("PreemptMode=within,cancel of QOS low", "jobs"),
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
    cluster, left_out = read_conf(conf, table)
    assert cluster.settings.preempts
    assert cluster.qos == (
        Qos("normal", (), Mode.REQUEUE, 0, 5 * MINUTE_NS),
        Qos("urgent", ("normal", "scavenger"), Mode.REQUEUE, 0, 5 * MINUTE_NS, 100),
        Qos("scavenger", (), Mode.CANCEL, 30 * SECOND_NS, 10 * MINUTE_NS),
    )
    assert not left_out
    cluster, left_out = read_conf(conf)
    assert (cluster.settings.preempts, left_out[0].why) == (
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
    assert "2 nodes, 2 partitions, 3 jobs, 3 settings and jobs not carried over" in done.output
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
    out.write_text(out.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        read_saved(out, Slurm)
    assert message in refused.value.message


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
    cluster = Cluster({"n0": 8}, (Partition("all", ("n0",)),), Settings(preempts=True, cred_expire_ns=0), (low, high))
    jobs = [
        Job("a", "all", 1, 8, 600 * SECOND_NS, qos="normal"),
        Job("b", "all", 1, 8, 60 * SECOND_NS, 200 * SECOND_NS, qos="urgent"),
    ]
    found = [*slurm_question(Path("site.yaml"), Slurm(cluster, tuple(jobs))).results()]
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
