"""``natjam advise``: runs one workload under every mechanism and the main policies, and says which to choose.

In: an experiment or a trace.
Out: a verdict with what was compared, what was assumed, and how certain it is.
"""
