"""The fluid engine: jobs are amounts of work, shares are exact; no tasks, no protocol (flex, section 2.4).

In: a resolved run.
Out: the records of its jobs, and who held how many containers over time.
"""
