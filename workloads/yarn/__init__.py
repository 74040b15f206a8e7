"""YARN's configuration files and applications, as an experiment: ``natjam import yarn``."""
