"""Random faults during a run, the invariants that must hold all the same, and the fewest faults that break one.

In: an experiment, kinds of faults and seeds.
Out: what happened and what it cost; each violation as a directory that can be run again.
"""
