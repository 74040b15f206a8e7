"""The experiment file: models, checks, reading and writing it."""
