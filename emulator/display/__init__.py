"""The output on the terminal, during work and at its end.

In: the status of a run or of other work, and the contents of ``summary.json``.
Out: tables and progress, fitted to the window.
"""
