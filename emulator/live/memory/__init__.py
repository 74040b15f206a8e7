"""Tasks with real memory, and nodes that have only so much of it (os-assisted-preemption, section III-A)."""
