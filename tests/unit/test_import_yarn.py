"""``natjam import yarn``: what becomes of Hadoop's own example files and of made-up ones, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import Result

from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.files.yaml_positions import read_document
from emulator.resolved import resolve
from emulator.sim.session import simulated_history
from tests.commands import invoked
from tests.refusals import changed
from tests.traces import YARN, YARN_APPS, read, write
from workloads.errors import TraceError
from workloads.setting_effects import Effect, Loss
from workloads.yarn.experiment import Imported, Sources, import_yarn, write_import
from workloads.yarn.queues import PREFIX, capacity_queues, fair_queues
from workloads.yarn.settings import Settings

CONF = YARN / "conf" / "capacity-scheduler.xml"
SLS_SITE, SLS_SCHEDULER = YARN / "sls" / "yarn-site.xml", YARN / "sls" / "capacity-scheduler.xml"
SLS_FAIR = YARN / "sls" / "fair-scheduler.xml"
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"


def hadoop(folder: Path, name: str, properties: Mapping[str, object]) -> Path:
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in properties.items())
    path = folder / name
    path.write_text(f"<configuration>\n{rows}</configuration>\n")
    return path


def leaves_of(folder: Path, queues: Mapping[str, object]) -> dict[str, tuple[float, float]]:
    settings = Settings()
    settings.read(hadoop(folder, "cs.xml", {f"yarn.scheduler.capacity.root{key}": v for key, v in queues.items()}))
    return {leaf.path: (leaf.capacity, leaf.maximum) for leaf in capacity_queues(settings, 100 * 1024)[0]}


def imported(**sources: Path | int | None) -> Imported:
    given = {"site": None, "scheduler": None, "fair": None, "apps": None, "nodes": 6, **sources}
    return import_yarn(Sources(**given), "mine")  # type: ignore[arg-type]


def by_effect(losses: Iterable[Loss]) -> dict[Effect, set[str]]:
    """What is lost, without the parts of its name before the last."""
    found: dict[Effect, set[str]] = {Effect.DECIDES: set(), Effect.NOTHING: set()}
    for each in losses:
        key, equals, value = each.what.partition("=")
        found[each.effect].add(key.rpartition(".")[2] + equals + value)
    return found


def natjam(*arguments: object) -> Result:
    return invoked("import", "yarn", *arguments)


class TestHadoopsOwnFiles:
    def test_the_default_configuration(self):
        found = imported(scheduler=CONF)
        allocation = found.experiment["scheduler"]["allocation"]
        assert allocation["queues"] == {"default": {"capacity": 1.0, "maximum": 1.0}}
        assert allocation["offswitch_per_heartbeat"] == 1
        assert allocation["preemption"] is None, "off unless the monitor is enabled"
        assert found.experiment["scheduler"]["mechanism"] == "wait"
        assert found.experiment["cluster"]["containers_per_node"] == 8
        assert by_effect(found.losses) == {
            Effect.DECIDES: {"node-locality-delay=40"},
            Effect.NOTHING: {
                *("maximum-applications=10000", "acl_submit_applications=*", "acl_administer_queue=*"),
                *("acl_application_max_priority=*", "queue-mappings=", "enable=false"),
            },
        }, "a user may have all of a queue that has all of the cluster"

    def test_the_fair_scheduler_is_followed_to_its_allocation_file(self):
        found = imported(site=SLS_SITE, scheduler=SLS_SCHEDULER, fair=SLS_FAIR)
        allocation = found.experiment["scheduler"]["allocation"]
        assert allocation["queues"]["sls_queue_3"] == {"capacity": 0.5, "maximum": 1.0}
        assert allocation["preemption"]["natural_termination_factor"] == 1.0
        told = {loss.what.partition("=")[0]: loss for loss in found.losses}
        assert "modelled by its documentation" in told["yarn.resourcemanager.scheduler.class"].why
        assert allocation["settings"]["root"] == {"fair": {}}
        of_queue = allocation["settings"]["sls_queue_1"]["fair"]
        assert of_queue == {"weight": 0.25, "min_share": 1 / 48, "min_share_preemption_timeout_s": 2.0}
        assert told["yarn.scheduler.capacity.root.queues"].why == "the FairScheduler's queues are imported"

    def test_nothing_is_dropped_in_silence(self):
        """Every property that is in the files is either modelled, or in the list, or inert at its value."""
        without = imported(site=SLS_SITE, scheduler=SLS_SCHEDULER)
        told = {loss.what.partition("=")[0]: loss.effect for loss in without.losses}
        assert told["yarn.resourcemanager.webapp.address"] is Effect.NOTHING
        assert told["yarn.scheduler.fair.preemption"] is Effect.NOTHING
        assert told["hadoop.security.token.service.use_ip"] is Effect.NOTHING
        assert "yarn.nodemanager.resource.memory-mb" not in told

    def test_applications(self):
        found = imported(scheduler=SLS_SCHEDULER, apps=YARN_APPS)
        assert found.applications is not None
        assert [(job.queue, job.priority, len(job.tasks or ())) for job in found.applications.jobs] == [
            *(("sls_queue_1", 0, 3), ("sls_queue_3", 0, 4), ("sls_queue_2", 0, 2)),
        ], "priorities above yarn.cluster.max-application-priority, 0 unless set, are lowered to it"
        assert [(gap.number, gap.total, gap.reason) for gap in found.basis.left_out] == [
            (1, 5, "there is no queue 'gone'"),
            (1, 5, "it ran no task: it had no container beside its master"),
        ]
        assert any(gap.reason.startswith("it has not ended") for gap in found.basis.decides)
        assert found.experiment["cluster"]["container_memory_gb"] == 2


class TestQueues:
    def test_capacities_multiply_down_the_tree(self, tmp_path: Path):
        top = {".queues": "a, b", ".a.capacity": 40, ".a.maximum-capacity": 50, ".b.capacity": 60, ".a.queues": "x,y"}
        below = {".a.x.capacity": 25, ".a.x.maximum-capacity": 60, ".a.y.capacity": "75.0"}
        found = leaves_of(tmp_path, {**top, **below})
        assert found == {"a.x": (0.1, 0.3), "a.y": (0.3, 0.5), "b": (0.6, 1.0)}

    def test_weights_and_amounts(self, tmp_path: Path):
        found = leaves_of(tmp_path, {".queues": "a,b", ".a.capacity": "1w", ".b.capacity": "3w"})
        assert found == {"a": (0.25, 1.0), "b": (0.75, 1.0)}
        of_100_gb = {".a.capacity": "[memory=20480,vcores=2]", ".b.capacity": "[vcores=9,memory=50Gi]"}
        found = leaves_of(tmp_path, {".queues": "a,b", ".a.maximum-capacity": "[memory=40%]", **of_100_gb})
        assert found == {"a": (0.2, 0.4), "b": (0.5, 1.0)}

    @pytest.mark.parametrize(
        ("queues", "reason"),
        [
            ({".queues": "a,b", ".a.capacity": 60, ".b.capacity": 50}, "exceed its share (of the cluster: a 0.6, b"),
            (
                {".queues": "a", ".a.capacity": "[memory=204800]"},
                "exceed its share (of the cluster's 102,400 MiB: a 2)",
            ),
            ({".queues": "a", ".a.capacity": 50, ".a.maximum-capacity": 40}, "no less than the queue's capacity"),
            ({".queues": "a", ".a.capacity": "much"}, "'much' is not a number"),
            ({".queues": "a", ".a.capacity": "101"}, "above 100 percent"),
            ({".queues": "a", ".a.capacity": "[vcores=3]"}, "has no memory"),
            ({".queues": "a", ".a.capacity": "${b}"}, "uses ${b}"),
            ({".queues": "a,a", ".a.capacity": "1"}, "twice"),
            ({".queues": "a", ".a.capacity": "100", ".a.queues": "x", ".a.x.capacity": "-1"}, "not a number of 0"),
        ],
    )
    def test_what_cannot_be(self, tmp_path: Path, queues: dict[str, object], reason: str):
        with pytest.raises(ConfigError, match=r"cs\.xml:\d+: yarn\.scheduler\.capacity\.root") as caught:
            leaves_of(tmp_path, queues)
        assert reason in caught.value.message

    def test_queues_of_one_name_keep_their_paths(self, tmp_path: Path):
        properties = {".queues": "a,b", ".a.queues": "x", ".b.queues": "x,y", ".a.capacity": 50, ".b.capacity": 50}
        properties |= {".a.x.capacity": 100, ".b.x.capacity": 50, ".b.y.capacity": 50}
        cs = hadoop(tmp_path, "cs.xml", {f"yarn.scheduler.capacity.root{key}": v for key, v in properties.items()})
        found = imported(scheduler=cs)
        assert list(found.experiment["scheduler"]["allocation"]["queues"]) == ["a.x", "b.x", "y"]
        parents = found.experiment["scheduler"]["allocation"]["parents"]
        assert {name: parent["queues"] for name, parent in parents.items()} == {
            "root.a": ["a.x"],
            "root.b": ["b.x", "y"],
        }

    def test_fair_queues_inside_each_other(self, tmp_path: Path):
        path = tmp_path / "fair.xml"
        path.write_text(
            "<allocations><queue name='root'><queue name='p'><weight>3</weight><queue name='x'/><queue name='y'>"
            "<weight>2.0</weight><maxResources>50%</maxResources></queue></queue><queue name='q'>"
            "<maxResources>25600 mb, 4 vcores</maxResources></queue></queue><userMaxAppsDefault>4"
            "</userMaxAppsDefault></allocations>"
        )
        found = fair_queues(path, 100 * 1024)
        assert {leaf.path: (leaf.capacity, leaf.maximum) for leaf in found.leaves} == {
            "p.x": (0.25, 1.0),
            "p.y": (0.5, 0.5),
            "q": (0.25, 0.25),
        }
        assert [loss.what for loss in found.losses] == ["allocations: userMaxAppsDefault=4"]


class TestSettings:
    def test_preemption_heartbeats_and_nodes(self, tmp_path: Path):
        site = hadoop(
            tmp_path,
            "site.xml",
            {
                "yarn.resourcemanager.scheduler.monitor.enable": "true",
                "interval": "1000",
                f"{PREEMPTION}.monitoring_interval": "${interval}",
                f"{PREEMPTION}.max_wait_before_kill": "1000",
                f"{PREEMPTION}.total_preemption_per_round": "1",
                f"{PREEMPTION}.natural_termination_factor": "1.0",
                f"{PREEMPTION}.max_ignored_over_capacity": "0",
                f"{PREEMPTION}.intra-queue-preemption.enabled": "true",
                f"{PREEMPTION}.select_based_on_reserved_containers": "true",
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "2000",
                "yarn.nodemanager.resource.memory-mb": "32768",
                "yarn.nodemanager.resource.cpu-vcores": "4",
                "yarn.scheduler.minimum-allocation-mb": "2048",
            },
        )
        found = imported(site=site, scheduler=CONF)
        preemption = found.experiment["scheduler"]["allocation"]["preemption"]
        assert preemption == {
            "interval_s": 1.0,
            "max_wait_before_kill_s": 1.0,
            "total_preemption_per_round": 1.0,
            "natural_termination_factor": 1.0,
            "max_ignored_over_capacity": 0.0,
            "intra_queue": True,
            "select_based_on_reserved_containers": True,
        }
        assert found.experiment["heartbeat_s"] == 2.0
        assert found.experiment["cluster"] == {
            "nodes": 6,
            "containers_per_node": 16,
            "container_memory_gb": 2.0,
            "memory_gb": 32.0,
        }
        assert {"preemption-order-policy is not set: userlimit_first"} <= (by_effect(found.losses)[Effect.DECIDES])

    def test_cores_count_where_the_calculator_says_so(self, tmp_path: Path):
        site = hadoop(
            tmp_path,
            "site.xml",
            {
                "yarn.scheduler.capacity.root.queues": "a",
                "yarn.scheduler.capacity.root.a.capacity": "100",
                "yarn.scheduler.capacity.resource-calculator": "org.apache.DominantResourceCalculator",
                "yarn.nodemanager.resource.cpu-vcores": "4",
            },
        )
        assert imported(scheduler=site).experiment["cluster"]["containers_per_node"] == 4

    def test_final_properties_stay_and_the_others_are_listed(self, tmp_path: Path):
        site = tmp_path / "site.xml"
        value = "<name>yarn.nodemanager.resource.memory-mb</name><value>4096</value><final>true</final>"
        included = "<xi-include href='more.xml'/>"
        site.write_text(f"<configuration><property>{value}</property>{included}</configuration>")
        other = hadoop(tmp_path, "other.xml", {"yarn.nodemanager.resource.memory-mb": "9999"})
        settings = Settings()
        settings.read(site)
        settings.read(other)
        assert settings.take("yarn.nodemanager.resource.memory-mb", 0, int) == 4096
        assert [(loss.what, loss.effect) for loss in settings.losses] == [
            ("<xi-include> more.xml", Effect.DECIDES),
            ("yarn.nodemanager.resource.memory-mb=9999", Effect.NOTHING),
        ]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "is not XML"),
            ("<configuration>", "is not XML"),
            ("<a/>", "begins with <a>"),
            ("<configuration><property><value>1</value></property></configuration>", ":1: a property has no name"),
            ("<a>" * 100 + "</a>" * 100, "more than 64 levels deep"),
            ('<!DOCTYPE x [<!ENTITY a "aaaa">]><configuration>&a;</configuration>', "declares entities"),
            ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><configuration>&a;</configuration>', "entities"),
            ('<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><configuration>&a;</configuration>', ""),
            ('<?xml version="1.0" encoding="klingon"?><configuration/>', "is not XML"),
        ],
    )
    def test_what_is_no_configuration(self, tmp_path: Path, text: str, reason: str):
        path = tmp_path / "site.xml"
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"site\.xml") as caught:
            imported(site=path, scheduler=CONF)
        assert reason in caught.value.message

    def test_a_variable_that_doubles_itself_ends(self, tmp_path: Path):
        bomb = {f"v{i}": f"${{v{i + 1}}}" * 2 for i in range(30)} | {"yarn.nodemanager.resource.memory-mb": "${v0}"}
        with pytest.raises(ConfigError, match="memory-mb: needs more than 20 replacements"):
            imported(site=hadoop(tmp_path, "site.xml", bomb), scheduler=CONF)


class TestApplications:
    def test_what_is_made_of_the_answer(self):
        found = read(YARN_APPS, "yarn")
        first = found.jobs[0]
        assert first.lengths_ns("reduce") == (25 * 10**9,) * 3, "100 s of containers, 25 s of them the master's"
        assert (first.memory_bytes, first.user, first.outcome) == (2 * 2**30, "ann", "succeeded")
        assert (first.finish_ns or 0) - (first.start_ns or 0) == 25 * 10**9
        assert found.facts["applications"] == 5
        assert found.facts["applications without a container beside their master, left out"] == 1
        assert found.header.columns["tasks.length_ns"].source == "modelled"

    @pytest.mark.parametrize(
        ("old", "new", "column", "reason"),
        [
            ('"vcoreSeconds": 100', '"vcoreSeconds": -1', "apps.app[0].vcoreSeconds", "negative"),
            ('"startedTime": 1700000010000', '"startedTime": "x"', "apps.app[0].startedTime", "not a whole number"),
            ('"launchTime": 1700000011000', '"launchTime": 7', "apps.app[0].launchTime", "before startedTime"),
            ("_0002", "_0001", "apps.app[1].id", "earlier application"),
            (
                '"vcoreSeconds": 100',
                '"vcoreSeconds": 100, "resourceInfo": {"resourceUsagesByPartition": [{"amUsed": {"memory": "1"}}]}',
                "apps.app[0].resourceInfo.resourceUsagesByPartition[0].amUsed.memory",
                "not a whole number",
            ),
            ('"app": [', '"ap": [', "apps.app", "give the answer"),
        ],
    )
    def test_broken(self, tmp_path: Path, old: str, new: str, column: str, reason: str):
        text = changed(YARN_APPS.read_text(), old, new)
        with pytest.raises(TraceError, match=reason) as caught:
            read(write(tmp_path, text.encode()), "yarn")
        assert caught.value.column == column


class TestCommand:
    def test_the_file_says_what_was_left_out(self, tmp_path: Path):
        out = tmp_path / "mine.yaml"
        done = natjam("--scheduler", CONF, "--nodes", 3, "--out", out)
        assert done.exit_code == 0, done.output
        assert "1 setting: where data lies is not modelled" in done.stdout
        assert "6 settings that decide nothing here" in done.stdout
        text = out.read_text()
        assert "#   yarn.scheduler.capacity.node-locality-delay=40 (" in text
        assert "cluster.nodes" not in text
        document = read_document(out)
        assert document.get(("cluster", "nodes")) == 3
        assert document.get(("workload", "jobs", 0, "queue")) == "default"

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (("--site", SLS_SITE), "name the queues' file"),
            (("--scheduler", SLS_SITE), "root.queues is not set"),
            (("--scheduler", "no-such.xml"), "no-such.xml: there is no such file"),
            (("--fair", CONF), "its allocation file '' is not in the same directory"),
            (("--scheduler", CONF, "--apps", YARN_APPS), "no application can be used"),
        ],
    )
    def test_refusals(self, tmp_path: Path, arguments: tuple[object, ...], reason: str):
        done = natjam(*arguments, "--out", tmp_path / "mine.yaml")
        assert done.exit_code == 2
        assert reason in done.output
        assert list(tmp_path.iterdir()) == []


class TestContainersOfSeveralSizes:
    SITE: ClassVar = {"yarn.nodemanager.resource.memory-mb": 16384, "yarn.nodemanager.resource.cpu-vcores": 12}
    DOMINANT: ClassVar = {
        f"{PREFIX}root.queues": "default",
        f"{PREFIX}root.default.capacity": 100,
        f"{PREFIX}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    }

    RESOURCES: ClassVar = {
        "resourceUsagesByPartition": [
            {"partitionName": "", "used": {"memory": 15000, "vCores": 12}, "amUsed": {"memory": 2500, "vCores": 2}},
            {"partitionName": "gpu", "used": {"memory": 0, "vCores": 0}, "amUsed": {"memory": 0, "vCores": 0}},
        ]
    }

    def applications(self, folder: Path, alike: bool = False, **of_second: object) -> Path:
        """One that has ended, of 2 GB and a core; one that runs on three of 4 cores and 5 GB, or one alike."""
        ended = {"id": "application_1_1", "memorySeconds": 2048 * 300, "vcoreSeconds": 300, "finishedTime": 101000}
        running = {"id": "application_1_2", "memorySeconds": 5000 * 300, "vcoreSeconds": 1200, "finishedTime": 0}
        running |= {"allocatedMB": 15000, "allocatedVCores": 12, "runningContainers": 3}
        pair = (ended, {**(ended if alike else running), "id": "application_1_3", **of_second})
        both = [{"startedTime": 1000, "elapsedTime": 100000, "queue": "default", **each} for each in pair]
        return write(folder, json.dumps({"apps": {"app": both}}).encode(), "apps.json")

    def test_each_application_asks_for_what_its_containers_had(self, tmp_path: Path) -> None:
        site, scheduler = hadoop(tmp_path, "site.xml", self.SITE), hadoop(tmp_path, "cs.xml", self.DOMINANT)
        found = imported(site=site, scheduler=scheduler, apps=self.applications(tmp_path), nodes=3)
        assert found.experiment["cluster"] == {
            "node_groups": [{"count": 3, "resources": {"memory_gb": 16.0, "cpu": 12}}],
            "container_memory_gb": 1.0,
            "master_resources": {"memory_gb": 2.0},
        }
        sources = Sources(site, scheduler, None, self.applications(tmp_path), 3)
        write_import(found, sources, tmp_path / "mine.yaml")
        experiment = load_experiment(tmp_path / "mine.yaml")
        jobs = expand(experiment, 1)
        assert [(job.facts.groups[-1].count, job.facts.groups[-1].request) for job in jobs] == [
            (2, (2000, 1000)),  # as many as it held beside its master
            (2, (5000, 4000)),
        ]
        rows = simulated_history(resolve(experiment)).jobs
        assert all(row.finish_ns is not None for row in rows)

    def test_an_application_master_has_its_own_size_where_the_answer_says_it(self, tmp_path: Path) -> None:
        site, scheduler = hadoop(tmp_path, "site.xml", self.SITE), hadoop(tmp_path, "cs.xml", self.DOMINANT)
        apps = self.applications(tmp_path, resourceInfo=self.RESOURCES)
        found = imported(site=site, scheduler=scheduler, apps=apps, nodes=3)
        assumed = next(each for each in found.assumed if "master" in each.what)
        assert assumed.what == "cluster.master_resources=2 GB"
        assert assumed.why.startswith("as MapReduce's; of 1 of 2 applications the size of the ApplicationMaster is not")
        write_import(found, Sources(site, scheduler, None, apps, 3), tmp_path / "mine.yaml")
        experiment = load_experiment(tmp_path / "mine.yaml")
        jobs = expand(experiment, 1)
        assert [job.facts.master_request for job in jobs] == [(), (3000, 2000)], "in whole steps of 1 GB"
        assert all(row.finish_ns is not None for row in simulated_history(resolve(experiment)).jobs)

    def test_executors_have_their_own_size_beside_a_master_of_another(self, tmp_path: Path) -> None:
        """Spark's: a master of 1 GB and a core for 100 s, and three executors of 5 GB and 4 cores for 90 s."""
        held = {"allocatedMB": 1024 + 3 * 5120, "allocatedVCores": 1 + 3 * 4, "runningContainers": 4}
        used = {"memorySeconds": 1024 * 100 + 3 * 5120 * 90, "vcoreSeconds": 100 + 3 * 4 * 90}
        of_master = {"resourceUsagesByPartition": [{"amUsed": {"memory": 1024, "vCores": 1}}]}
        known = read(self.applications(tmp_path, **held, **used, resourceInfo=of_master), "yarn").jobs[1]
        assert (known.memory_bytes, known.cpu_thousandths) == (5 * 2**30, 4000)
        assert known.lengths_ns("reduce") == (90 * 10**9,) * 3
        average = read(self.applications(tmp_path, **held, **used), "yarn").jobs[1]
        assert (average.memory_bytes, average.cpu_thousandths) == (4 * 2**30, 3000), "of all four"
        only_master = {"allocatedMB": None, "allocatedVCores": 1, "runningContainers": 1, "resourceInfo": of_master}
        ended = read(self.applications(tmp_path, **used, **only_master), "yarn").jobs[1]
        assert (ended.memory_bytes, ended.cpu_thousandths) == (5120 * 2**20 // 4, None), "of a core each"
        assert sum(ended.lengths_ns("reduce")) == pytest.approx(3 * 4 * 90 * 10**9)

    def test_an_application_master_that_fits_no_node_is_refused(self, tmp_path: Path) -> None:
        too_large = [{"partitionName": "", "amUsed": {"memory": 17000, "vCores": 1}}]
        apps = self.applications(tmp_path, resourceInfo={"resourceUsagesByPartition": too_large})
        site, scheduler = hadoop(tmp_path, "site.xml", self.SITE), hadoop(tmp_path, "cs.xml", self.DOMINANT)
        found = imported(site=site, scheduler=scheduler, apps=apps)
        write_import(found, Sources(site, scheduler, None, apps, 6), tmp_path / "mine.yaml")
        with pytest.raises(TraceError, match=r"its ApplicationMaster asks for .* fits no empty node"):
            expand(load_experiment(tmp_path / "mine.yaml"), 1)

    @pytest.mark.parametrize("alike", [True, False])
    def test_containers_that_are_alike_have_sizes_if_an_application_master_has_another(
        self, tmp_path: Path, alike: bool
    ) -> None:
        size = {"memory": 2048 if alike else 1024, "vCores": 1}
        running = {"allocatedMB": 6144, "allocatedVCores": 3, "runningContainers": 3, "finishedTime": 0}
        of_second = {**running, "resourceInfo": {"resourceUsagesByPartition": [{"amUsed": size}]}}
        apps = self.applications(tmp_path, alike=True, **of_second)
        found = imported(site=hadoop(tmp_path, "site.xml", self.SITE), scheduler=CONF, apps=apps)
        assert ("node_groups" in found.experiment["cluster"]) == (not alike)

    def test_under_the_default_calculator_only_memory_counts(self, tmp_path: Path) -> None:
        site = hadoop(tmp_path, "site.xml", self.SITE)
        only_memory = {name: value for name, value in self.DOMINANT.items() if "calculator" not in name}
        scheduler = hadoop(tmp_path, "cs.xml", only_memory)
        found = imported(site=site, scheduler=scheduler, apps=self.applications(tmp_path))
        assert found.experiment["cluster"]["node_groups"] == [{"count": 6, "resources": {"memory_gb": 16.0}}]

    def test_containers_that_are_alike_have_one_size_as_before(self, tmp_path: Path) -> None:
        apps = self.applications(tmp_path, alike=True)
        cluster = imported(site=hadoop(tmp_path, "site.xml", self.SITE), scheduler=CONF, apps=apps).experiment[
            "cluster"
        ]
        assert (cluster["containers_per_node"], cluster["container_memory_gb"]) == (8, 2)
        assert "node_groups" not in cluster


class TestWhatDecides:
    QUEUES: ClassVar = {
        f"{PREFIX}root.queues": "a,b",
        f"{PREFIX}root.a.capacity": 50,
        f"{PREFIX}root.b.capacity": 50,
        f"{PREFIX}maximum-am-resource-percent": 1.0,
        f"{PREFIX}user-limit-factor": 2,
    }
    PREEMPTS: ClassVar = {"yarn.resourcemanager.scheduler.monitor.enable": "true"}

    def decides(self, folder: Path, capacity: Mapping[str, object], site: Mapping[str, object]) -> set[str]:
        """What decides and is not modelled, without the first parts of its name."""
        scheduler = hadoop(folder, "cs.xml", {**self.QUEUES, **capacity})
        found = imported(site=hadoop(folder, "site.xml", site), scheduler=scheduler)
        return by_effect(found.losses)[Effect.DECIDES]

    @pytest.mark.parametrize(
        ("capacity", "site", "decides"),
        [
            ({}, {}, set()),
            ({"root.a.disable_preemption": "true"}, PREEMPTS, set()),
            ({"root.a.user-limit-factor": 1}, {}, {"user-limit-factor=1 of queue a"}),
            ({"root.a.user-limit-factor": 1, "root.a.maximum-capacity": 50}, {}, set()),
            ({"user-limit-factor": -1}, {}, set()),
            ({"root.a.minimum-user-limit-percent": 25}, {}, set()),
            ({"root.a.ordering-policy": "fair", "root.b.ordering-policy": "fifo"}, {}, set()),
            ({"root.a.ordering-policy": "mine"}, {}, {"ordering-policy=mine"}),
            ({"root.a.accessible-node-labels": "gpu"}, {}, {"accessible-node-labels=gpu"}),
            ({"root.a.accessible-node-labels": "gpu"}, {"yarn.node-labels.enabled": "false"}, set()),
            ({"root.a.accessible-node-labels.gpu.capacity": 9}, {}, {"capacity=9"}),
            ({"root.a.new-in-4": 1}, {}, {"new-in-4=1"}),
            ({}, {"yarn.resourcemanager.hostname.rm1": "a", "mapreduce.map.memory.mb": 1024}, set()),
            ({}, {"yarn.scheduler.configuration.store.class": "zk"}, {"class=zk"}),
        ],
    )
    def test_what_decides_is_known_from_what_does_not(
        self, tmp_path: Path, capacity: dict[str, object], site: dict[str, object], decides: set[str]
    ) -> None:
        assert self.decides(tmp_path, {f"{PREFIX}{key}": value for key, value in capacity.items()}, site) == decides

    def test_users_who_may_not_have_all_of_their_queue_are_said_by_default(self, tmp_path: Path) -> None:
        without = {key: value for key, value in self.QUEUES.items() if not key.endswith(("factor", "percent"))}
        found = imported(scheduler=hadoop(tmp_path, "cs.xml", without))
        assert [(gap.number, gap.kind) for gap in found.basis.decides] == [(2, "queues")]
        assert "user-limit-factor=1 of queue a, which is not set" in found.basis.decides[0].example

    def test_the_number_of_nodes_that_was_assumed_decides(self, tmp_path: Path) -> None:
        found = imported(scheduler=hadoop(tmp_path, "cs.xml", self.QUEUES), nodes=None)
        assert [gap.example for gap in found.basis.decides] == ["cluster.nodes=6 (no file)"]

    def test_every_answer_says_it_first(self, tmp_path: Path) -> None:
        disabled = {**self.QUEUES, f"{PREFIX}root.a.intra-queue-preemption.disable_preemption": "true"}
        site, scheduler = hadoop(tmp_path, "site.xml", self.PREEMPTS), hadoop(tmp_path, "cs.xml", disabled)
        out = tmp_path / "mine.yaml"
        done = natjam("--site", site, "--scheduler", scheduler, "--nodes", 4, "--out", out)
        assert done.output.splitlines()[1].startswith(
            "  1 setting: the jobs of all queues may take from each other; for"
        )
        assert load_experiment(out).basis.decides[0].reason == "the jobs of all queues may take from each other"


class TestQueuesAndTheirUsers:
    TREE: ClassVar = {
        f"{PREFIX}root.queues": "a,b",
        f"{PREFIX}root.a.capacity": 60,
        f"{PREFIX}root.a.maximum-capacity": 80,
        f"{PREFIX}root.a.queues": "x,y",
        f"{PREFIX}root.a.x.capacity": 50,
        f"{PREFIX}root.a.y.capacity": 50,
        f"{PREFIX}root.b.capacity": 40,
    }
    PREEMPTS: ClassVar = {"yarn.resourcemanager.scheduler.monitor.enable": "true"}

    def allocation(self, folder: Path, more: Mapping[str, object], site: Mapping[str, object]) -> dict:
        scheduler = hadoop(folder, "cs.xml", {**self.TREE, **{f"{PREFIX}{key}": each for key, each in more.items()}})
        return imported(site=hadoop(folder, "site.xml", site), scheduler=scheduler).experiment["scheduler"][
            "allocation"
        ]

    def test_a_tree_is_carried_over(self, tmp_path: Path) -> None:
        allocation = self.allocation(tmp_path, {}, self.PREEMPTS)
        assert list(allocation["queues"]) == ["x", "y", "b"]
        assert allocation["parents"] == {"root.a": {"queues": ["x", "y"], "maximum": 0.8}}
        assert "disable_preemption" not in allocation

    @pytest.mark.parametrize(
        ("of", "spared"),
        [
            ({"root.a.disable_preemption": "true"}, ["x", "y"]),
            ({"root.a.disable_preemption": "true", "root.a.y.disable_preemption": "false"}, ["x"]),
            ({"root.disable_preemption": "true"}, ["x", "y", "b"]),
            ({"root.b.disable_preemption": "true"}, ["b"]),
        ],
    )
    def test_disable_preemption_holds_down_the_tree(self, tmp_path: Path, of: dict, spared: list[str]) -> None:
        assert self.allocation(tmp_path, of, self.PREEMPTS)["disable_preemption"] == spared
        assert "disable_preemption" not in self.allocation(tmp_path, of, {})

    APP: ClassVar = {
        "queue": "root.b",
        "state": "FINISHED",
        "finalStatus": "SUCCEEDED",
        "startedTime": 1000,
        "finishedTime": 61_000,
        "elapsedTime": 60_000,
        "memorySeconds": 204_800,
        "vcoreSeconds": 200,
    }

    def of_users(self, folder: Path, users: Sequence[str | None], more: Mapping[str, object]) -> Imported:
        apps = [{**self.APP, "id": f"application_1_000{n}", "user": user} for n, user in enumerate(users)]
        path = folder / "apps.json"
        path.write_text(json.dumps({"apps": {"app": apps}}))
        of_queues = {f"{PREFIX}{key}": each for key, each in more.items()}
        return imported(scheduler=hadoop(folder, "cs.xml", {**self.TREE, **of_queues}), apps=path)

    def test_limits_of_users_and_masters_are_carried_over_with_hadoops_defaults(self, tmp_path: Path) -> None:
        """CapacityScheduler's documentation: by default one user has no more than the capacity of the queue."""
        of_b = {"user-limit-factor": 2, "minimum-user-limit-percent": 25, "user-settings.ann.weight": 1.5}
        of_b |= {"maximum-am-resource-percent": 0.3, "ordering-policy": "fair"}
        more = {**{f"root.b.{key}": each for key, each in of_b.items()}, "root.a.x.user-limit-factor": -1}
        more |= {"root.a.ordering-policy": "priority-utilization", "root.a.y.priority": 3}
        found = self.of_users(tmp_path, ["ann", "bob"], more)
        least = {"maximum_am_resource_percent": 0.1, "minimum_user_limit_percent": 100.0}
        assert found.experiment["scheduler"]["allocation"]["settings"] == {
            "x": least,
            "y": {"priority": 3, **least, "user_limit_factor": 1.0},
            "b": {
                "ordering_policy": "fair",
                "maximum_am_resource_percent": 0.3,
                "minimum_user_limit_percent": 25.0,
                "user_limit_factor": 2.0,
                "user_weights": {"ann": 1.5},
            },
            "root.a": {"ordering_policy": "priority-utilization"},
        }
        assert not any("user-limit" in loss.what for loss in found.losses)

    def test_without_users_nobodys_limit_holds_and_that_is_said(self, tmp_path: Path) -> None:
        found = self.of_users(tmp_path, ["ann", None], {})
        settings = found.experiment["scheduler"]["allocation"]["settings"]
        assert settings["b"] == {"maximum_am_resource_percent": 0.1}
        assert {loss.what for loss in found.losses if "of queue" in loss.what} == {
            f"user-limit-factor=1 of queue {queue}, which is not set" for queue in ("a.x", "a.y", "b")
        }

    @pytest.mark.parametrize("out", ["apps.yaml", "site.yaml"])
    def test_what_it_reads_is_never_written(self, tmp_path: Path, out: str) -> None:
        self.of_users(tmp_path, ["ann"], {})
        apps = (tmp_path / "apps.json").rename(tmp_path / "apps.jobs.jsonl")
        site = hadoop(tmp_path, "site.yaml", {})
        read = apps.read_bytes(), site.read_bytes()
        given = ("--site", site, "--scheduler", tmp_path / "cs.xml", "--apps", apps, "--out", tmp_path / out)
        done = natjam(*given)
        assert done.exit_code == 2
        assert "is a file that the command reads; write to another file" in " ".join(done.output.split())
        assert (apps.read_bytes(), site.read_bytes()) == read


def test_what_else_decides_is_said(tmp_path: Path) -> None:
    """Virtual cores of absolute capacities where they count, and executors of Spark."""
    queues = {"root.queues": "a", "root.a.capacity": "[memory=49152,vcores=12]", "resource-calculator": "x"}
    apps = json.loads(Path("docs/yarn-apps.json").read_text())
    for number, app in enumerate(apps["apps"]["app"]):
        app |= {"queue": "a", "applicationType": "SPARK" if number else "MAPREDUCE"}
    (tmp_path / "apps.json").write_text(json.dumps(apps))
    whys = []
    for calculator in ("a.DefaultResourceCalculator", "a.DominantResourceCalculator"):
        properties = {f"yarn.scheduler.capacity.{key}": each for key, each in queues.items()}
        properties["yarn.scheduler.capacity.resource-calculator"] = calculator
        found = imported(scheduler=hadoop(tmp_path, "cs.xml", properties), apps=tmp_path / "apps.json")
        whys.append(Counter(each.why for each in found.losses if each.effect is Effect.DECIDES))
    assert [sum(count for why, count in each.items() if "virtual cores of abs" in why) for each in whys] == [0, 1]
    assert [sum(count for why, count in each.items() if "one each is assumed" in why) for each in whys] == [0, 7]
    assert [sum(count for why, count in each.items() if "Spark" in why) for each in whys] == [6, 6]


class TestTheFairSchedulersPreemption:
    SITE: ClassVar = {
        "yarn.resourcemanager.scheduler.class": "org.apache.hadoop.yarn.server.FairScheduler",
        "yarn.scheduler.fair.preemption": "true",
        "yarn.nodemanager.resource.memory-mb": 10240,
    }

    def found(self, folder: Path, of_prod: str, maximum: str = "2048 mb, 2 vcores", of_all: str = "") -> Imported:
        path = folder / "fair.xml"
        path.write_text(
            f"<allocations><queue name='prod'><weight>3.0</weight>{of_prod}</queue>"
            f"<queue name='adhoc'><maxResources>{maximum}</maxResources></queue>{of_all}</allocations>"
        )
        return imported(site=hadoop(folder, "site.xml", self.SITE), fair=path, nodes=4)

    def test_each_queue_has_its_times_and_what_it_does_not_say_is_inherited(self, tmp_path: Path) -> None:
        found = self.found(
            tmp_path,
            "<fairSharePreemptionTimeout>3600</fairSharePreemptionTimeout><minResources>4096 mb, 1 vcores"
            "</minResources><minSharePreemptionTimeout>9223372036854775807</minSharePreemptionTimeout>"
            "<allowPreemptionFrom>false</allowPreemptionFrom><schedulingPolicy>fifo</schedulingPolicy>",
            of_all="<defaultFairSharePreemptionThreshold>0.8</defaultFairSharePreemptionThreshold>"
            "<defaultMinSharePreemptionTimeout>60</defaultMinSharePreemptionTimeout>"
            "<defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>",
        )
        allocation = found.experiment["scheduler"]["allocation"]
        assert allocation["preemption"]["max_wait_before_kill_s"] == 15.0
        assert allocation["preemption"]["cluster_utilization_threshold"] == 0.8
        of_root = {"fair_share_preemption_threshold": 0.8, "min_share_preemption_timeout_s": 60.0}
        assert allocation["settings"] == {
            "root": {"fair": of_root, "ordering_policy": "drf"},
            "prod": {
                "fair": {
                    "weight": 3.0,
                    "min_share": 0.1,
                    "min_share_preemption_timeout_s": 1e8,
                    "fair_share_preemption_timeout_s": 3600.0,
                },
                "ordering_policy": "fifo",
                "disable_preemption": True,
            },
            "adhoc": {"fair": {"weight": 1.0}, "ordering_policy": "drf"},
        }
        assert [loss.what.partition("=")[0] for loss in found.losses if loss.effect is Effect.DECIDES] == [
            "yarn.resourcemanager.scheduler.class"
        ]

    def test_without_a_timeout_nobody_preempts(self, tmp_path: Path) -> None:
        found = self.found(tmp_path, "<fairSharePreemptionThreshold>0.8</fairSharePreemptionThreshold>")
        assert found.experiment["scheduler"]["allocation"]["preemption"] is None
        assert found.experiment["scheduler"]["mechanism"] == "wait"
        assert [loss.what.partition("=")[0] for loss in found.losses if loss.effect is Effect.DECIDES] == [
            "yarn.resourcemanager.scheduler.class",
        ]

    @pytest.mark.parametrize(
        ("maximum", "share"),
        [
            *(("2048 mb, 2 vcores", 0.05), ("vcores=2, memory-mb=2048", 0.05), ("5%", 0.05)),
            *(("50% cpu, 5% memory", 0.05), ("vcores=50%, memory-mb=5%", 0.05), ("40960 mb,0vcores", 0.25)),
        ],
    )
    def test_a_cap_below_the_share_of_a_queue_is_a_cap(self, tmp_path: Path, maximum: str, share: float) -> None:
        queues = self.found(tmp_path, "", maximum).experiment["scheduler"]["allocation"]["queues"]
        assert queues["prod"] == {"capacity": 1 - share, "maximum": 1.0}, "what adhoc may not have"
        assert queues["adhoc"]["capacity"] == pytest.approx(share)
        assert queues["adhoc"]["maximum"] == pytest.approx(share if share < 0.25 else 1.0)
