"""What operations cost: published profiles, calibrations of a machine."""
