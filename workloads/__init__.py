"""Workloads: the workload part of an experiment file, trace importers, and the catalogue.

In: entries of an experiment file, traces of clusters.
Out: jobs with the lengths of their tasks, the same for the same seed.
"""
