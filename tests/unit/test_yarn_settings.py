"""Each setting of YARN that counts as modelled is read: without it, or with another value, another experiment comes of
the files.

What each then decides is compared with recorded runs (``test_yarn_records``), with worked examples of Hadoop's
documentation (``test_yarn_users``), or follows its words (``test_yarn_fair``).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ConfigError
from workloads.setting_effects import Effect, settings_of
from workloads.yarn.experiment import Sources, import_yarn
from workloads.yarn.queues import PREFIX

POLICY = "yarn.resourcemanager.monitor.capacity.preemption."
WITHIN = f"{POLICY}intra-queue-preemption."
ALLOCATION_FILE = "yarn.scheduler.fair.allocation.file"
SITE = {
    "yarn.nodemanager.resource.memory-mb": "16384",
    "yarn.nodemanager.resource.cpu-vcores": "6",
    "yarn.scheduler.minimum-allocation-mb": "2048",
    "yarn.scheduler.minimum-allocation-vcores": "3",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "2000",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "60000",
    "yarn.cluster.max-application-priority": "5",
    "yarn.app.mapreduce.am.resource.mb": "4096",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    "yarn.resourcemanager.scheduler.monitor.policies": "other.Policy,a.ProportionalCapacityPreemptionPolicy",
    f"{POLICY}observe_only": "false",
    f"{POLICY}monitoring_interval": "1000",
    f"{POLICY}max_wait_before_kill": "5000",
    f"{POLICY}total_preemption_per_round": "0.5",
    f"{POLICY}max_ignored_over_capacity": "0.3",
    f"{POLICY}natural_termination_factor": "0.7",
    f"{POLICY}select_based_on_reserved_containers": "true",
    f"{POLICY}additional_res_balance_based_on_reserved_containers": "true",
    f"{WITHIN}enabled": "true",
    f"{WITHIN}minimum-threshold": "0.6",
    f"{WITHIN}max-allowable-limit": "0.4",
}
QUEUES = {
    "resource-calculator": "a.DominantResourceCalculator",
    "per-node-heartbeat.maximum-offswitch-assignments": "4",
    "per-node-heartbeat.multiple-assignments-enabled": "true",
    "per-node-heartbeat.maximum-container-assignments": "3",
    "minimum-user-limit-percent": "50",
    "user-limit-factor": "3",
    "maximum-am-resource-percent": "0.3",
    "max-parallel-apps": "20",
    "root.queues": "a,b",
    "root.a.capacity": "40",
    "root.a.maximum-capacity": "80",
    "root.a.priority": "2",
    "root.a.max-parallel-apps": "4",
    "root.a.disable_preemption": "true",
    "root.a.minimum-user-limit-percent": "25",
    "root.a.user-limit-factor": "2",
    "root.a.user-settings.ann.weight": "1.5",
    "root.a.maximum-am-resource-percent": "0.2",
    "root.b.queues": "c,d",
    "root.b.capacity": "60",
    "root.b.c.capacity": "50",
    "root.b.d.capacity": "50",
}
FAIR_SITE = {
    "yarn.nodemanager.resource.memory-mb": "16384",
    "yarn.resourcemanager.scheduler.class": "a.FairScheduler",
    ALLOCATION_FILE: "fair.xml",
    "yarn.scheduler.fair.preemption": "true",
    "yarn.scheduler.fair.preemption.cluster-utilization-threshold": "0.5",
    "yarn.scheduler.fair.waitTimeBeforeKill": "5000",
    "yarn.scheduler.fair.assignmultiple": "true",
    "yarn.scheduler.fair.max.assign": "3",
    "yarn.scheduler.fair.update-interval-ms": "250",
}
FAIR = """<allocations>
<queue name="a">
<weight>2.0</weight>
<maxRunningApps>4</maxRunningApps>
<minResources>4096 mb,1 vcores</minResources>
<maxResources>49152 mb,9 vcores</maxResources>
<minSharePreemptionTimeout>20</minSharePreemptionTimeout>
<fairSharePreemptionTimeout>40</fairSharePreemptionTimeout>
<fairSharePreemptionThreshold>0.7</fairSharePreemptionThreshold>
<allowPreemptionFrom>false</allowPreemptionFrom>
</queue>
<pool name="b"><weight>1.0</weight></pool>
<queue name="c">
<queue name="d"><weight>3.0</weight></queue>
</queue>
<queueMaxAppsDefault>20</queueMaxAppsDefault>
<queueMaxResourcesDefault>90%</queueMaxResourcesDefault>
<defaultFairSharePreemptionTimeout>80</defaultFairSharePreemptionTimeout>
<defaultMinSharePreemptionTimeout>60</defaultMinSharePreemptionTimeout>
<defaultFairSharePreemptionThreshold>0.6</defaultFairSharePreemptionThreshold>
</allocations>"""
OTHERS = {
    f"{POLICY}observe_only": "true",
    "yarn.resourcemanager.scheduler.monitor.policies": "other.Policy",
    f"{PREFIX}per-node-heartbeat.multiple-assignments-enabled": "false",
}
"""The settings that the files have as they are by default: what they are changed to."""


def application(number: int, user: str, priority: int, memory_mb: int) -> dict[str, Any]:
    return {
        "id": f"application_1_000{number}",
        "user": user,
        "queue": "root.a",
        "priority": priority,
        "startedTime": 1000 * number,
        "finishedTime": 1000 * number + 100_000,
        "elapsedTime": 100_000,
        "memorySeconds": memory_mb * 500,
        "vcoreSeconds": 500,
        "allocatedVCores": -1,
        "runningContainers": -1,
    }


APPLICATIONS = [application(1, "ann", 7, 2048), application(2, "bob", 0, 5000)]


@dataclass
class Files:
    """A site's files before they are written."""

    site: dict[str, str]
    capacity: dict[str, str] = field(default_factory=dict)
    fair: str = ""
    applications: list[dict[str, Any]] = field(default_factory=list)

    def without(self, of: str, key: str) -> int:
        """Take a setting out, or change it, wherever it is; how often it was there."""
        if of == "fair-scheduler.xml":
            self.fair, count = re.subn(f"<{key}(?: name=.[bd].)?>.*</{key}>\n", "", self.fair)
            return count
        settings = self.site if of == "yarn-site.xml" else self.capacity
        form = re.escape(key).replace("<queue>", "root(?:[.][a-d])*").replace("<user>", "[a-z]+")
        found = [name for name in settings if re.fullmatch(form, name) and name != f"{PREFIX}root.queues"]
        for name in found:
            del settings[name]
            if name in OTHERS:
                settings[name] = OTHERS[name]
        return len(found)

    def read(self, folder: Path) -> object:
        """What decides: the experiment and its applications; or that the files are wrong."""
        for name, settings in (("site.xml", self.site), ("capacity.xml", self.capacity)):
            rows = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
            (folder / name).write_text(f"<configuration>{''.join(rows)}</configuration>")
        (folder / "fair.xml").write_text(self.fair)
        (folder / "apps.json").write_text(json.dumps({"apps": {"app": self.applications}}))
        site, apps = folder / "site.xml", folder / "apps.json" if self.applications else None
        scheduler, fair = (None, site) if self.fair else (folder / "capacity.xml", None)
        try:
            found = import_yarn(Sources(site, scheduler, fair, apps, 4), "mine")
        except ConfigError as error:
            return type(error)
        return found.experiment, None if found.applications is None else found.applications.jobs


def sites() -> dict[str, Files]:
    """One with applications of several sizes, one without applications, and one of the FairScheduler."""
    capacity = {f"{PREFIX}{key}": value for key, value in QUEUES.items()}
    return {
        "sizes": Files({**SITE}, {**capacity}, applications=APPLICATIONS),
        "one size": Files({**SITE}, {**capacity}),
        "fair": Files({**FAIR_SITE}, fair=FAIR),
    }


MODELLED = [(each.of, each.key) for each in settings_of("yarn").settings if each.effect is Effect.MODELLED]


@pytest.mark.parametrize(("of", "key"), MODELLED)
def test_a_setting_that_is_modelled_is_read(of: str, key: str, tmp_path: Path) -> None:
    changed = []
    for name, files in sites().items():
        before = files.read(tmp_path)
        assert isinstance(before, tuple), name
        if files.without(of, key):
            changed.append(files.read(tmp_path) != before)
    assert changed, "the files have it"
    assert any(changed)
