"""How far apart the two engines are: the same experiments, live and simulated, figure by figure.

Theory of operation
-------------------
An experiment is run several times by each engine with the same seed: the same workload and the same random decisions.
What differs between live runs is what the machine does; what differs between simulated ones is what was drawn from the
machine's calibration.  The means are compared.  The spread of the live runs, their standard deviation, says how much of
a difference means anything.

With several time scales, live runs at each are held against those at the lowest: how results drift as time is
compressed.
"""
