"""The report of runs as one HTML file, and the payload that the live page uses too."""
