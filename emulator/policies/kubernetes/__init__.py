"""kube-scheduler's decisions: where a pod goes, whom it preempts, and what one scheduling cycle does.

In come plain frozen values (``model``): nodes, classes, budgets, the pods that are bound and those that wait.  Out come
decisions that say why.  ``cycle`` is one cycle; ``gangs`` places pods that start together or not at all.
``controller`` runs cycle after cycle for ``scheduler``, which decides in experiments and in plays.

They follow kube-scheduler 1.36 with its default profile, as Kubernetes' documents
(https://kubernetes.io/docs/concepts/scheduling-eviction/) and its recorded answers (``tests/peers/kube.py``) show it.
Where it leaves a choice to the order of its own data, the caller makes it.

Above 100 nodes kube-scheduler looks for a place until enough nodes fit, and so do these.  Of many candidates for
preemption it compares a sample, in an order of chance; here all are compared.
"""
