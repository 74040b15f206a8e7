"""Published figures, run again: a paper's claims, the experiments that measure them, and both side by side.

In: definitions of figures and claims (YAML), and an engine.
Out: a verdict on each claim, tables and a page.
"""
