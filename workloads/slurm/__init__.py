"""A Slurm site's files: ``slurm.conf``, and jobs as ``sacct`` prints them.

In: the files of a site, as they are.
Out: plain values for ``emulator.policies.slurm``, and a list of what was not carried over, with its line.
"""
