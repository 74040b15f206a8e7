"""The report of runs as one HTML file, and the payload it shares with the live page."""
