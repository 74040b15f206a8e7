"""The errors that natjam shows its user: each has one clear message and an exit status."""

from __future__ import annotations


class NatjamError(Exception):
    """Base of every error meant for the user; its text is the whole message, without a traceback."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigError(NatjamError):
    """Bad input, found before anything was started.  Exit status 2.

    The message may hold several lines, one for each problem of a file.
    """

    exit_code = 2


class RunError(NatjamError):
    """A run failed: a job failed, the output differs, or a policy raised.  Exit status 1."""


class EndlessPreemptionError(RunError):
    """Tasks are killed to make room again and again, and none ends."""


def printable(text: str) -> str:
    """The text with unprintable characters escaped: a message stays on one line and cannot disturb a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
