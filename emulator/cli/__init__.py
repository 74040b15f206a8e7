"""The command line, one file for each group of commands.

In: arguments, files and signals.
Out: tables, files and an exit status; what a command does is in the room that it calls.
"""
