"""What schedulers that choose the nodes themselves have in common.

In come events of the cluster, out go decisions and until when they hold (``protocol``).  A process outside is one such
scheduler (``external``); Kueue, kube-scheduler and Slurm have rooms of their own.
"""
