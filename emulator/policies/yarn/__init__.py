"""YARN's CapacityScheduler and its ProportionalCapacityPreemptionPolicy (Hadoop 3.4).

``amounts`` compares resources as YARN's calculators do; ``ideal`` computes what each queue of a tree is entitled to,
and what is obtained of it; ``victims`` chooses the containers, and ``marks`` lets them wait; ``capacity`` is what a
node's heartbeat gives to whom, held against recorded runs; ``allocation`` is for experiments.
"""
