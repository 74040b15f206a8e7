"""The live engine: real processes on real machines at scaled time (the Ray driver and what it starts)."""
