"""Does a configuration of Kueue ever preempt in a circle: draw small workloads, play them, shrink what goes round.

``draw`` makes workloads, ``search`` plays them until a state comes back, ``fixes`` tries the ``changes`` that may end
it, ``arguments`` says where nothing can go round, ``story`` tells.
"""
