"""The report of runs as one HTML file, and the payload that the live page uses too.

In: run directories, or the tables of a run that goes on.
Out: one page that needs no server.
"""
