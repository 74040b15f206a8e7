"""What operations cost: published profiles, storage tiers, calibrations of a machine, results of a probe.

In: the name of one that comes with natjam, or a file.
Out: checked numbers, or an error that names file, line and field.
"""
