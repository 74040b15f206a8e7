"""Slurm's controller: when its schedulers run, what they decide, and who is stopped, over one snapshot.

Theory of operation
-------------------
The schedulers run at ticks.  Those of the main loop are a second apart, from a little after the controller's start
on; each turn of it, and each run of backfill, may come a little later than that.  The main scheduler runs at the first
turn after something has happened (a submission, an end) that is ``batch_sched_delay`` and ``sched_min_interval`` after
its last run, and every ``sched_interval``, when it looks at all jobs; backfill runs every ``bf_interval`` if something
has happened since (that a requeued job may start again is nothing of that, as recorded).  A preemptor waits for its
victims; when one has gone, the main scheduler runs at once.  Time limits, and graces that nobody waits for, are looked
at every ``LIMITS_NS``, in the main loop, too.  What this does every so often it does at the first turn that finds so
many more whole seconds of the wall's clock gone since it began.  A requeued job is pending again when it has gone, and
may start when ``cred_expire`` is over, in whole seconds of the wall's clock.

Where jobs share CPUs (``PreemptMode=SUSPEND,GANG``), they are put on their nodes' CPUs: first those that are never
stopped, which always fit beside each other, then the others by tier, then in turn; whoever does not fit on all of its
nodes is stopped.  After each time slice the jobs of a tier that has stopped ones change turns: those that ran go to the
end.

Whoever drives it says what has happened, asks when it wants to be asked again, and carries out what it decides: that
is ``scheduler``, in experiments and in plays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.policies.slurm.backfill import backfill_pass
from emulator.policies.slurm.main_scheduler import Decision, main_pass
from emulator.policies.slurm.priority import Priorities
from emulator.policies.slurm.snapshot import Running, Snapshot, Waiting, minus
from emulator.sites.slurm import FOREVER_NS, SECOND_NS, Amounts, Cluster, Job, Mode, fits

MAIN_AFTER_NS = 5_000_000
"""How long after the controller's start its main loop begins, as recorded without slurmdbd; with it some 0.4 s."""
LIMITS_NS = 30 * SECOND_NS
"""How often it looks whose time limit, or grace, is over: as two recorded runs show."""


class Controller:
    """The controller of Slurm (see the module's theory of operation)."""

    def __init__(
        self,
        cluster: Cluster,
        boot_ns: int = 0,
        main_after_ns: int = MAIN_AFTER_NS,
        wall_ns: int = 0,
        main_late_ns: int = 0,
        backfill_late_ns: int = 0,
    ) -> None:
        """``boot_ns``: when it started, in the jobs' time; ``main_after_ns``: how long after that its main loop begins;
        ``wall_ns``: what the wall's clock says at 0; ``..._late_ns``: how much longer than a second a turn of the main
        loop takes, and than ``bf_interval`` the time from one run of backfill to the next."""
        self.snapshot = Snapshot(cluster, wall_ns)
        self.tick_ns = FOREVER_NS
        """When a scheduler runs next; known after ``arm``."""
        self.slice_ns = FOREVER_NS
        """When jobs that share CPUs change turns next; known after ``share``."""
        self.passing = ""
        """The scheduler whose pass is under way, in words."""
        self.stopped: dict[str, int] = {}
        """The jobs that are stopped for others, and since when."""
        self._settings, self._boot_ns, self._turns = cluster.settings, boot_ns, TimeSlices()
        self._main_boot_ns, self._turn_ns = boot_ns + main_after_ns, SECOND_NS + main_late_ns
        self._backfill_every_ns = cluster.settings.bf_interval_ns + backfill_late_ns
        self._last_main_ns = self._ticked_ns = -FOREVER_NS
        self._news = self._news_for_backfill = self._has_room = False
        self._submitted = 0
        weights = cluster.settings.weights
        self._priorities = None if weights is None else Priorities(cluster, weights, boot_ns)
        self._qos = {each.name: each for each in cluster.qos} if cluster.by_qos else {}

    # ---- what has happened ----

    def submit(self, job: Job) -> None:
        """A job is new.  Raises KeyError: there is no such partition, or QOS."""
        self._submitted += 1
        partition, qos = self.snapshot.partitions[job.partition], self._qos[job.qos] if self._qos else None
        submitted_ns = self.snapshot.second_of(job.submit_ns)
        self._pend(Waiting(job, partition, self._submitted, job.since_ns, qos, submitted_ns))
        self._news = self._news_for_backfill = True

    def start(self, decision: Decision, now_ns: int) -> Running:
        """A job is on the nodes of the decision from now on."""
        waiting = self.snapshot.waiting[decision.job]
        running = Running(waiting, decision.nodes, now_ns, self.snapshot.second_of(now_ns) + waiting.limit_ns)
        self.snapshot.start(running)
        self._news_for_backfill = True
        return running

    def leave(self, running: Running, now_ns: int) -> None:
        """A job has left its nodes."""
        is_victim = running.waiting.job.name in self.snapshot.going
        self._has_room |= is_victim
        self._news |= not is_victim
        self._news_for_backfill = True
        self.stopped.pop(running.waiting.job.name, None)
        if self._priorities is not None:
            self._priorities.charge(running.waiting.job, running.start_ns, now_ns)
        self.snapshot.end(running)

    def requeue(self, waiting: Waiting, job: Job, now_ns: int) -> None:
        """A job that has left waits again, with what is left of its work."""
        second_ns = self.snapshot.second_of(now_ns)
        eligible_ns = second_ns + SECOND_NS + self._settings.cred_expire_ns
        submitted_ns = waiting.submitted_ns if self._priorities is None else second_ns
        self._pend(Waiting(job, waiting.partition, waiting.number, eligible_ns, waiting.qos, submitted_ns))

    def _pend(self, waiting: Waiting) -> None:
        if self._priorities is not None:
            waiting.priority = self._priorities.of(waiting.job, waiting.eligible_ns)
        self.snapshot.submit(waiting)

    def withdraw(self, name: str) -> None:
        """A waiting job has ended."""
        self.snapshot.withdraw(name)
        self._news = self._news_for_backfill = True

    # ---- what it decides ----

    def arm(self, now_ns: int) -> int:
        """When ``tick`` must be called next, after all that has happened and was decided."""
        earliest_ns = now_ns + (self._ticked_ns == now_ns)
        due_ns = now_ns if self._has_room else min(self._main_ns(earliest_ns), self._backfill_ns(earliest_ns))
        self.tick_ns = min(self.tick_ns, due_ns)
        return self.tick_ns

    def tick(self, now_ns: int) -> Iterator[Decision]:
        """What the schedulers decide at a tick, which may come late.  The caller carries out each decision before it
        takes the next."""
        self._calculate_priorities(now_ns)
        due_ns, before_ns = min(self.tick_ns, now_ns), self._ticked_ns
        self.tick_ns, self._ticked_ns = FOREVER_NS, now_ns
        self.snapshot.advance(now_ns)
        main_ns = self._main_ns(due_ns) if before_ns < due_ns else FOREVER_NS
        if before_ns < due_ns and self._backfill_ns(due_ns) <= now_ns:
            self._news_for_backfill, self.passing = False, "backfill"
            yield from backfill_pass(self.snapshot, now_ns)
        most = self._settings.default_queue_depth
        if main_ns <= now_ns:
            most = None if self._all_jobs_ns() <= now_ns else most
            self._last_main_ns, self._news = main_ns, False
        if main_ns <= now_ns or self._has_room:
            self._has_room, self.passing = False, "the main scheduler"
            for decision in main_pass(self.snapshot, now_ns, most):
                self._news_for_backfill = True
                yield decision

    def _calculate_priorities(self, now_ns: int) -> None:
        priorities = self._priorities
        if priorities is None or not priorities.is_due(now_ns):
            return
        running = self.snapshot.running.values()
        priorities.calculate(now_ns, ((each.waiting.job, each.start_ns) for each in running))
        self.snapshot.set_priorities(lambda each: priorities.of(each.job, each.eligible_ns))

    def limit_ns(self, end_ns: int) -> int:
        """When a job is ended whose time limit, or grace, is over at ``end_ns``."""
        return self._turn_every(LIMITS_NS, end_ns) if end_ns < FOREVER_NS else FOREVER_NS

    def change_slices(self) -> None:
        """A time slice is over."""
        self.slice_ns = FOREVER_NS
        self._turns.change(self.snapshot.running, self.snapshot.running.keys() - self.stopped.keys())

    def share(self, now_ns: int) -> tuple[list[str], dict[str, int]]:
        """Which running jobs stop now, and which of the stopped ones go on, with the times when they had stopped, so
        that each that runs has its own CPUs.  The time in which a job is stopped does not count for its limit."""
        if not self._settings.gang:
            return [], {}
        sharing = self.snapshot.sharing()
        runs = self._turns.active(sharing, self.snapshot.at_once)
        waits, going = sharing.keys() - runs, self.snapshot.going
        stops = [name for name in sharing if name in waits and name not in self.stopped and name not in going]
        may_go_on = self.stopped.keys() - waits - going.keys()
        goes_on = [name for name in self.snapshot.running if name in may_go_on] if may_go_on else []
        since_ns = {name: self.stopped.pop(name) for name in goes_on}
        for name, stopped_ns in since_ns.items():
            running = self.snapshot.running[name]
            self.snapshot.move_end(running, running.end_ns + now_ns - stopped_ns)
        self.stopped.update(dict.fromkeys(stops, now_ns))
        if self.slice_ns == FOREVER_NS and self.stopped:
            self.slice_ns = _next_tick(self._boot_ns, now_ns + 1, self._settings.time_slice_ns)
        return stops, since_ns

    # ---- when the schedulers run ----

    def _turn(self, at_ns: int) -> int:
        """The first turn of the main loop from ``at_ns`` on."""
        return _next_tick(self._main_boot_ns, at_ns, self._turn_ns)

    def _turn_every(self, every_ns: int, at_ns: int) -> int:
        """The first turn from ``at_ns`` on that finds ``every_ns`` gone once more, in whole seconds."""
        since_ns = self.snapshot.second_of(self._main_boot_ns)
        due_ns = max(since_ns + every_ns, _next_tick(since_ns, at_ns - self._turn_ns, every_ns))
        while (turn_ns := self._turn(due_ns)) < at_ns:
            due_ns += every_ns
        return turn_ns

    def _main_ns(self, earliest_ns: int) -> int:
        """When the main scheduler runs next, by what is known."""
        settings = self._settings
        if not self.snapshot.waiting:
            return FOREVER_NS
        due_ns = self._all_jobs_ns()
        if self._news:
            delay_ns = max(settings.batch_sched_delay_ns, settings.sched_min_interval_ns)
            due_ns = min(due_ns, self._last_main_ns + delay_ns)
        return self._turn(max(due_ns, earliest_ns))

    def _all_jobs_ns(self) -> int:
        """When the main scheduler runs next whatever has happened, and looks at all jobs."""
        last_ns = max(self._last_main_ns, self._main_boot_ns)
        return self._turn_every(self._settings.sched_interval_ns, last_ns + 1)

    def _backfill_ns(self, earliest_ns: int) -> int:
        """When backfill runs next, by what is known."""
        if not (self._settings.backfills and self._news_for_backfill and self.snapshot.waiting):
            return FOREVER_NS
        return _next_tick(self._boot_ns, earliest_ns, self._backfill_every_ns)


def _next_tick(boot_ns: int, at_ns: int, step_ns: int) -> int:
    """The first time from ``at_ns`` on that is a number of steps after ``boot_ns``."""
    return boot_ns - (boot_ns - at_ns) // step_ns * step_ns


class TimeSlices:
    """The order of running jobs, by name.

    At the end of a time slice who runs is marked; who was marked before and still runs goes to the end of the line.  So
    the first turn lasts up to two slices (recorded with DebugFlags=Gang).
    """

    def __init__(self) -> None:
        self._back: dict[str, int] = {}
        """How often each has gone to the end."""
        self._marked: set[str] = set()
        self._marks = False
        """Whether those that run next are to be marked, too: a time slice has ended."""

    def active(self, running: Mapping[str, Running], amounts: Mapping[str, Amounts]) -> set[str]:
        """The jobs that run now, of those that share nodes; ``running`` is in the order of starts."""
        free = dict(amounts)
        runs: set[str] = set()
        turns = {name: place for place, name in enumerate(running)}

        def place_in_order(name: str) -> tuple[bool, int, int, int]:
            job = running[name]
            is_stopped = job.waiting.terms.mode is Mode.SUSPEND
            return is_stopped, -job.tier, self._back.get(name, 0), turns[name]

        for name in sorted(running, key=place_in_order):
            job = running[name]
            needs = job.amounts_running
            if all(fits(free[node], needs) for node in job.nodes):
                runs.add(name)
                for node in job.nodes:
                    free[node] = minus(free[node], needs)
        if self._marks:
            self._marked, self._marks = self._marked | runs, False
        if len(runs) == len(running):
            self._back.clear()
            self._marked.clear()
        return runs

    def change(self, running: Mapping[str, Running], runs: set[str]) -> None:
        """A time slice is over: of tiers with stopped jobs, those that ran go to the end."""
        waiting = {job.tier for name, job in running.items() if name not in runs}
        for name in runs & self._marked:
            if running[name].tier in waiting:
                self._back[name] = self._back.get(name, 0) + 1
        self._marked, self._marks = set(runs), True
