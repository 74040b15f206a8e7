"""Kueue's decisions: which flavors a workload gets, whom it preempts, and what one scheduling cycle does.

In come plain frozen values (``model``): a cluster of queues and cohorts, what is admitted, what waits.  Out come
decisions that say why.  ``decisions`` has the three questions as functions.  ``controller`` runs cycle after cycle for
``scheduler``, which decides in experiments and in plays.

They follow Kueue 0.19.2, as its documents (https://kueue.sigs.k8s.io/docs/concepts/) and its recorded answers
(``tests/peers/kueue.py``) show it.  Where Kueue leaves a choice to chance, the caller makes it.
"""
