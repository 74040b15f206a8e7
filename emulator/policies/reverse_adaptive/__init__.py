"""Completion goals beside a transactional workload: Adaptive, Reverse-Adaptive, and the fewest possible misses.

``fitting`` works backwards from the deadlines to find the work that cannot wait.  ``utility`` computes shares from it.
``allocations`` holds the policies.
"""
