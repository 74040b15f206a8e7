"""The machines of a cluster, and the messages and effects that they exchange; no I/O, no clock, no draw of its own.

In: settings, then messages with the emulated time.
Out: effects, which a driver carries out (``machine.py`` has the contract).
"""
