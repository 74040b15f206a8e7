"""``cluster.availability``: the containers that a transactional workload leaves, as a function of time.

The paper calls it f(t) (reverse-adaptive, section III).  It is given as steps, a spline through points, or a file, and
``period_s`` repeats it.  ``forecast`` is what schedulers know of the future; it may be wrong.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from emulator.errors import ConfigError
from emulator.files.strict import Strict
from emulator.files.times import LARGEST_TIME_S, PositiveSeconds, Seconds, seconds_to_ns
from emulator.policies.capacity import Capacity, Step
from workloads.draws import normal

Containers = Annotated[int, Field(ge=0, le=10**9)]
Point = tuple[Seconds, Containers]
CurvePoint = tuple[Seconds, Containers | Annotated[float, Field(ge=0, le=10**9, allow_inf_nan=False)]]
MAX_STEPS = 100_000
SHORTEST_PERIOD_S = 60
_ERROR_NS = 3600 * 10**9
"""How long each error of a forecast lasts."""
_ERRORS_NS = 28 * 24 * _ERROR_NS
"""The errors of a forecast repeat after this time."""
_HEADERS = (["time_s", "containers"], ["time_s", "share"])


class ForecastError(Strict):
    """The relative error of the forecast, drawn from a normal distribution for each hour of four weeks."""

    sigma: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 0.0
    bias: Annotated[float, Field(ge=-1, le=10, allow_inf_nan=False)] = 0.0


class Forecast(Strict):
    """The future availability that schedulers expect; they know the present one."""

    kind: Literal["known", "stable"] = "known"
    """``known``: that of ``file``.  ``stable``: the whole cluster, always, as schedulers expect that know nothing of a
    transactional workload (reverse-adaptive, section II)."""
    file: Annotated[str, Field(min_length=1)] | None = None
    """As ``availability.file``, with the same period; null: the true future."""
    error: ForecastError = ForecastError()

    @model_validator(mode="after")
    def _one_future(self) -> Forecast:
        if self.kind == "stable" and self.file is not None:
            raise ValueError("a stable forecast needs no file: leave out file, or set kind: known")
        return self


class Transactional(Strict):
    """The workload that has first call on the other containers."""

    kind: Literal["placeholder", "web"] = "placeholder"
    """``placeholder``: it holds them and does nothing.  ``web``: in live runs also a small HTTP service on the driver's
    machine, under a load that follows the containers withheld for it (``emulator.live.session.web``)."""
    requests_real_s: Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)] = 20.0
    """Requests of ``web`` in a real second for each withheld container, on average."""
    request_real_ms: Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)] = 10.0
    """Processor time of one request of ``web``."""


class Availability(Strict):
    """Containers available to jobs; give exactly one of ``steps``, ``spline`` and ``file``."""

    steps: Annotated[tuple[Point, ...], Field(min_length=1)] | None = None
    """Pairs of a time in emulated seconds and the containers from then on; before the first: the whole cluster."""
    spline: Annotated[tuple[CurvePoint, ...], Field(min_length=2)] | None = None
    """Points of a curve, the first at 0; a point may lie between two whole numbers of containers, and what the curve
    leaves is rounded down.  The curve is monotone between neighbouring points."""
    file: Annotated[str, Field(min_length=1)] | None = None
    """CSV with the header ``time_s,containers`` or ``time_s,share`` (of the cluster's): steps, the first at 0."""
    period_s: Annotated[float, Field(ge=SHORTEST_PERIOD_S, le=LARGEST_TIME_S, allow_inf_nan=False)] | None = None
    """The availability repeats after this time; null: the last value stays."""
    step_s: PositiveSeconds = 600.0
    """A spline is followed in steps of this length."""
    forecast: Forecast = Forecast()
    grace_s: Seconds = 30.0
    """How long jobs may take to give up containers that the transactional workload wants; what they hold after that is
    its shortfall.  Under *wait* they give up nothing but what ends by itself."""
    transactional: Transactional = Transactional()

    @field_validator("steps", "spline")
    @classmethod
    def _rising(cls, points: tuple[CurvePoint, ...] | None, info: ValidationInfo) -> tuple[CurvePoint, ...] | None:
        instants_ns = [seconds_to_ns(time_s) for time_s, _ in points or ()]
        if any(before >= after for before, after in pairwise(instants_ns)):
            raise ValueError(f"the times of the {info.field_name} must increase")
        return points

    @model_validator(mode="after")
    def _whole(self) -> Availability:
        if sum(given is not None for given in (self.steps, self.spline, self.file)) != 1:
            raise ValueError("give exactly one of steps, spline and file")
        points = self.steps or self.spline or ()
        if points and points[0][0] != 0 and (self.spline or self.period_s):
            raise ValueError(f"with a spline or a period_s the first time must be 0 s, not {points[0][0]:g}")
        if points and self.period_s is not None and points[-1][0] >= self.period_s:
            raise ValueError(f"the last time, {points[-1][0]:g} s, must be before period_s, {self.period_s:g}")
        if self.spline and (self.period_s or self.spline[-1][0]) / self.step_s > MAX_STEPS:
            raise ValueError(f"step_s {self.step_s:g} makes more than {MAX_STEPS} steps; raise it")
        return self


def capacity_of(availability: Availability | None, containers: int) -> Capacity:
    """Containers available over time in a cluster of ``containers``.  Raises ConfigError."""
    if availability is None:
        return Capacity([(0, containers)])
    if availability.file is not None:
        return _capacity(read_steps(Path(availability.file), containers, availability.period_s), availability)
    if availability.spline is not None:
        return _capacity(_followed(availability, availability.spline, containers), availability)
    steps = {0: containers} | {seconds_to_ns(start_s): count for start_s, count in availability.steps or ()}
    return _capacity(list(steps.items()), availability)


def forecast_of(availability: Availability | None, containers: int, seed: int) -> Capacity:
    """The availability that schedulers expect; its errors are drawn by ``seed``.  Raises ConfigError."""
    if availability is None:
        return Capacity([(0, containers)])
    told, error = availability.forecast, availability.forecast.error
    believed = capacity_of(availability if told.kind == "known" else None, containers)
    if told.file is not None:
        believed = _capacity(read_steps(Path(told.file), containers, availability.period_s), availability)
    if error.sigma or error.bias:
        return _mistaken(believed, error, containers, seed)
    return believed


def read_steps(path: Path, containers: int, period_s: float | None) -> list[Step]:
    """The steps of an availability file.

    Raises:
        ConfigError: the file cannot be read; a value is missing, is not a number or is out of range; the times do not
            increase from 0, or reach the period.  The error names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    if not lines or lines[0].split(",") not in _HEADERS:
        raise ConfigError(f"{path}:1: must be time_s,containers or time_s,share")
    is_share = lines[0] == ",".join(_HEADERS[1])
    steps: list[Step] = []
    for number, line in enumerate(lines[1:], start=2):
        where, row = f"{path}:{number}", line.split(",")
        if len(row) != 2:
            raise ConfigError(f"{where}: must have 2 values, not {len(row)}")
        time_s = _number(where, "time_s", row[0], LARGEST_TIME_S)
        value = _number(where, *(("share", row[1], 1) if is_share else ("containers", row[1], containers)))
        if not is_share and value != int(value):
            raise ConfigError(f"{where}: containers must be a whole number, not {row[1]}")
        start_ns, count = seconds_to_ns(time_s), int(value * containers if is_share else value)
        if (steps and start_ns <= steps[-1][0]) or (not steps and start_ns):
            raise ConfigError(f"{where}: the times must increase from 0; {row[0]} does not")
        if period_s is not None and time_s >= period_s:
            raise ConfigError(f"{where}: {row[0]} is not before period_s {period_s:g}; leave it out or raise period_s")
        steps.append((start_ns, count))
    if not steps:
        raise ConfigError(f"{path}: has no rows; give at least one, at 0")
    return steps


def _number(where: str, name: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        what = f"'{text}' is not a number" if text.strip() else "is missing; add the value, or remove the row"
        raise ConfigError(f"{where}: {name}: {what}") from None
    if not 0 <= value <= most:  # also refuses NaN
        raise ConfigError(f"{where}: {name}: must be from 0 to {most:g}, not {text.strip()}")
    return value


def _capacity(steps: list[Step], availability: Availability) -> Capacity:
    """The capacity, without steps that change nothing."""
    kept = [steps[0], *(after for before, after in pairwise(steps) if after[1] != before[1])]
    comes_again = availability.period_s is not None and len(kept) > 1
    return Capacity(kept, seconds_to_ns(availability.period_s or 0) if comes_again else None)


def _followed(availability: Availability, points: tuple[CurvePoint, ...], containers: int) -> list[Step]:
    """The curve as steps of whole containers; each step has the value of the curve at its middle, rounded down."""
    from scipy.interpolate import PchipInterpolator  # here, because its import takes a second and few runs need it

    period_s, step_s = availability.period_s, availability.step_s
    end_s = period_s or points[-1][0]
    around: list[Any] = [-end_s, 0, end_s] if period_s else [0]
    knots = [(shift + time_s, count) for shift in around for time_s, count in points]
    curve = PchipInterpolator([time_s for time_s, _ in knots], [count for _, count in knots])
    starts_s = [place * step_s for place in range(math.ceil(end_s / step_s))]
    values = curve([min(start_s + step_s / 2, end_s) for start_s in starts_s])
    steps = [
        (seconds_to_ns(start_s), min(containers, int(value + 1e-9)))
        for start_s, value in zip(starts_s, values.tolist(), strict=True)
    ]
    return steps if period_s else [*steps, (seconds_to_ns(end_s), int(points[-1][1]))]


def _mistaken(capacity: Capacity, error: ForecastError, containers: int, seed: int) -> Capacity:
    """The capacity with errors: enough periods to fill four weeks, and one drawn error for each hour."""
    period_ns = capacity.period_ns
    periods = 1 if period_ns is None else -(-_ERRORS_NS // period_ns)
    if periods * len(capacity.steps) > 10 * MAX_STEPS:
        raise ConfigError(
            f"cluster.availability.forecast: {periods * len(capacity.steps)} errors to draw; raise period_s"
        )
    length_ns = _ERRORS_NS if period_ns is None else period_ns * periods
    random = Random(f"{seed}:forecast")
    factors = [1 + normal(random, error.bias, error.sigma) for _ in range(0, length_ns, _ERROR_NS)]
    steps: list[Step] = []
    now_ns: int | None = 0
    while now_ns is not None and now_ns < length_ns:
        hour = now_ns // _ERROR_NS
        count = min(containers, max(0, round(capacity.at(now_ns) * factors[hour])))
        if not steps or steps[-1][1] != count:
            steps.append((now_ns, count))
        change_ns, hour_ns = capacity.next_change_ns(now_ns), (hour + 1) * _ERROR_NS
        now_ns = hour_ns if change_ns is None else min(change_ns, hour_ns)
    return Capacity(steps, None if period_ns is None else length_ns)
