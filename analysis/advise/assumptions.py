"""What an answer of ``natjam advise`` rests on, in lines: the jobs, the cluster, the queues, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.advise.candidates import Question
from emulator.core.job import JobSpec
from emulator.experiment.expand import expand
from emulator.experiment.model import Experiment
from emulator.vocabulary import counted
from workloads.schema import TraceEntry


def assumptions(question: Question, of_trace: Sequence[str]) -> Iterator[str]:
    """One line for each thing that the answer depends on; ``of_trace`` is known already.

    Raises TraceError, ConfigError.
    """
    yield from of_trace
    experiment, entry = question.experiment, question.experiment.workload.trace
    jobs = expand(experiment, experiment.seed)
    if entry is not None:
        yield from _of_trace(entry)
    maps, reduces = sum(len(job.map_ns) for job in jobs), sum(len(job.reduce_ns) for job in jobs)
    made = f"{counted(maps, 'map')} and {counted(reduces, 'reduce')}"
    yield f"jobs: {len(jobs):,}, with {made}; {_offered(experiment, jobs)}"
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
