"""What comes after a run: checking its output, and measuring what it shows."""
