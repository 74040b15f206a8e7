"""Imported clusters as experiments: ``site: FILE`` says the nodes, the jobs and the allocation.

In: a file that ``natjam import`` wrote.  Out: the keys of an experiment file that it decides.
"""
