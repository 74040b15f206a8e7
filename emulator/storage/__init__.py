"""Where task output and checkpoints are kept.

A local or shared directory for now; :mod:`emulator.storage.local` is the seam an object store comes behind.
"""
