"""Published figures, run again: a paper's claims, the experiments that measure them, and both side by side."""
