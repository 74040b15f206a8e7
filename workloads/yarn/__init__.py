"""An experiment from YARN's configuration files and applications: ``natjam import yarn``."""
