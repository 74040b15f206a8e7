"""The errors natjam tells its user about: one clear message each, and the exit status that goes with it."""

from __future__ import annotations


class NatjamError(Exception):
    """Base of every error meant for the user; its text is the whole message, without a traceback."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(NatjamError):
    """Bad input: found before anything was started.  Exit status 2.

    The message may hold several lines, one for each problem of a file.
    """

    exit_code = 2


class RunError(NatjamError):
    """Met while running: a job failed, the output differs, a policy raised.  Exit status 1."""


def printable(text: str) -> str:
    """What a file holds may hold line ends and worse: a message stays one line, and a terminal unharmed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
