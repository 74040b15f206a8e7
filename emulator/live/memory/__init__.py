"""Tasks that use real memory, and nodes with limited memory (os-assisted-preemption, section III-A)."""
