"""Workloads: the workload part of an experiment file, trace importers, and the catalogue."""
