"""Processes beside the tasks of a node: one serves map outputs (shuffle), one keeps what is saved (store).

In: requests of reduces over HTTP; files to store and to read.
Out: bytes, exactly as they were written; nothing is left when the node host ends.
"""
