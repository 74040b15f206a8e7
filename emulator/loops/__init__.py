"""Does a configuration of Kueue ever preempt in a circle: draw small workloads, play them, shrink what goes round.

``draw`` makes workloads, ``search`` plays them until a state comes back and describes it, ``fixes`` tries the
``changes`` that may end it; there too is the argument why nothing can go round in some configurations.
"""
