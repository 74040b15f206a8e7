"""The Preemptor: who was asked for how many containers, for whom, and since when (natjam, section 3.2).

Theory of operation
-------------------
An allocation asks jobs for containers by contracts.  The Preemptor keeps an entry of each in the *reclaim list* of the
job that it is for.  The victim's ApplicationMaster is told at its next heartbeat.  An entry is removed when the job
gets a container.  After ``kill_timeout`` (12 s) it moves to the *expired list* for ``expired`` (2 s), and a container
of its victim is killed.  The entries, expired ones included, prevent a second request for the same need.

A gang gets containers only together, so its entry is removed when the container becomes free: it is held for the gang
(``emulator.core.resource_manager.gangs``), and its former owner has given what it was asked for.

After a restart of the ResourceManager the time begins again, because no answer could reach it meanwhile.

Containers that a transactional workload wants (``emulator.core.resource_manager.withholding``) are entries too, with
their own timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from emulator.core.settings import Settings
from emulator.vocabulary import Frozen

TRANSACTIONAL = "_transactional"
"""Requester of the entries for a transactional workload; no job has a name that begins with an underscore."""


class Reclaim(Frozen):
    """A request of ``requester`` to take a container from ``victim``."""

    requester: str
    """A job, or ``TRANSACTIONAL``."""
    victim: str
    since_ns: int
    container: str | None = None
    """The one that was named; None: any of the victim's."""
    grace_ns: int = 0
    """How much later than others it is too old: the victim may give its tasks so long to end."""


class Preemptor:
    """Reclaim and expired lists; see the module's theory of operation."""

    def __init__(self, settings: Settings) -> None:
        self.reclaims: dict[str, list[Reclaim]] = {}
        """The reclaim list of each requesting job, oldest first."""
        self._wanted: dict[str, int] = {}
        self.changes = 0
        """Grows whenever less is being reclaimed than before."""
        self.expired: list[tuple[int, Reclaim]] = []
        """Reclaims that ended in a kill, with the instant their container is assumed dead."""
        self._kill_timeout_ns = settings.protocol.kill_timeout_ns
        self._grace_ns = settings.kill_after_ns
        self._expired_ns = settings.protocol.expired_ns
        self.due_ns: int | None = None
        """Earliest time at which ``expire`` may change something (never too late); None: there is none."""

    def outstanding(self, requester: str) -> int:
        """Number of containers being reclaimed for ``requester``."""
        dying = sum(1 for _, reclaim in self.expired if reclaim.requester == requester)
        return len(self.reclaims.get(requester, ())) + dying

    def asked(self) -> Mapping[str, int]:
        """Number of containers asked back from each victim that it still holds."""
        return Counter(self._wanted) + Counter(reclaim.victim for _, reclaim in self.expired)

    def wanted_of(self, victim: str) -> int:
        """Number of entries in the reclaim lists that name ``victim``."""
        return self._wanted.get(victim, 0)

    def ask(self, requester: str, victim: str, now_ns: int, container: str | None = None, grace_ns: int = 0) -> None:
        """``victim``, whose tasks have such a grace, is asked for a container, or for the one named, for
        ``requester``."""
        entry = Reclaim(requester, victim, now_ns, container, grace_ns)
        self.reclaims.setdefault(requester, []).append(entry)
        self._wanted[victim] = self.wanted_of(victim) + 1
        expires_ns = self._expires_ns(entry)
        self.due_ns = expires_ns if self.due_ns is None else min(self.due_ns, expires_ns)

    def allocated(self, requester: str, former_owner: str | None, pending: int) -> None:
        """``requester`` got a container that ``former_owner`` held before, and still wants ``pending``.

        The container fulfils an entry that names its former owner, which now has one less to give.  It is an entry of
        ``requester``, or else of another job, which must then ask again.  Any other container fulfils no entry, as long
        as more is wanted than is being reclaimed.
        """
        if former_owner is not None and self.wanted_of(former_owner):
            everyones = self._naming(former_owner, self.reclaims)
            oldest_ns, other, oldest = min(everyones)
            since_ns, fulfilled, place = min(self._naming(former_owner, (requester,)) or everyones)
            if oldest_ns < since_ns:
                # The victim has answered, so what it owes to others counts from the time of the fulfilled entry.
                self.reclaims[other][oldest] = replace(self.reclaims[other][oldest], since_ns=since_ns)
                self.reclaims[other].sort(key=lambda entry: entry.since_ns)
            self._drop(fulfilled, place)
        self.withdraw_surplus(requester, pending)

    def kept(self, former_owner: str, gangs: Iterable[str]) -> bool:
        """A container of ``former_owner`` has become free, which one of these gangs may have asked for: then its entry
        is fulfilled, although the gang gets the container only with all others.  Returns whether there was one."""
        entries = self._naming(former_owner, gangs) if self.wanted_of(former_owner) else []
        for _, requester, place in sorted(entries)[:1]:
            self._drop(requester, place)
        return bool(entries)

    def _naming(self, victim: str, requesters: Iterable[str]) -> list[tuple[int, str, int]]:
        return [
            (entry.since_ns, requester, i)
            for requester in requesters
            for i, entry in enumerate(self.reclaims.get(requester, ()))
            if entry.victim == victim
        ]

    def withdraw_surplus(self, requester: str, pending: int) -> None:
        """The job wants fewer containers than are being reclaimed for it: drop its newest entries."""
        while len(self.reclaims.get(requester, ())) > pending:
            self._drop(requester, -1)

    def forget_job(self, job: str) -> None:
        """``job`` has ended: drop all reclaims for it or from it."""
        while job in self.reclaims:
            self._drop(job, -1)
        for _, requester, index in reversed(self._naming(job, self.reclaims) if self.wanted_of(job) else []):
            self._drop(requester, index)
        self._keep_expired([(at, entry) for at, entry in self.expired if job not in (entry.requester, entry.victim)])

    def expire(self, now_ns: int, kill: Callable[[Reclaim], bool]) -> bool:
        """Handle entries that are too old: ``kill(entry)`` kills the container named, or one of the victim, if it is
        there.

        Returns whether anything has changed.
        """
        if self.due_ns is None or now_ns < self.due_ns:
            return False
        kept = [(until_ns, entry) for until_ns, entry in self.expired if until_ns > now_ns]
        before = self.changes
        self._keep_expired(kept)
        for requester in list(self.reclaims):
            late = [entry for entry in self.reclaims[requester] if self._expires_ns(entry) <= now_ns]
            for entry in late:
                self._drop(requester, self.reclaims[requester].index(entry))
                if kill(entry):
                    self.expired.append((now_ns + self._expired_ns, entry))
        times_ns = [self._expires_ns(entry) for entries in self.reclaims.values() for entry in entries]
        self.due_ns = min((*times_ns, *(until_ns for until_ns, _ in self.expired)), default=None)
        return self.changes != before

    def wait_anew(self, now_ns: int) -> None:
        """The ResourceManager was away: nobody could answer it, so the time to give a container begins again."""
        for entries in self.reclaims.values():
            entries[:] = [replace(entry, since_ns=now_ns) for entry in entries]

    def _expires_ns(self, entry: Reclaim) -> int:
        if entry.requester == TRANSACTIONAL:
            return entry.since_ns + self._grace_ns
        return entry.since_ns + self._kill_timeout_ns + entry.grace_ns

    def _keep_expired(self, kept: list[tuple[int, Reclaim]]) -> None:
        self.changes += len(kept) < len(self.expired)
        self.expired = kept

    def _drop(self, requester: str, index: int) -> None:
        self.changes += 1
        victim = self.reclaims[requester].pop(index).victim
        self._wanted[victim] -= 1
        if not self._wanted[victim]:
            del self._wanted[victim]
        if not self.reclaims[requester]:
            del self.reclaims[requester]
