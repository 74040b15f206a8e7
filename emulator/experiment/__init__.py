"""The experiment file: its models, checks, reading and writing.

In: YAML and overrides.
Out: a frozen model and its jobs, or every problem with file, line and field.
"""
