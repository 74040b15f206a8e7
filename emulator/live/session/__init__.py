"""One run from nothing started to nothing left, in the process of ``natjam run``.

In: an experiment and its jobs.
Out: Ray and the hosts brought up and taken down, the records of the run, what the user sees of it and orders.
"""
