"""The discrete-event driver: the same machines in virtual time.

In: a resolved run, and a model of what operations cost.
Out: its records, in the order of a journal.
"""
