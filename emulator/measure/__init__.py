"""The measurement campaign: what each operation costs on the machine or Ray cluster at hand.

In: the machine, quiet if possible.
Out: ``calibration.yaml``, which simulations draw from, with its samples and their picture.
"""
