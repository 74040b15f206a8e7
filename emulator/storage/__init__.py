"""Storage of task output and checkpoints.

For now a local or shared directory; an object store would be added behind :mod:`emulator.storage.local`.
"""
