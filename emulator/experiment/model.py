"""The experiment file: YAML to frozen, validated models, and back.

Every key and its meaning is a contract (other tools read and write these files).  Quantities carry their unit
in their name: ``_s`` emulated seconds, ``_gb`` GiB, ``_mb`` MiB (traffic: 10^6 bytes), ``_mbit_s`` 10^6 bits
a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from operator import not_
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import ConfigDict, Field, PlainValidator, ValidationError, field_validator, model_validator

from emulator.costs.overheads import TierNumbers
from emulator.experiment.availability import Availability
from emulator.files.strict import Name, Strict, written_as
from emulator.files.times import PositiveSeconds, Seconds
from emulator.files.yaml_values import Location, dump_yaml
from emulator.policies.axes import ALLOCATION, AUTO
from emulator.policies.policy import AllocationPolicy, Maximum, SchedulerAllocation, TakesBack
from emulator.policies.resources import vector_of
from emulator.sites.basis import Basis
from emulator.storage.objects import SCHEMES
from emulator.vocabulary import ReclaimMechanism
from workloads.schema import (
    BimodalEntry,
    Fraction,
    GoogleDayEntry,
    JobEntry,
    PoissonEntry,
    Progress,
    Resources,
    TraceEntry,
)

Size = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
PositiveSize = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Policy = Annotated[str, Field(min_length=1)]
"""The name of a policy on its axis, or ``module:function`` for the user's own."""

_STORES = "s3://bucket/prefix or webhdfs://namenode:9870/prefix"


class Speculation(Strict):
    """When a straggling reduce gets a second attempt (natjam, section 3.2); the defaults are Hadoop's."""

    margin: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """How far its progress rate, in keys a second, is below the mean of its job, as a share of that mean."""
    after_s: PositiveSeconds = 60.0
    """It must have run for this time since it was launched or resumed."""
    at_most: Fraction = 0.1
    """Share of the job's running reduces that may have a second attempt at a time; always at least one."""


class Protocol(Strict):
    """Periods and limits of the protocol (natjam, section 3); a period of null is ``heartbeat_s``."""

    preemptor_period_s: PositiveSeconds | None = None
    estimate_period_s: PositiveSeconds | None = None
    task_heartbeat_s: PositiveSeconds | None = None
    kill_timeout_s: PositiveSeconds = 12.0
    """How long a reclaim request may stay unanswered before a container is killed (natjam, section 3.2)."""
    expired_s: Seconds = 2.0
    """How long a killed request stays on the expired list (natjam, section 3.2)."""
    slow_start: Fraction = 0.05
    """Share of a job's maps that must be done before its reduces start."""
    resume_order: Literal["suspended-first"] = "suspended-first"
    node_expiry_s: PositiveSeconds = 600.0
    """The ResourceManager declares a node lost that has been silent for this time."""
    task_timeout_s: PositiveSeconds = 600.0
    """A live task without a sign of life for this time, and for 30 real seconds, has failed.  A run without progress
    for this time (in a simulation also for 1000 heartbeats) is ended as failed."""
    task_attempts_max: Annotated[int, Field(ge=1, le=1000)] = 4
    """A task with this many failures fails its job; suspensions and kills by preemption do not count."""
    am_attempts: Annotated[int, Field(ge=1, le=1000)] = 2
    """A job fails after this many failures of its ApplicationMaster; those lost with their node do not count (as in
    YARN)."""
    node_blacklist_failures: Annotated[int, Field(ge=1, le=100_000)] = 3
    """A job avoids a node after this many failures of its attempts there, unless a third of the nodes would be avoided.
    """
    speculation: Speculation | None = None
    """Null: stragglers get no second attempt; ``{}``: they get one, by the defaults."""
    news: Literal["heartbeat", "out-of-turn", "at-once"] = "heartbeat"
    """How the scheduler is notified: in heartbeats; also in one out of turn when a container ends (Hadoop 1); at once
    (kube-scheduler, Kueue, Slurm).  See ``emulator.core.settings.News``."""


class Slots(Strict):
    """Containers of one node, separate for maps and reduces, as in Hadoop 1."""

    map: Annotated[int, Field(ge=0, le=10_000)]
    reduce: Annotated[int, Field(ge=0, le=10_000)]

    @model_validator(mode="after")
    def _some(self) -> Slots:
        if not self.map + self.reduce:
            raise ValueError("a node needs at least one slot, for maps or for reduces")
        return self


class Power(Strict):
    """Power of a machine in watts: from idle to busy, linear in the share of its containers that are at work.

    The defaults are SPECpower_ssj2008's active idle and full load of an IBM System x3550 M3 with two Xeon X5670
    (result 20100315-00239), of the same generation as the machines in adaptive-checkpointing, section 3.3.1.
    """

    idle_w: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 66.0
    busy_w: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 247.0

    @model_validator(mode="after")
    def _ordered(self) -> Power:
        if self.busy_w < self.idle_w:
            raise ValueError(f"busy_w {self.busy_w:g} is below idle_w {self.idle_w:g}; raise it")
        return self

    def energy_j(self, machines: int, span_s: float, busy_machine_s: float) -> float:
        """Energy of all machines in ``span_s``; ``busy_machine_s`` is their busy time, summed over machines."""
        return machines * span_s * self.idle_w + busy_machine_s * (self.busy_w - self.idle_w)


MEMORY, CPU = "memory_gb", "cpu"
"""Resources of which a container of the usual size has so much; see ``Cluster.containers``."""


def _usual_containers(resources: Mapping[str, float], container_memory_gb: float) -> int:
    """Containers of the usual size, 1 ``cpu`` and ``container_memory_gb``, that fit on an empty node, at least 1."""
    fitting = [int(resources[CPU])] if CPU in resources else []
    fitting += [int(resources[MEMORY] / container_memory_gb)] if MEMORY in resources else []
    return max(1, min(fitting, default=1))


def filled_in(cluster: dict[Any, Any]) -> dict[Any, Any]:
    """The cluster as written, with the keys that its ``node_groups`` give.  What is no valid group is left alone: its
    own model says so."""
    groups: list[NodeGroup] = []
    for group in cluster["node_groups"] if isinstance(cluster["node_groups"], list | tuple) else ():
        with suppress(ValidationError):
            groups.append(NodeGroup.model_validate(group))
    container_memory_gb = cluster.get("container_memory_gb", 1.0)
    if type(container_memory_gb) not in (int, float) or not 0 < container_memory_gb <= 1e9:
        container_memory_gb = 1.0
    nodes = sum(group.count for group in groups)
    fitting = [_usual_containers(group.resources, container_memory_gb) for group in groups]
    memories = [group.resources[MEMORY] for group in groups if group.resources.get(MEMORY)]
    filled: dict[str, Any] = {"nodes": max(1, nodes), "containers_per_node": min(10_000, max(fitting, default=1))}
    if memories:
        filled["memory_gb"] = float(max(memories))
    return {**filled, **cluster}


class NodeGroup(Strict):
    """Nodes of one kind, whose containers have the sizes that their tasks ask for."""

    count: Annotated[int, Field(ge=1, le=100_000)]
    name: Name | None = None
    """The name of the group's only node; null: its nodes are called ``node-1`` and so on, by their places."""
    resources: Annotated[Resources, Field(min_length=1)]
    """What a node has: ``{cpu: 8, memory_gb: 32, gpu: 2}``, by any names."""
    labels: dict[Annotated[str, Field(min_length=1)], str] = Field(default_factory=dict)
    """What distinguishes these nodes, for policies: ``{zone: a, flavor: spot}``."""

    @model_validator(mode="after")
    def _one_name(self) -> NodeGroup:
        if self.name is not None and self.count > 1:
            raise ValueError(f"name: is of one node, not of {self.count}; remove it, or give each a group of its own")
        return self


class Cluster(Strict):
    """The emulated cluster."""

    nodes: Annotated[int, Field(ge=1, le=100_000)]
    """With ``node_groups`` their sum, and left out."""
    containers_per_node: Annotated[int, Field(ge=1, le=10_000)]
    """With ``node_groups``, how many containers of the usual size fit on the largest node, and left out."""
    container_memory_gb: PositiveSize = 1.0
    """Memory of one container; with ``node_groups``, what a task asks for that does not say it."""
    node_groups: Annotated[tuple[NodeGroup, ...], Field(min_length=1)] | None = None
    """Instead of ``nodes`` and ``containers_per_node``: nodes with resources, and containers of any size."""
    suspended_hold: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """With ``node_groups``: the resources that a stopped process goes on holding.  Null: ``memory_gb`` and ``gpu``; a
    cluster that frees the memory of stopped processes by swapping them out names only ``gpu``."""
    master_resources: Resources | None = None
    """With ``node_groups``: what an ApplicationMaster asks for.  Null: 1 ``cpu`` and ``container_memory_gb``."""
    memory_gb: PositiveSize = 16.0
    """Memory of one node; with ``node_groups`` that have ``memory_gb``, of the largest, and left out.  Stopped
    processes keep theirs, and it counts against ``memory_gb + swap_gb``."""
    swap_gb: Size = 0.0
    max_suspended_per_node: Annotated[int, Field(ge=0, le=100_000)] = 8
    racks: Annotated[int, Field(ge=1)] = 1
    """The nodes stand in so many, by their numbers, as evenly as can be; see the placement ``prefer-local``."""
    network_mbit_s: PositiveSize = 1000.0
    """Speed at which one reduce fetches map outputs from other nodes, in emulated time; reduces do not share it."""
    slow_nodes: dict[str, Annotated[float, Field(ge=1, le=1000)]] = Field(default_factory=dict)
    """By name (``node-1`` and so on): the factor by which the work of a task takes longer there."""
    small_nodes: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    """By name: the share of ``containers_per_node``, and of ``slots``, that the node has, rounded down."""
    slots: Slots | None = None
    """Divides all containers of a node into some for maps only and some for reduces only; null: each runs any task."""
    application_masters: Literal["in-containers", "outside"] = "in-containers"
    """Whether an ApplicationMaster takes a container; ``outside``: none does, as in Hadoop 1."""
    availability: Availability | None = None
    """Containers available to jobs, as a function of time; null: always all."""
    power: Power = Power()
    """Power of each node."""

    @model_validator(mode="before")
    @classmethod
    def _of_groups(cls, data: Any) -> Any:
        return filled_in(data) if isinstance(data, dict) and data.get("node_groups") is not None else data

    @model_validator(mode="before")
    @classmethod
    def _of_slots(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "containers_per_node" in data or not isinstance(data.get("slots"), dict):
            return data
        counts = data["slots"].values()
        return {**data, "containers_per_node": max(1, sum(count for count in counts if type(count) is int))}

    @property
    def node_names(self) -> list[str]:
        """The names of all nodes."""
        given = [group.name for group in self.node_groups or () for _ in range(group.count)] or [None] * self.nodes
        return [name or f"node-{number}" for number, name in enumerate(given, start=1)]

    @cached_property
    def containers(self) -> int:
        """Containers of all nodes together; with ``node_groups``, of the usual size."""
        return sum(map(self.containers_of, self.node_names))

    def containers_of(self, node: str) -> int:
        """Containers of one node."""
        group = self.group_of(node)
        if group is not None:
            return _usual_containers(group.resources, self.container_memory_gb)
        slots = self.slots_of(node)
        return self._part(node, self.containers_per_node) if slots is None else sum(slots)

    @cached_property
    def _groups_by_node(self) -> dict[str, NodeGroup]:
        groups = [group for group in self.node_groups or () for _ in range(group.count)]
        return dict(zip(self.node_names, groups, strict=False))

    def group_of(self, node: str) -> NodeGroup | None:
        """The group of one node; None: containers have one size."""
        return self._groups_by_node.get(node)

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """The names of the resources, in the order of all vectors; none where containers have one size."""
        return tuple(dict.fromkeys(name for group in self.node_groups or () for name in group.resources))

    @cached_property
    def groups_by_size(self) -> dict[tuple[int, ...], list[int]]:
        """The numbers of the node groups whose nodes have the same: an imported site has a group for each node, and few
        sizes."""
        found: dict[tuple[int, ...], list[int]] = {}
        for number, group in enumerate(self.node_groups or ()):
            found.setdefault(vector_of(group.resources, self.resource_names), []).append(number)
        return found

    def request(self, resources: Mapping[str, float] | None, memory_gb: float | None = None) -> tuple[int, ...]:
        """What a task asks for: ``resources``, of which it may leave out ``cpu`` (1) and ``memory_gb`` (what it uses,
        else ``container_memory_gb``)."""
        usual = {"cpu": 1.0, "memory_gb": self.container_memory_gb if memory_gb is None else memory_gb}
        return vector_of({**usual, **(resources or {})}, self.resource_names)

    def slots_of(self, node: str) -> tuple[int, int] | None:
        """Slots of one node for maps and for reduces."""
        return None if self.slots is None else (self._part(node, self.slots.map), self._part(node, self.slots.reduce))

    def _part(self, node: str, count: int) -> int:
        part = self.small_nodes.get(node)
        return count if part is None else int(Decimal(str(part)) * count)


class Live(Strict):
    """Settings for the live engine only."""

    memory_scale: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Real bytes of memory and swap per emulated byte, for tasks and for nodes."""
    memory: Literal["node", "container"] = "node"
    """What is limited, as root: the memory of all tasks of a node together, or also each container's to what its task
    asks for, with a share of the processors in proportion to its ``cpu``."""


class Storage(Strict):
    """Where output, checkpoints and images go: ``url`` null is the run directory, else a path or the URL of a store."""

    url: Annotated[str, Field(min_length=1)] | None = None
    tier: Annotated[str, Field(min_length=1)] | TierNumbers | None = None
    """The kind of each node's storage device, for process images; see ``emulator.costs.overheads``."""
    incremental: bool = True
    """Whether a later image of a task holds only what has changed since the image before."""

    @field_validator("url")
    @classmethod
    def _path_or_store(cls, url: str | None) -> str | None:
        scheme, separator, _ = (url or "").partition("://")
        if separator and scheme not in SCHEMES:
            raise ValueError(f"'{scheme}://' is not known; write a path, {_STORES}")
        if separator and not urlsplit(url).netloc:
            raise ValueError(f"names no store; write {_STORES}")
        _ = urlsplit(url).port  # raises ValueError if it is no number
        return url


class Queue(Strict):
    """Share of the cluster's containers that a queue is guaranteed, and the most it may hold."""

    capacity: Fraction
    maximum: Fraction
    grace_s: Seconds = 0.0
    """How long a task of it that is evicted by a kill may still run after SIGTERM, before SIGKILL; a job may say
    otherwise, here and below."""
    minimum_runtime_s: Seconds = 0.0
    """How long a task of it runs, since it last started or resumed, before it may be a victim."""
    checkpoint_period_s: PositiveSeconds | None = None
    """How often a task of it saves by itself what it has done; null: never."""
    mechanism: ReclaimMechanism | None = None
    """What happens to a task of it that is reclaimed; null: ``scheduler.mechanism``."""


class Allocation(Strict):
    """How many containers each queue may hold.

    The ``maximum`` of a queue defaults to 1, and under ``hard-cap`` to its ``capacity``.  Options of the allocation are
    keys beside its name.  Under an allocation that gives shares, ``capacity`` is the minimum that the queue's jobs
    share, and ``queues`` defaults to one queue called ``default`` without a minimum.
    """

    model_config = ConfigDict(extra="allow")

    name: Policy
    queues: Annotated[dict[str, Queue], Field(min_length=1)]

    @property
    def known(self) -> AllocationPolicy | None:
        """The allocation of natjam that it names; None: it is the user's own."""
        return ALLOCATION.by_name.get(self.name)

    @property
    def options(self) -> dict[str, Any]:
        """What its policy gets: the keys beside its name, and to a scheduler that asks for them the shares of queues.
        FLEX has its own options for queues."""
        options, known = self.model_extra or {}, self.known
        if not isinstance(known, SchedulerAllocation) or known.options is None:
            return options
        if "queues" not in known.options.__struct_fields__:
            return options
        shares = {name: {"capacity": of.capacity, "maximum": of.maximum} for name, of in self.queues.items()}
        return {**options, "queues": shares}

    @model_validator(mode="before")
    @classmethod
    def _default_maximum(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = ALLOCATION.by_name.get(data["name"]) if isinstance(data.get("name"), str) else None
        if known is not None and known.queues.may_be_left_out and "queues" not in data:
            data = {**data, "queues": {"default": {"capacity": 0.0}}}
        if not isinstance(data.get("queues"), dict):
            return data
        is_capped = known is not None and known.queues.maximum is Maximum.CAPACITY
        queues = {}
        for name, queue in data["queues"].items():
            if isinstance(queue, dict) and "maximum" not in queue and "capacity" in queue:
                queue = {**queue, "maximum": queue["capacity"] if is_capped else 1.0}
            queues[name] = queue
        return {**data, "queues": queues}


class Choice(Strict):
    """The name of a policy, with its options as keys beside it."""

    model_config = ConfigDict(extra="allow")

    name: Policy

    @property
    def options(self) -> dict[str, Any]:
        """The options as written; they are checked when the policy is looked up."""
        return self.model_extra or {}


class Placement(Choice):
    """Where a suspended task is resumed."""

    name: Policy = "prefer-local"


class TriggerEntry(Strict):
    """An action on a task when a job has reached some progress (os-assisted-preemption, section III-B)."""

    when: Progress
    do: Literal["suspend", "resume", "kill"]
    """A suspended task stays suspended until it is resumed or killed; a killed task starts again."""
    task: Annotated[str, Field(min_length=1)]
    """``JOB/m0`` for the first map of a job, ``JOB/r0`` for its first reduce."""


class SpareEntry(Strict):
    """Protects a task that was often suspended, against thrashing (os-assisted-preemption, section III-A)."""

    suspensions: Annotated[int, Field(ge=1, le=1000)]
    """A task is spared after this many suspensions"""
    within_s: PositiveSeconds
    """within this time, the last one included."""


class Scheduler(Strict):
    """A choice on each axis: the name of a policy, or a mapping of ``name`` and its options.

    ``mechanism`` defaults to ``wait`` under an allocation that never preempts or gives shares, else to ``checkpoint``.
    """

    allocation: Allocation
    job_selection: Policy | Choice = AUTO
    """``auto``: as ``job_eviction`` dictates."""
    allow_inconsistent: bool = False
    """Accept a job selection other than the one ``job_eviction`` dictates.  The two may then suspend and resume the
    same job again and again (natjam, section 4)."""
    job_eviction: Policy | Choice = "mr"
    task_eviction: Policy | Choice = "srt"
    mechanism: Policy | Choice
    victims: Literal["reduces", "all"] = "reduces"
    """The tasks that may be preempted: reduces, as in the papers, or maps too."""
    placement: Policy | Placement = "prefer-local"
    resume_order: Policy | Choice = "suspended-first"
    fit: Policy | Choice = "offered"
    """The rule that chooses the node of a new container."""
    epoch_s: PositiveSeconds = 0.5
    """How long shares are valid, under an allocation that gives shares (flex, section 4.2)."""
    triggers: tuple[TriggerEntry, ...] = ()
    """A static list of preemptions, in addition to those of the policies."""
    spare_after: SpareEntry | None = None
    """Null: a task may be suspended any number of times.  The job of a spared task gives back another container; if it
    has none, one is killed after ``protocol.kill_timeout_s``."""

    def choice(self, axis: str) -> Choice:
        """The chosen policy on ``axis``."""
        value = getattr(self, axis)
        if isinstance(value, Allocation):
            return Choice(name=value.name, **value.options)
        return value if isinstance(value, Choice) else Choice(name=value)

    @model_validator(mode="before")
    @classmethod
    def _default_mechanism(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "mechanism" in data:
            return data
        allocation = data.get("allocation")
        name = allocation.get("name") if isinstance(allocation, dict) else None
        known = ALLOCATION.by_name.get(name) if isinstance(name, str) else None
        waits = known is not None and known.takes_back is not TakesBack.ALWAYS
        return {**data, "mechanism": "wait" if waits else "checkpoint"}


class Only(Strict):
    """Runs only a part of the workload, with the same jobs as in the whole.

    The part is the jobs of ``queues`` (as production only), and of these the jobs named in ``jobs`` (one job alone is
    the ideal of natjam, section 5).  Null: all.
    """

    queues: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    jobs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    def holds(self, job: str, queue: str) -> bool:
        """Whether ``job`` of ``queue`` is run."""
        return (self.queues is None or queue in self.queues) and (self.jobs is None or job in self.jobs)


class Simulation(Strict):
    """Settings for the sim engine only."""

    journal: Literal["full", "messages", "off"] = "messages"
    """``messages``: without the effects that the machines returned, because replay computes them; half the work of
    ``full``.  ``off``: no journal, and so no replay."""
    every_heartbeat: bool = False
    """Also run heartbeats that carry and change nothing.  For a check: only the real time of the run differs."""


class Workload(Strict):
    """The jobs: listed, imported from a trace, or drawn."""

    jobs: Annotated[tuple[JobEntry, ...], Field(min_length=1)] | None = None
    trace: TraceEntry | None = None
    bimodal: BimodalEntry | None = None
    poisson: PoissonEntry | None = None
    google_day: GoogleDayEntry | None = None
    lengths_known: bool = False
    """Whether the scheduler knows the mean length of the maps and of the reduces of every job, as it may for jobs that
    are run regularly (flex, section 2.5)."""
    only: Only | None = None


def located_jobs(workload: Workload | None) -> Iterator[tuple[Location, JobEntry]]:
    """The jobs that are listed, each with its place in the experiment file; None: the workload is not valid."""
    for index, job in enumerate(workload.jobs or () if workload is not None else ()):
        yield ("workload", "jobs", index), job


class Experiment(Strict):
    """One experiment: everything a run needs to know."""

    name: Annotated[
        str,
        written_as(
            r"^[A-Za-z0-9][A-Za-z0-9._-]*$", "letters, digits and . _ -, and begin with a letter or a digit", 100
        ),
    ]
    engine: Literal["live", "sim", "fluid"] = "live"
    time_scale: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)] = 1.0
    """Emulated seconds per real second."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    repeats: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Repeat k runs with ``seed + k - 1``."""
    overheads: Annotated[str, Field(min_length=1)] = "native"
    calibration: Annotated[str, Field(min_length=1)] | None = None
    """Where the sim engine takes the machine's own costs from: ``auto`` (this machine's calibration) or a calibration
    file.  Null: this machine's under ``overheads: native``; none under a published profile, so that a simulation gives
    the same results everywhere."""
    heartbeat_s: PositiveSeconds = 1.0
    protocol: Protocol = Protocol()
    cluster: Cluster
    storage: Storage = Storage()
    live: Live = Live()
    sim: Simulation = Simulation()
    scheduler: Scheduler
    workload: Workload
    basis: Annotated[Basis, PlainValidator(lambda given: msgspec.convert(given, Basis))] = Field(
        default=Basis(), exclude_if=not_
    )
    """What an import found to decide at its site that is not modelled, and what it left out; every answer shows it."""

    @property
    def journal(self) -> Literal["full", "messages", "off"]:
        """What the journal of a run keeps; a live run's journal keeps everything."""
        return self.sim.journal if self.engine == "sim" else "full"


def dump_experiment(experiment: Experiment) -> str:
    """The experiment as YAML, with defaults and absolute paths; loading it gives the same experiment anywhere."""
    return dump_yaml(experiment.model_dump(mode="json", fallback=msgspec.to_builtins))


def dump_settings(experiment: Experiment, jobs: Any) -> str:
    """As ``dump_experiment``, with ``jobs`` instead of the workload's own."""
    data = experiment.model_dump(mode="json", fallback=msgspec.to_builtins, exclude={"workload": {"jobs"}})
    return dump_yaml({**data, "workload": {"jobs": jobs, **data["workload"]}})
