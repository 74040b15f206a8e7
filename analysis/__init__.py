"""Work after a run: checking its output, and computing figures from its results."""
