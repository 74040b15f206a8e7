"""How far the two engines differ: the same experiments, live and simulated, figure by figure.

Theory of operation
-------------------
Each engine runs an experiment several times with the same seed: with the same workload and the same random decisions.
Live runs differ from each other through the machine; simulations differ through draws from the machine's calibration.
The means are compared.  The spread of the live runs, their standard deviation, says which differences are significant.

With several time scales, live runs at each scale are compared with those at the lowest one.  This shows how results
drift as time is compressed.
"""
