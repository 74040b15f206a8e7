"""Work after a run: checking its output, and computing figures from its results.

In: run directories.
Out: frames, statistics, tables, pictures and findings; nothing here takes part in a run.
"""
