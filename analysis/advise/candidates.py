"""The candidates to compare: every mechanism under the main policies, each as variants of a campaign.

Mechanisms are those of ``natjam policies``, and the experiment's own if it is a function of the user's.  ``adaptive``
chooses among all that preempt.  Policies are the experiment's own.  If queues take containers from each other (natjam,
section 2), there are also: the job with the most containers, or one drawn in proportion; the task with the least or the
most time left.  ``also`` adds policies of the user's.  With YARN's CapacityScheduler, what YARN can be told itself is
first: its preemption off, as configured, with each setting at its quickest and all of them, within queues, and with one
queue spared.  Each is a property of ``yarn-site.xml`` or ``capacity-scheduler.xml`` (Hadoop 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.advise.results import NO_POLICIES, Candidate
from emulator.campaign.definition import as_overrides
from emulator.campaign.directory import Variant
from emulator.core.job import JobSpec, counted_tasks
from emulator.errors import ConfigError
from emulator.experiment.checks.scheduler import YARN
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment, Scheduler
from emulator.live.dumpers.criu import why_no_criu
from emulator.policies.axes import JOB_EVICTION, MECHANISM, TASK_EVICTION
from emulator.policies.mechanism import TRAITS, makes_images
from emulator.policies.policy import TakesBack
from emulator.sites.yarn import FAIR_PREEMPTION
from emulator.vocabulary import Mechanism, counted
from workloads.schema import TraceEntry

WAIT = "wait"
_PRODUCTION = "production"
_NEEDS_TIER = tuple(policy.name for policy in MECHANISM.policies if makes_images(policy.among))
_DEFAULT_TIER = "ssd"
_AMONG_ALL = tuple(mechanism.value for mechanism in Mechanism if TRAITS[mechanism].frees_slot)
"""What ``adaptive`` chooses among here; by itself it has only the two of its paper."""
_ALSO = ("mechanism", "job_eviction", "task_eviction", "placement", "resume_order")
_NATJAM = (("mr", "srt"), ("mr", "lrt"), ("pr", "srt"))
"""Pairs of job eviction and task eviction."""

_ORDERS = {
    policy.name: policy.function.__name__.replace("_", " ")
    for axis in (JOB_EVICTION, TASK_EVICTION)
    for policy in axis.policies
}


def spelled_out(policies: str) -> list[str]:
    """The policies of a candidate, with the orders spelled out: "most resources (mr)"."""
    return [
        f"{_ORDERS[name]} ({name})" if _ORDERS.get(name, name) not in (name, name.replace("-", " ")) else name
        for name in policies.split(", ")
    ]


@dataclass(frozen=True, slots=True)
class Question:
    """The user's question: the workload, the queue whose jobs are urgent, and the ways to run it."""

    experiment: Experiment
    path: Path
    production: str
    queues: tuple[str, ...]
    """The production queue first."""
    candidates: tuple[Candidate, ...]
    assumed: tuple[str, ...]
    """Assumed settings that differ from the experiment's, in words."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Mechanisms that are no candidates, each with the reason."""

    @property
    def first(self) -> frozenset[str]:
        """The candidates of a first answer, by name: what YARN can be told itself, or the mechanisms under the first
        policies."""
        if settable := [one.name for one in self.candidates if one.properties is not None]:
            return frozenset(settable)
        policies = {NO_POLICIES, next(one.policies for one in self.candidates if one.policies != NO_POLICIES)}
        return frozenset(one.name for one in self.candidates if one.policies in policies)

    def variants(
        self, candidates: Sequence[Candidate], overrides: Sequence[str], seeds: Sequence[int]
    ) -> list[Variant]:
        """The candidates as variants of a campaign.  Raises ConfigError: one of them cannot be run."""
        keys = {one.name: [*overrides, *as_overrides(dict(one.overrides))] for one in candidates}
        return [Variant(name, load_experiment(self.path, given), tuple(seeds)) for name, given in keys.items()]


@dataclass(frozen=True, slots=True)
class Policies:
    """One set of policies that mechanisms are tried under."""

    name: str
    settings: Mapping[str, Any]
    kill_only: bool = False
    properties: tuple[str, ...] | None = None
    """See ``Candidate``."""


def make_question(path: Path, overrides: Sequence[str], production: str | None, also: Sequence[str] = ()) -> Question:
    """What to compare for the experiment in a file.

    Args:
        path: of the experiment.
        overrides: ``a.b=value`` each.
        production: the queue whose jobs are urgent; None: the one called ``production``, or else the file's first.
        also: ``scheduler.AXIS=module:function`` each: policies to compare too.

    Raises:
        ConfigError: the experiment is not valid, or nothing in it can be preempted.
    """
    experiment = load_experiment(path, [*overrides, "engine=sim"])
    names = list(experiment.scheduler.allocation.queues)
    if production is not None and production not in names:
        raise ConfigError(f"--production {production}: there is no such queue (queues: {', '.join(names)})")
    first = production or (_PRODUCTION if _PRODUCTION in names else names[0])
    queues = (first, *(name for name in names if name != first))
    assumed: list[str] = []
    own_mechanisms, own_policies = _of_the_user(also)
    policies = tuple(_policies(experiment.scheduler, queues, assumed))
    policies += tuple(Policies(name, {**policies[0].settings, **settings}) for name, settings in own_policies.items())
    left_out = _left_out(experiment)
    own = experiment.scheduler.choice("mechanism").name
    mechanisms = [name for name in dict.fromkeys([*MECHANISM.names, *own_mechanisms, own]) if name not in left_out]
    candidates = _candidates(experiment, policies, mechanisms, assumed, left_out)
    return Question(experiment, path, first, queues, tuple(candidates), tuple(assumed), left_out)


def _left_out(experiment: Experiment) -> dict[str, str]:
    """The mechanisms that do nothing for the experiment's programs, each with the reason."""
    if all(job.tasks is None or job.mechanism is not None for job in experiment.workload.jobs or ()):
        return {}
    left_out = {
        "checkpoint": "a program has no keys to save; set checkpoint_period_s if it saves by itself, and see kill"
    }
    if why := why_no_criu():
        left_out["image"] = f"programs are saved by criu: {why}"
    return left_out


def _of_the_user(also: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The user's mechanisms, and settings by name of the user's other policies."""
    mechanisms: list[str] = []
    others: dict[str, dict[str, Any]] = {}
    for text in also:
        key, _, name = text.partition("=")
        axis = key.removeprefix("scheduler.")
        if axis not in _ALSO or not name:
            raise ConfigError(f"--also {text}: write AXIS=MODULE:FUNCTION, with an axis of {', '.join(_ALSO)}")
        if axis == "mechanism":
            mechanisms.append(name)
        else:
            others[name] = {f"scheduler.{axis}": name}
    return mechanisms, others


def _candidates(
    experiment: Experiment,
    policies: Sequence[Policies],
    mechanisms: Sequence[str],
    assumed: list[str],
    left_out: Mapping[str, str],
) -> Iterator[Candidate]:
    """Waiting, then every mechanism under every set of policies; what YARN itself can do comes first."""
    is_fair = _is_fair(experiment.scheduler)
    off = None if policies[0].properties is None else (_FAIR_OFF if is_fair else _YARN_OFF,)
    waiting = {"mechanism": WAIT, "policies": NO_POLICIES}
    yield Candidate(waiting, {**policies[0].settings, "scheduler.mechanism": WAIT}, off)
    has_tier = experiment.storage.tier is not None or "image" in left_out
    tier = {} if has_tier else {"storage.tier": _DEFAULT_TIER}
    if tier:
        assumed.append(f"process images go to a storage device of the kind '{_DEFAULT_TIER}' (storage.tier)")
    own = experiment.scheduler.choice("mechanism")
    for mechanism in mechanisms:
        for one in policies if mechanism != WAIT else ():
            if one.kill_only and mechanism != "kill":
                continue
            settings: dict[str, Any] = {**one.settings, "scheduler.mechanism": mechanism}
            if mechanism == own.name and own.options:
                settings["scheduler.mechanism"] = {"name": own.name, **own.options}
            elif mechanism == "adaptive":
                settings["scheduler.mechanism"] = {
                    "name": mechanism,
                    "among": [name for name in _AMONG_ALL if name not in left_out],
                }
            settings |= tier if mechanism in _NEEDS_TIER else {}
            properties = one.properties if mechanism == "kill" else None
            yield Candidate({"mechanism": mechanism, "policies": one.name}, settings, properties)


def _policies(scheduler: Scheduler, queues: tuple[str, ...], assumed: list[str]) -> Iterator[Policies]:
    """The policies to compare, the experiment's own first."""
    allocation = scheduler.allocation
    known = allocation.known
    own = scheduler.choice("job_eviction").name, scheduler.choice("task_eviction").name
    if allocation.name == YARN:
        yield from _yarn_policies(scheduler, queues, assumed)
        if len(queues) > 1:
            yield Policies("two-queue, mr, srt", _two_queue(scheduler, queues, "mr", "srt"))
        return
    if known is not None and known.takes_back is not TakesBack.ALWAYS:
        if len(queues) < 2:
            raise ConfigError(
                f"the experiment has one queue under {allocation.name}, so nothing would be preempted; give it a queue"
                " production and another one, or name a trace (workload.trace.production_fraction splits its jobs)"
            )
        assumed.append(f"the allocation is two-queue, because {allocation.name} takes nothing back from a queue")
        for job, task in dict.fromkeys((own, *_NATJAM)) if _is_own(*own) else _NATJAM:
            yield Policies(f"{job}, {task}", _two_queue(scheduler, queues, job, task))
        return
    yield Policies(", ".join(own), {})
    # with one queue, job_eviction decides the order of jobs, so it is not changed
    for job, task in _NATJAM if len(queues) > 1 else ((own[0], "srt"), (own[0], "lrt")):
        if (job, task) != own:
            yield Policies(f"{job}, {task}", {"scheduler.job_eviction": job, "scheduler.task_eviction": task})


def _is_own(*names: str) -> bool:
    """Whether a policy is a function of the user's."""
    return any(":" in name for name in names)


def _two_queue(scheduler: Scheduler, queues: tuple[str, ...], job: str, task: str) -> dict[str, Any]:
    """Natjam's allocation instead of the experiment's.  A hard cap's maximum was the capacity; it is removed."""
    capped = scheduler.allocation.name == "hard-cap"
    shares = {name: scheduler.allocation.queues[name] for name in queues}
    return {
        "scheduler.allocation": {
            "name": "two-queue",
            "queues": {
                name: {"capacity": queue.capacity, "maximum": 1.0 if capped else queue.maximum}
                for name, queue in shares.items()
            },
        },
        "scheduler.job_selection": "auto",
        "scheduler.job_eviction": job,
        "scheduler.task_eviction": task,
    }


# ---- YARN's CapacityScheduler ----

_YARN_PREFIX = "yarn.resourcemanager.monitor.capacity.preemption."
_YARN_ON = "yarn.resourcemanager.scheduler.monitor.enable=true"
_YARN_OFF = "yarn.resourcemanager.scheduler.monitor.enable=false"
_QUICKER: dict[str, tuple[float, str, str]] = {
    "total_preemption_per_round": (1, "total_preemption_per_round", "1.0"),
    "natural_termination_factor": (1, "natural_termination_factor", "1.0"),
    "max_wait_before_kill_s": (1, "max_wait_before_kill", "1000"),
    "interval_s": (1, "monitoring_interval", "1000"),
    "max_ignored_over_capacity": (0, "max_ignored_over_capacity", "0.0"),
}
"""By our key: the value at its quickest, the property, and that value as YARN has it (milliseconds)."""
_TRIED_ALONE = (
    "total_preemption_per_round",
    "natural_termination_factor",
    "max_wait_before_kill_s",
    "max_ignored_over_capacity",
)
_WITHIN = (
    f"{_YARN_PREFIX}intra-queue-preemption.enabled=true",
    f"{_YARN_PREFIX}intra-queue-preemption.preemption-order-policy=priority_first",
)
_MOST_SPARED = 5
"""Most queues of which each is spared alone."""


def _yarn_policies(scheduler: Scheduler, queues: tuple[str, ...], assumed: list[str]) -> Iterator[Policies]:
    """What YARN can be told itself; ``queues``: the production queue first."""
    key = "scheduler.allocation.preemption"
    configured = scheduler.choice("allocation").options.get("preemption", {})
    if _is_fair(scheduler):
        yield from _fair_policies(scheduler, assumed)
        return
    if configured is not None:
        yield Policies("as configured", {}, properties=())
    else:
        assumed.append("YARN's preemption is on, with Hadoop's defaults, although the configuration has it off")
        yield Policies("Hadoop's defaults", {key: {}}, properties=(_YARN_ON,))
    base, on = dict(configured or {}), () if configured is not None else (_YARN_ON,)
    quickest = {**base, **{name: value for name, (value, _, _) in _QUICKER.items()}}
    yield Policies("YARN at its quickest", {key: quickest}, properties=(*on, *map(_property, _QUICKER)))
    for name in _TRIED_ALONE:
        value, _, shown = _QUICKER[name]
        if base.get(name) != value:
            label, settings = f"{_QUICKER[name][1]}={shown}", {key: {**base, name: value}}
            yield Policies(label, settings, kill_only=True, properties=(*on, _property(name)))
    if not base.get("intra_queue"):
        yield Policies(
            "within queues", {key: {**base, "intra_queue": True}}, kill_only=True, properties=(*on, *_WITHIN)
        )
    options = scheduler.choice("allocation").options
    spared = tuple(options.get("disable_preemption", ()))
    others = queues[1:] if 2 < len(queues) <= _MOST_SPARED else ()
    for queue in (each for each in queues[: len(queues) > 1] + others if each not in spared):
        settings = {key: base, "scheduler.allocation.disable_preemption": [*spared, queue]}
        path = _path_of(queue, options.get("parents", {}))
        properties = (*on, f"yarn.scheduler.capacity.{path}.disable_preemption=true")
        yield Policies(f"{queue} is spared", settings, kill_only=True, properties=properties)


_FAIR_ON, _FAIR_OFF = "yarn.scheduler.fair.preemption=true", "yarn.scheduler.fair.preemption=false"
_FAIR_QUICKER: dict[str, tuple[float, str]] = {
    "fair_share_preemption_timeout_s": (1.0, "defaultFairSharePreemptionTimeout=1"),
    "fair_share_preemption_threshold": (1.0, "defaultFairSharePreemptionThreshold=1.0"),
}
_WAITS_LEAST = "yarn.scheduler.fair.waitTimeBeforeKill=1000"


def _is_fair(scheduler: Scheduler) -> bool:
    """Whether YARN's FairScheduler decides."""
    options = scheduler.choice("allocation").options
    return scheduler.allocation.name == YARN and "fair" in options.get("settings", {}).get("root", {})


def _fair_policies(scheduler: Scheduler, assumed: list[str]) -> Iterator[Policies]:
    """What the FairScheduler can be told itself, for all queues that do not say otherwise."""
    options = scheduler.choice("allocation").options
    key, configured = "scheduler.allocation.preemption", options.get("preemption", {})
    settings, base = options["settings"], dict(configured or FAIR_PREEMPTION)
    root, on = settings["root"], () if configured else (_FAIR_ON,)

    def told(names: Sequence[str], wait_s: float | None = None) -> dict[str, Any]:
        fair = {**root["fair"], **{name: _FAIR_QUICKER[name][0] for name in names}}
        wait = {} if wait_s is None else {"max_wait_before_kill_s": wait_s}
        return {key: {**base, **wait}, "scheduler.allocation.settings": {**settings, "root": {**root, "fair": fair}}}

    timeout, threshold = _FAIR_QUICKER
    if configured:
        yield Policies("as configured", {}, properties=())
    else:
        assumed.append("preemption is on, after 1 s below the threshold, although the configuration has it off")
        yield Policies(_FAIR_QUICKER[timeout][1], told([timeout]), properties=(*on, _FAIR_QUICKER[timeout][1]))
    needed = [] if configured else [timeout]  # without a time nobody preempts
    for label, names, wait_s in (
        ("YARN at its quickest", [*_FAIR_QUICKER], 1.0),
        (_FAIR_QUICKER[timeout][1], [timeout] if configured else [], None),
        (_FAIR_QUICKER[threshold][1], [*needed, threshold], None),
        (_WAITS_LEAST.rpartition(".")[2], needed, 1.0),
    ):
        if names or wait_s:
            properties = (*on, *(_FAIR_QUICKER[name][1] for name in names), *([_WAITS_LEAST] if wait_s else []))
            yield Policies(
                label, told(names, wait_s), kill_only=wait_s is None or len(names) < 2, properties=properties
            )


def _path_of(queue: str, parents: Mapping[str, Mapping[str, Any]]) -> str:
    """The path of a queue in ``capacity-scheduler.xml``; parents are named by theirs."""
    if queue.startswith("root."):
        return queue
    above = next((name for name, parent in parents.items() if queue in parent["queues"]), "root")
    return f"root.{queue}" if "." in queue else f"{_path_of(above, parents) if above != 'root' else above}.{queue}"


def _property(name: str) -> str:
    _, property_, value = _QUICKER[name]
    return f"{_YARN_PREFIX}{property_}={value}"


# ---- what an answer rests on ----


def mechanisms_in_words(question: Question) -> Iterator[str]:
    """What each mechanism that is compared does; those of the user are left out."""
    compared = {one.mechanism for one in question.candidates}
    yield from (f"{policy.name}: {policy.summary}" for policy in MECHANISM.policies if policy.name in compared)


def assumptions(question: Question, of_trace: Sequence[str]) -> Iterator[str]:
    """One line for each thing that the answer depends on; ``of_trace`` is known already.

    Raises TraceError, ConfigError.
    """
    yield from of_trace
    experiment, entry = question.experiment, question.experiment.workload.trace
    jobs = expand(experiment, experiment.seed)
    if entry is not None:
        yield from _of_trace(entry)
    yield f"{counted_tasks(jobs)}; {_offered(experiment, jobs)}"
    cluster = experiment.cluster
    yield f"cluster: {counted(cluster.nodes, 'node')}, {counted(cluster.containers, 'container')} in all"
    shares = experiment.scheduler.allocation.queues
    queues = ", ".join(f"{name} {shares[name].capacity:.0%}" for name in question.queues)
    yield f"queues, with what each is guaranteed: {queues}; the jobs of '{question.production}' are the urgent ones"
    yield f"what operations cost: {experiment.overheads}"
    yield from question.assumed


def _of_trace(entry: TraceEntry) -> Iterator[str]:
    if entry.production_fraction is not None:
        yield f"{entry.production_fraction:.0%} of the jobs, drawn at random, are production (production_fraction)"
    if entry.gangs:
        yield "each job of several tasks, once scaled, is a gang: its tasks start and stop together (gangs)"
    if entry.load is not None:
        yield f"the number of tasks is scaled so that the work is {entry.load:g} times what the cluster can do (load)"


def _offered(experiment: Experiment, jobs: tuple[JobSpec, ...]) -> str:
    """How busy the jobs keep the cluster while they arrive."""
    work_ns = sum(sum(job.map_ns) + sum(job.reduce_ns) for job in jobs)
    span_ns = max(job.submit_ns for job in jobs) - min(job.submit_ns for job in jobs)
    if not span_ns:
        return f"{work_ns / 1e9:,.0f} container seconds of work"
    share = work_ns / (span_ns * experiment.cluster.containers)
    return f"while they arrive, their work is {share:.0%} of what the cluster can do (ApplicationMasters not counted)"
