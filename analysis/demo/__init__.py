"""The demonstration: natjam's Fig. 4 on real processes under four ways to make room, beside the paper's figures.

In comes nothing but the machine; out go a table with a verdict, a report, a picture and the four runs.
"""
