"""Figures: each function returns one matplotlib figure, safe for colour-blind readers, legible in print and in grey.

In: frames or plain values.
Out: a figure, which its caller saves.
"""
