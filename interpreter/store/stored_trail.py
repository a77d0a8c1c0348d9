"""The audit trail of a process: what is put into it comes together, and one of those who wait for it commits for all.

This module loads no database. What nobody waits for a thread commits a moment later, and it tries again where the store
could not be used.
"""

import json
import logging
import threading
import time
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
"""Entries that wait while the store cannot be used; of more, the oldest are lost, and the trail says so."""

BATCH: Final = 1_000
"""Entries of one transaction, so that others have their turn."""

CLOSING_SECONDS: Final = 15.0
"""Seconds that closing waits for an attempt of the thread's to end: longer than one takes."""


@dataclass(slots=True)
class _Attempt:
    """One task's commit for all that wait."""

    over: anyio.Event
    error: StoreUnavailable | None = None


@dataclass(slots=True)
class _Gap:
    """What was lost of one tenant's: how many, and from when to when."""

    since: float
    until: float
    lost: int = 0


@dataclass(slots=True)
class _Doubt:
    """A transaction that failed when its records had been made: it may have been committed, and its answer lost.

    ``last`` is one of its records, which is there if it was. What it was about stays in flight, with ``gaps`` told.
    """

    last: Link
    gaps: dict[str | None, _Gap]


class StoredTrail:
    """The trail in a store (``Trail``)."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._pending: list[Entry] = []
        self._in_flight = 0  # of those that are pending, how many a transaction is about, or was and may have kept
        self._doubt: _Doubt | None = None
        self._gaps: dict[str | None, _Gap] = {}
        self._put = 0  # entries that were ever put
        self._done = 0  # and those of them that are on disk, or lost
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
        return bool(self._pending)

    def put(self, entries: Sequence[Entry]) -> None:
        """Let entries be kept, soon."""
        with self._lock:
            is_over = self._ending.is_set()
            if not is_over:
                self._put += len(entries)
                self._pending.extend(entries)
                if self._failing is not None:
                    self._bound()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="audit trail", daemon=True)
                    self._thread.start()
        if is_over:
            self._tell_lost(entries, "the store is closed")
        elif not self._wake.is_set():
            self._wake.set()

    async def written(self) -> None:
        """Return when all that was put until now is on disk. Raises ``StoreUnavailable``."""
        until = self._put
        while self._done < until:
            attempt = self._attempt
            if attempt is not None:
                await attempt.over.wait()
                if attempt.error is not None:
                    raise StoreUnavailable(str(attempt.error)) from attempt.error
                continue
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
            while self._done < until:
                self._write_some()

    def _write_some(self) -> None:
        try:
            self._resolve()
            self._write_batch()
        except BaseException as error:
            with self._lock:
                self._failing = str(error)
                self._bound()
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
        is_kept = self._opened.change_here(lambda calls, connection: calls.has_record(connection, doubt.last))
        with self._lock:
            self._doubt = None
            if is_kept:
                self._drop_in_flight()
            else:
                self._give_back(doubt.gaps)

    def _write_batch(self) -> None:
        with self._lock:
            batch = self._pending[:BATCH]
            gaps, self._gaps = self._gaps, {}
            self._in_flight = len(batch)
        if not batch and not gaps:
            return
        made: list[Link] = []
        try:
            self._opened.append_here([*_told(gaps), *batch], made)
        except BaseException:
            with self._lock:
                if made:
                    self._doubt = _Doubt(made[-1], gaps)
                else:
                    self._give_back(gaps)
            raise
        with self._lock:
            self._drop_in_flight()

    def _drop_in_flight(self) -> None:
        del self._pending[: self._in_flight]
        self._done += self._in_flight
        self._in_flight = 0

    def _give_back(self, gaps: dict[str | None, _Gap]) -> None:
        self._in_flight = 0
        for tenant, gap in gaps.items():
            self._widen(tenant, gap)

    def _bound(self) -> None:
        """Lose the oldest of too many."""
        lost = self._pending[self._in_flight :][: max(0, len(self._pending) - MOST)]
        if not lost:
            return
        del self._pending[self._in_flight : self._in_flight + len(lost)]
        self._done += len(lost)
        for entry in lost:
            self._widen(entry.tenant, _Gap(entry.at, entry.at, 1))
        self._tell_lost(lost, "the store cannot be used, and too many wait")

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
                    _log.error("%d records of the audit trail wait for the store: %s", len(self._pending), error)
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
            self._tell_lost(self._pending, "the store does not answer")
            return
        try:
            self.flush()
            self._opened.checkpoint_here(time.time())
        except StoreUnavailable as error:
            self._tell_lost(self._pending, str(error))


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
