"""Faults drawn by seed over a run, what must hold all the same, and the fewest faults that break it."""
