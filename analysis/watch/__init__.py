"""The page that ``natjam run --watch`` serves: a process of its own that is told of a run and draws it as it grows."""
