"""Tasks that use real memory, and nodes with limited memory (os-assisted-preemption, section III-A).

In: the memory and swap of nodes and tasks, in emulated bytes, and the scale.
Out: cgroups, a swap file and held pages, and what went to swap.
"""
