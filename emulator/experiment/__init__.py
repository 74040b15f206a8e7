"""The experiment file: its models, checks, reading and writing."""
