"""The live engine: real processes on real machines at scaled time (the Ray driver and what it starts).

In: a resolved run; the machines of ``emulator.core`` as they are.
Out: the records of what really happened, committed files, and no process left.
"""
