"""The discrete-event driver: the same machines in virtual time."""
