"""A run: starts an engine with an experiment, and writes what the run leaves beside its journal.

In: an experiment, and what is made of a run after its engine has ended (``emulator.engine.Aftermath``).
Out: the run directory with tables, pictures and ``summary.json``.
"""
