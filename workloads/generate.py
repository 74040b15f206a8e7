"""Synthetic workloads in the style of SWIM: seeded jobs with lognormal sizes and Poisson or bursty arrivals.

- *Arrivals.*  Exactly ``jobs`` submissions in ``span_s``.  ``poisson``: uniform over the span, which is a Poisson
  process with a given number of arrivals.  ``bursty``: the span is divided into periods of ``burst_period_s``.  Their
  rates go from some rate to ``burst_ratio`` times that rate, in equal steps of the logarithm, and are put in an order
  drawn by seed (natjam, section 1: Yahoo!'s hourly job arrivals vary by a factor of 30).
- *Sizes.*  Numbers of maps and of reduces are lognormal, rounded, at least one; ``map_only_fraction`` of the jobs have
  no reduces (75% of Facebook's jobs in 2009).
- *Lengths.*  Lognormal with the medians of Facebook's tasks, 19 s for maps and 231 s for reduces (natjam, section 2.2):
  the logarithm's deviation is ``job_sigma`` between jobs and ``task_sigma`` within a job.
- *Bytes.*  Every map reads, and every reduce reads and writes, ``bytes_per_task`` on average, lognormal by job.
"""

from __future__ import annotations

from random import Random
from typing import Annotated, Literal

from pydantic import Field, model_validator

from emulator.files.strict import Strict
from emulator.files.times import Seconds
from workloads.draws import lognormal
from workloads.importers.fields import MAX_LENGTH_NS
from workloads.record import Header, Kind, Trace, WorkloadJob, WorkloadTask, modelled
from workloads.schema import MAX_TASKS, Fraction, Length

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Sigma = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]


class Parameters(Strict):
    """Parameters of a synthetic workload; see the module's docstring."""

    jobs: Annotated[int, Field(ge=1, le=1_000_000)] = 400
    span_s: Length = 3600.0
    arrivals: Literal["poisson", "bursty"] = "poisson"
    burst_ratio: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] = 30.0
    burst_period_s: Length = 3600.0
    maps_median: Positive = 4.0
    maps_sigma: Sigma = 1.5
    reduces_median: Positive = 3.0
    reduces_sigma: Sigma = 1.2
    most_tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1000
    """Most maps, and most reduces, of a job; a larger draw is cut."""
    map_only_fraction: Fraction = 0.5
    map_s: Length = 19.0
    reduce_s: Length = 231.0
    job_sigma: Sigma = 0.8
    task_sigma: Sigma = 0.3
    bytes_per_task: Annotated[int, Field(ge=1, le=2**40)] = 64 * 2**20
    start_s: Seconds = 0.0

    @model_validator(mode="after")
    def _periods(self) -> Parameters:
        if self.arrivals == "bursty" and self.span_s < 2 * self.burst_period_s:
            raise ValueError(
                f"bursty arrivals need a span of two periods or more: {self.span_s:g} s are less than"
                f" 2 x {self.burst_period_s:g} s; raise span_s or lower burst_period_s"
            )
        return self


def generate(parameters: Parameters, seed: int) -> Trace:
    """The workload, with jobs sorted by submission.  Draws of a job depend only on the seed and its number."""
    columns = {
        name: modelled(rule)
        for name, rule in {
            "job": "numbered",
            "submit_ns": f"{parameters.arrivals} arrivals",
            "input_bytes": "lognormal, by the number of maps",
            "shuffle_bytes": "lognormal, by the number of reduces",
            "output_bytes": "lognormal, by the number of tasks that write",
            "tasks": "lognormal numbers",
            "tasks.kind": "lognormal numbers",
            "tasks.length_ns": "lognormal lengths",
        }.items()
    }
    step = f"generated with seed {seed}: {parameters.model_dump()}"
    submits_ns = _submits_ns(parameters, seed)
    jobs = (_job(number, submit_ns, parameters, seed) for number, submit_ns in enumerate(submits_ns))
    return Trace(Header("generated", "zero", columns, (step,)), jobs)


def _submits_ns(parameters: Parameters, seed: int) -> list[int]:
    rng = Random(f"{seed}:arrivals")
    span_ns, start_ns = parameters.span_s * 1e9, parameters.start_s * 1e9
    if parameters.arrivals == "poisson":
        return sorted(round(start_ns + rng.random() * span_ns) for _ in range(parameters.jobs))
    periods = int(parameters.span_s / parameters.burst_period_s)
    rates = [parameters.burst_ratio ** (number / (periods - 1)) for number in range(periods)]
    rates.sort(key=lambda _: rng.random())
    ends = [sum(rates[: number + 1]) for number in range(periods)]
    submits = []
    for _ in range(parameters.jobs):
        point, period = rng.random() * ends[-1], 0
        while point >= ends[period]:
            period += 1
        within = (point - (ends[period] - rates[period])) / rates[period]
        submits.append(round(start_ns + (period + within) * span_ns / periods))
    return sorted(submits)


def _job(number: int, submit_ns: int, parameters: Parameters, seed: int) -> WorkloadJob:
    rng = Random(f"{seed}:job-{number}")
    is_map_only = rng.random() < parameters.map_only_fraction
    maps = _count(rng, parameters.maps_median, parameters.maps_sigma, parameters.most_tasks)
    reduces = _count(rng, parameters.reduces_median, parameters.reduces_sigma, parameters.most_tasks)
    reduces = 0 if is_map_only else reduces
    sizes = [int(lognormal(rng, parameters.bytes_per_task, parameters.job_sigma)) for _ in range(3)]
    tasks = (
        *_tasks(rng, "map", maps, parameters.map_s, parameters),
        *_tasks(rng, "reduce", reduces, parameters.reduce_s, parameters),
    )
    return WorkloadJob(
        f"job-{number}",
        submit_ns,
        input_bytes=maps * sizes[0],
        shuffle_bytes=reduces * sizes[1],
        output_bytes=(reduces or maps) * sizes[2],
        tasks=tasks,
    )


def _count(rng: Random, median: float, sigma: float, most: int) -> int:
    return max(1, round(min(most, lognormal(rng, median, sigma))))


def _tasks(rng: Random, kind: Kind, count: int, median_s: float, parameters: Parameters) -> tuple[WorkloadTask, ...]:
    of_job_s = lognormal(rng, median_s, parameters.job_sigma)
    lengths_s = [lognormal(rng, of_job_s, parameters.task_sigma) for _ in range(count)]
    return tuple(
        WorkloadTask(kind, max(1, min(MAX_LENGTH_NS, round(length * 1e9))), "modelled") for length in lengths_s
    )
