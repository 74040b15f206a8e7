"""FLEX: slots for every job, as a metric of their completion times wants them (flex, sections 2 and 3).

Pure functions of whole numbers.  ``penalties`` says what a completion costs, ``orderings`` and ``moldable`` propose
orders to serve the jobs in, ``packing`` turns an order into a schedule, ``optimiser`` takes the best.  ``fair`` and
``fifo`` are what the paper compares it with, ``optimum`` what it is held against.
"""
