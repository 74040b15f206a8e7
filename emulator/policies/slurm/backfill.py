"""The backfill scheduler: a job may go before others if it delays no planned start of theirs.

Jobs are taken in the main scheduler's order.  Whoever cannot start now is planned (``plan``).  The pass ends when
nobody who is left could start, whatever was planned before: where those would be planned decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.main_scheduler import decide, too_few
from emulator.policies.slurm.plan import Plan
from emulator.policies.slurm.snapshot import Snapshot, Waiting
from emulator.sites.slurm import Mode


def backfill_pass(snapshot: Snapshot, now_ns: int) -> Iterator[Decision]:
    """Look at the pending jobs once.  The caller carries out each decision in ``snapshot`` before it takes the next."""
    jobs = snapshot.pending(now_ns, snapshot.cluster.settings.bf_max_job_test)
    plan, hopeful = Plan(snapshot, now_ns), 0
    for number, job in enumerate(jobs):
        hopeful = _first_hopeful(snapshot, plan, jobs, max(number, hopeful))
        if hopeful == len(jobs):
            return
        if number < hopeful and not snapshot.cluster.qos:  # under qos, who starts now may be a victim of one behind it
            decision = Decision(job.job.name, Outcome.WAITS, why=too_few(snapshot, job, plan.free_now(job)))
        else:
            decision = decide(snapshot, job, plan.free_now(job), now_ns)
        if decision.outcome in (Outcome.WAITS, Outcome.AWAITS_VICTIMS) and (planned := plan.add(job)) is not None:
            where, at_ns = planned
            decision = Decision(job.job.name, Outcome.WAITS, where, (), at_ns, decision.why)
        yield decision
        if decision.outcome is Outcome.PREEMPTS:
            plan.add(job)


def _first_hopeful(snapshot: Snapshot, plan: Plan, jobs: Sequence[Waiting], first: int) -> int:
    """The number of the first job, from ``first`` on, that might start now.

    Without preemption there is less and less room as jobs start and are planned: who has none will have none.
    """
    settings = snapshot.cluster.settings
    for number in range(first, len(jobs)):
        job = jobs[number]
        may_displace = settings.preempts and any(snapshot.preemptable(job, Mode.SUSPEND, Mode.CANCEL, Mode.REQUEUE))
        fits = snapshot.room(job.job.cpus).now & plan.free_now(job)
        if may_displace or fits.bit_count() >= job.job.nodes:
            return number
    return len(jobs)
