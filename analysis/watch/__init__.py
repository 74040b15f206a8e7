"""The page of ``natjam run --watch``: a separate process gets the status of a run and draws it while it grows.

In: messages with the status and the newest records, on standard input.
Out: a page on this machine, at the address that it prints.
"""
