"""Kueue's decisions: which flavors a workload gets, whom it preempts, and what one scheduling cycle does.

In come plain frozen values: a cluster of queues and cohorts, and workloads.  Out come decisions that say why
(``model``, ``cycle``).  ``controller`` runs cycle after cycle for ``scheduler``, which decides in experiments and in
plays.

They follow Kueue 0.19.2, as its documents (https://kueue.sigs.k8s.io/docs/concepts/) and its recorded answers
(``tests/peers/kueue.py``) show it.  Where Kueue leaves a choice to chance, the caller makes it.
"""
