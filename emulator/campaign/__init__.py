"""Campaigns: many runs, planned in a file, that can be stopped and continued.

In: variants of experiments with their seeds, and a function that makes one run.
Out: a directory with a run directory for each, and one table of all.
"""
