"""Published figures, run again: what a paper claims, the experiments that measure it, the two side by side."""
