"""Sites: what clusters of Kubernetes, Kueue and Slurm are, as plain values, and what a job is to their schedulers.

In: nothing; importers (``workloads``) make the values, and files have them.  Out: the values, for the schedulers' rules
(``emulator.policies``) and for experiments.
"""
