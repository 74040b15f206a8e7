"""The supervisor of a node and everything that it forks: maps, reduces and programs as real processes.

In: orders over a pipe: launch, suspend, resume, checkpoint, dump, kill.
Out: one completion for each order, exits, progress in a shared page, files of shuffle, checkpoint and output.
"""
