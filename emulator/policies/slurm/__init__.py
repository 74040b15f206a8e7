"""Slurm's decisions: which job starts where, whom it preempts, and who is stopped while others run.

In come plain frozen values (``model``): nodes, partitions, the settings of ``slurm.conf``, rigid jobs.
``main_scheduler`` and ``backfill`` have the passes of Slurm's two schedulers; both choose nodes by ``placement`` and
victims by ``preemption``.  ``controller`` says when each of this comes, and who runs and who is stopped under
``PreemptMode=SUSPEND,GANG``, to ``scheduler``, which decides in experiments and in plays.

They follow Slurm's documents (https://slurm.schedmd.com/slurm.conf.html, preempt.html, gang_scheduling.html,
sched_config.html) and recorded runs of Slurm 22.05 (``natjam reproduce slurm``); its source was not read.  What rests
on documents alone, because no record shows it: ``preempt_strict_order`` and ``bf_window``.
"""
