"""Another process that decides the allocation: its start, its lines, its end.

In: what the ResourceManager asks (``emulator.core.effects.AskOutside``).  Out: what the process says
(``emulator.core.messages.DecidedOutside``).  Both engines use it.
"""
