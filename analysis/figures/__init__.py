"""Figures: one function each, which returns a matplotlib figure; colour-blind safe, legible in print and in grey."""
