"""The choices on each axis of a scheduler.

Each policy is a plain documented function of a frozen view (``emulator.policies.views``), with a record beside it
(``emulator.policies.policy``).  ``axes.py`` has all of them; who needs only some imports those.  Users need no entry
there for their own policies: the experiment file names a function as ``module:function``, or a record as
``module:RECORD``.
"""
