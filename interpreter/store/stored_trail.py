"""The audit trail of a process: what is put into it comes together, and one of those who wait for it commits for all.

This module loads no database. What nobody waits for a thread commits a moment later, and it tries again where the store
could not be used.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from guideway.interpreter.audit.chain import Link, moment
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.opened import Opened

_log = logging.getLogger(__name__)

PAUSE: Final = 0.1
"""Seconds that the thread lets come together what nobody waits for."""

RETRY: Final = 5.0
"""Seconds until it tries again where the store could not be used."""

MOST: Final = 10_000
"""Entries that wait while the store cannot be used. Of more, refusals are lost first, the oldest of them; where none
waits, the new ones are. The trail says so.
"""

OUTCOMES: Final = 1_000
"""Entries beyond those of how restarts ended: what was done is not lost for what was asked."""

BATCH: Final = 1_000
"""Entries of one transaction, so that others have their turn."""

CLOSING_SECONDS: Final = 15.0
"""Seconds that closing waits for an attempt of the thread's to end: longer than one takes."""

LOST: Final = "records of the audit trail were lost while the store could not be used"

_REFUSALS: Final = frozenset({Kind.CALL_REFUSED, Kind.RUN_REFUSED, Kind.RUN_REPEATED})  # nothing was done then
_OUTCOMES: Final = frozenset({Kind.RESTART_ENDED, Kind.RESTART_UNKNOWN})

_Numbered = tuple[int, Entry]
"""An entry with its place among all that were put."""


@dataclass(slots=True)
class _Attempt:
    """One task's commit for all that wait."""

    over: anyio.Event
    error: StoreUnavailable | None = None


@dataclass(slots=True)
class _Waiter:
    """Whoever waits for all that was put before ``until``; ``lost`` says that not all of it is going to be kept."""

    until: int
    lost: bool


@dataclass(slots=True)
class _Gap:
    """What was lost of one tenant's: how many, and from when to when."""

    since: float
    until: float
    lost: int = 0


class StoredTrail:
    """The trail in a store (``Trail``)."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._kept: deque[_Numbered] = deque()  # what waits and is not lost for what comes later
        self._refusals: deque[_Numbered] = deque()  # what waits and may be
        self._flight: list[_Numbered] = []  # what a transaction is about, or was about and may have kept
        self._doubt: Link | None = None  # one record of a transaction that failed when they had been made
        self._gaps: dict[str | None, _Gap] = {}  # what was lost, and is not told on disk
        self._told: dict[str | None, _Gap] = {}  # of that, what is told in flight
        self._put = 0  # entries that were ever put
        self._waiters: list[_Waiter] = []
        self._failing: str | None = None
        self._attempt: _Attempt | None = None
        self._lock = threading.Lock()  # of all of these: never held for long
        self._writing = threading.Lock()  # so that what came first is written first
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def failing(self) -> str | None:
        """Why records cannot be kept now, as of the last try."""
        return self._failing

    @property
    def pending(self) -> bool:
        """Whether anything waits."""
        return bool(self._size)

    @property
    def _size(self) -> int:
        return len(self._flight) + len(self._kept) + len(self._refusals)

    def put(self, entries: Sequence[Entry]) -> None:
        """Let entries be kept, soon."""
        lost: list[Entry] = []
        with self._lock:
            is_over = self._ending.is_set()
            for entry in entries:
                numbered = (self._put, entry)
                self._put += 1
                if is_over or not self._has_room(entry, lost):
                    self._lose(numbered, lost)
                elif entry.kind in _REFUSALS:
                    self._refusals.append(numbered)
                else:
                    self._kept.append(numbered)
            if not is_over and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="audit trail", daemon=True)
                self._thread.start()
        self._tell_lost(lost, "the store is closed" if is_over else "the store cannot be used, and too many wait")
        if not is_over and not self._wake.is_set():
            self._wake.set()

    async def written(self) -> None:
        """Return when all that was put until now is on disk.

        Raises ``StoreUnavailable``, also where any of it was lost, or something before it of which the trail does not
        tell yet.
        """
        with self._lock:
            waiter = _Waiter(self._put, bool(self._gaps or self._told))
            self._waiters.append(waiter)
        try:
            while self._waits(waiter.until):
                await self._attempt_once()
        finally:
            with self._lock:
                self._waiters = [each for each in self._waiters if each is not waiter]
        if waiter.lost:
            raise StoreUnavailable(LOST)

    async def _attempt_once(self) -> None:
        """Write what waits, or wait for the task that does. Raises ``StoreUnavailable``."""
        attempt = self._attempt
        if attempt is not None:
            await attempt.over.wait()
            if attempt.error is not None:
                raise StoreUnavailable(str(attempt.error)) from attempt.error
            return
        attempt = self._attempt = _Attempt(anyio.Event())
        try:
            await self._opened.run(self.flush)
        except StoreUnavailable as error:
            attempt.error = error
            raise
        finally:  # one that is cancelled before its turn has done nothing: another goes on
            self._attempt = None
            attempt.over.set()

    def flush(self) -> None:
        """Write what waits; for worker threads. Raises ``StoreUnavailable``: then it goes on waiting."""
        with self._writing:
            until = self._put
            while self._waits(until):
                self._write_some()

    def _waits(self, until: int) -> bool:
        """Say whether anything waits that was put before a place."""
        with self._lock:
            return any(queue and queue[0][0] < until for queue in (self._flight, self._kept, self._refusals))

    def _write_some(self) -> None:
        try:
            self._resolve()
            self._write_batch()
        except BaseException as error:
            lost: list[Entry] = []
            with self._lock:
                self._failing = str(error)
                self._shrink(MOST, lost)
            self._tell_lost(lost, "the store cannot be used, and too many wait")
            if isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                raise
            _log.exception("the audit trail cannot be written")
            raise StoreUnavailable(f"the audit trail cannot be written: {type(error).__name__}") from error
        self._failing = None

    def _resolve(self) -> None:
        """Find out whether a transaction was committed of which no answer came: nothing is to be kept twice.

        By one that writes: it has the store to itself, so that nothing of the other one is under way any more.
        """
        doubt = self._doubt
        if doubt is None:
            return
        is_kept = self._opened.change_here(lambda calls, connection: calls.has_record(connection, doubt))
        with self._lock:
            self._doubt = None
            if is_kept:
                self._land()
            else:
                self._give_back()

    def _write_batch(self) -> None:
        with self._lock:
            self._flight = self._next()
            self._told, self._gaps = self._gaps, {}
            batch = [*_told(self._told), *(entry for _, entry in self._flight)]
        if not batch:
            return
        made: list[Link] = []
        try:
            self._opened.append_here(batch, made)
        except BaseException:
            with self._lock:
                if made:  # it may have been committed, and its answer lost
                    self._doubt = made[-1]
                else:
                    self._give_back()
            raise
        with self._lock:
            self._land()

    def _next(self) -> list[_Numbered]:
        """Take the first that wait, in the order in which they were put."""
        found: list[_Numbered] = []
        while len(found) < BATCH and (self._kept or self._refusals):
            queues = [queue for queue in (self._kept, self._refusals) if queue]
            found.append(min(queues, key=lambda queue: queue[0][0]).popleft())
        return found

    def _land(self) -> None:
        """Forget what is on disk."""
        self._flight, self._told = [], {}

    def _give_back(self) -> None:
        """Let what was in flight wait again, before all else."""
        for numbered in reversed(self._flight):
            (self._refusals if numbered[1].kind in _REFUSALS else self._kept).appendleft(numbered)
        for tenant, gap in self._told.items():
            self._widen(tenant, gap)
        self._land()

    def _has_room(self, entry: Entry, lost: list[Entry]) -> bool:
        """Say whether one more entry can wait; the oldest refusal makes room for it."""
        if self._failing is None:
            return True
        self._shrink(MOST - 1, lost)
        return self._size < MOST + (OUTCOMES if entry.kind in _OUTCOMES else 0)

    def _shrink(self, most: int, lost: list[Entry]) -> None:
        """Lose the oldest refusals of too many."""
        while self._refusals and self._size > most:
            self._lose(self._refusals.popleft(), lost)

    def _lose(self, numbered: _Numbered, lost: list[Entry]) -> None:
        """Give an entry up: the trail is to tell of it, and who waits for it does not take it to be kept."""
        number, entry = numbered
        lost.append(entry)
        self._widen(entry.tenant, _Gap(entry.at, entry.at, 1))
        for waiter in self._waiters:
            waiter.lost |= number < waiter.until

    def _widen(self, tenant: str | None, by: _Gap) -> None:
        gap = self._gaps.setdefault(tenant, _Gap(by.since, by.until))
        gap.since, gap.until, gap.lost = min(gap.since, by.since), max(gap.until, by.until), gap.lost + by.lost

    def _tell_lost(self, entries: Iterable[Entry], why: str) -> None:
        private = self._opened.keeping.private
        for entry in entries:
            try:
                facts = dict(entry.facts if private is None else private(entry.facts))
                said = json.dumps({"time": moment(entry.at), "kind": entry.kind.value, "tenant": entry.tenant} | facts)
            except Exception as error:  # noqa: BLE001  # what cannot be written down is told too, without its facts
                said = f"{entry.kind.value} at {entry.at}, which cannot be written down: {type(error).__name__}"
            _log.error("a record of the audit trail was lost: %s: %s", why, said)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait()
            self._wake.clear()
            pause = PAUSE
            while self.pending and not self._ending.wait(pause):
                try:
                    self.flush()
                except StoreUnavailable as error:
                    _log.error("%d records of the audit trail wait for the store: %s", self._size, error)
                    pause = RETRY

    def close(self) -> None:
        """Write what waits, keep a last checkpoint, and end the thread. What cannot be written is logged, and lost."""
        with self._lock:
            self._ending.set()
        self._wake.set()
        if self._thread is None:
            return
        self._thread.join(CLOSING_SECONDS)
        if self._thread.is_alive():
            self._tell_lost(self._waiting(), "the store does not answer")
            return
        try:
            self.flush()
            self._opened.checkpoint_here(time.time())
        except StoreUnavailable as error:
            self._tell_lost(self._waiting(), str(error))

    def _waiting(self) -> list[Entry]:
        with self._lock:
            return [entry for _, entry in sorted([*self._flight, *self._kept, *self._refusals], key=lambda one: one[0])]


def _told(gaps: dict[str | None, _Gap]) -> list[Entry]:
    return [
        Entry(
            Kind.TRAIL_GAP,
            tenant,
            gap.until,
            {"lost": gap.lost, "since": moment(gap.since), "until": moment(gap.until)},
        )
        for tenant, gap in gaps.items()
    ]
