"""YARN's CapacityScheduler and its ProportionalCapacityPreemptionPolicy (Hadoop 3.4).

``amounts`` compares resources as YARN's calculators do; ``ideal`` computes what each queue of a tree is entitled to,
and what is obtained of it; ``victims`` chooses the containers, and ``monitor`` lets them wait, round by round;
``capacity`` is what a node's heartbeat gives to whom.  They are held against recorded runs.  ``options`` and ``tree``
are what an experiment says of the queues; ``scheduler`` is the adapter for the machines.
"""
