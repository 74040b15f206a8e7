"""natjam: a laboratory for preemption in shared clusters."""

__version__ = "0.1.0"
