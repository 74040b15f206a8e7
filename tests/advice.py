"""Plays of a site's adviser in this process."""

from __future__ import annotations

from analysis.advise.sites import Played, SiteQuestion, play_batch


def played(question: SiteQuestion) -> Played:
    """All days of all candidates."""
    days = range(question.days)
    return dict(play_batch([(candidate.name, day, play) for candidate, play in question.candidates for day in days]))
