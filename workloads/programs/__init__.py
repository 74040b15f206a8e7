"""Programs that tasks may run; each is one file that needs nothing from natjam."""
