"""``natjam probe``: what it costs to preempt one program on this machine.

In: a command.
Out: the times of stopping, saving, restoring and killing it, as a profile for ``overheads:``.
"""
