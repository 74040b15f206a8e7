"""Random faults during a run, the invariants that must hold all the same, and the fewest faults that break one."""
