"""What papers have that is no common form: the figures that only one or two of them draw, and what only they measure.

A figure of ``analysis/claims`` without a ``plot`` is drawn by a function of ``drawings``, by its id; cells with
``own: true`` are measured by one of ``cells``.
"""
