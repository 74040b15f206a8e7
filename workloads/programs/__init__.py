"""Programs that tasks may run; each is one file that needs nothing from natjam.

In: arguments and the task's working directory.
Out: its output, and signs of progress.
"""
