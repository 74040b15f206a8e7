"""``natjam probe``: what it costs to preempt one program on this machine."""
