"""The page of ``natjam run --watch``: a separate process gets the status of a run and draws it while it grows."""
