"""Programs that tasks may run, each a file of its own that needs nothing of natjam."""
