"""The results of a run: journal, replay, history, tables, summary, its directory.

In: records of what machines were sent and what they answered.
Out: files that other tools open, and the same values for those that follow a run.
"""
