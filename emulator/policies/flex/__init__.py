"""FLEX: slots for every job so that a metric of their completion times is as good as possible (flex, sections 2 and 3).

Pure functions of whole numbers.  ``penalties`` gives the cost of a completion time.  ``demand`` turns an order of
the jobs into a schedule, ``moldable`` proposes one order, and ``optimiser`` others, and takes the best schedule.  The
paper compares FLEX with ``fair`` and ``fifo``; ``optimum`` is the best that any order can reach.
"""
