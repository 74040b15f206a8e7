"""Completion goals beside a transactional workload: Adaptive, Reverse-Adaptive, and the fewest misses there can be.

``fitting`` looks backwards from the deadlines for the work that cannot wait; ``utility`` makes shares of it;
``allocations`` are the policies.
"""
