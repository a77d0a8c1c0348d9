"""Leases among replicas that share a PostgreSQL database: a row for each place that is held.

A row is good for ``LEASE_SECONDS`` by the database's clock, and a thread renews those of this process while they are
held: a holder that dies frees its places within that time. A holder that cannot reach the database for as long loses
them, and another may have them. Its restart goes on: it is under way and cannot be undone, and how it ended is kept.
"""

import logging
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import anyio

from guideway.interpreter.leases import Full, Place, ProcessLeases, Waited
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.store.opened import Opened

_log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 30.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class SqlLeases:
    """Leases by rows of a store's database. ``seconds`` is how long a row is good without being renewed.

    Whoever waits for a program of this process is woken at once; for other processes it looks again and again.
    """

    def __init__(self, opened: Opened, *, seconds: float = LEASE_SECONDS) -> None:
        self._opened = opened
        self._seconds = seconds
        self._here = ProcessLeases()
        self._held: set[str] = set()
        self._lock = threading.Lock()  # of what is held
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place, once all are free. Raises ``Busy``, or ``StoreUnavailable``."""
        holder = uuid.uuid4().hex
        found = await self._try(places, run_id, holder)
        if isinstance(found, Full):
            lost, waited = await self._here.until_taken(
                partial(self._try, places, run_id, holder), found, wait, pause=_FIRST_PAUSE, longest=_LONGEST_PAUSE
            )
        else:
            lost, waited = found, Waited(0.0)
        try:
            yield replace(waited, orphan=lost[0]) if lost else waited
        finally:
            try:
                await self._give_back(holder)
            finally:
                self._here.give_back(places)

    async def _try(self, places: Sequence[Place], run_id: str, holder: str) -> Full | list[str]:
        """Take every place and return the runs whose holders were lost there, or say which place is full.

        Then none was taken. The same where it is cancelled.
        """
        full = self._here.take(places, run_id)
        if full is not None:
            return full
        took = False
        try:
            found = await self._opened.change(
                lambda calls, connection: calls.take_places(connection, places, run_id, holder, self._seconds)
            )
            took = not isinstance(found, Full)
            if took:
                self._renew(holder)
        finally:
            if not took:
                self._here.give_back(places)
        return found

    async def _give_back(self, holder: str) -> None:
        with self._lock:
            self._held.discard(holder)
        try:
            with anyio.CancelScope(shield=True):
                await self._opened.change(lambda calls, connection: calls.give_places_back(connection, holder))
        except StoreUnavailable as error:  # nobody renews it any more
            _log.error("a place is given back only in %.0f s: %s", self._seconds, error)

    def _renew(self, holder: str) -> None:
        with self._lock:
            self._held.add(holder)
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew_all, name="leases", daemon=True)
                self._thread.start()

    def _renew_all(self) -> None:
        while not self._ending.wait(self._seconds / 3):
            with self._lock:
                held = sorted(self._held)
            if not held:
                continue
            try:
                lost = self._opened.change_here(
                    lambda calls, connection, held=held: calls.renew_places(connection, held, self._seconds)  # type: ignore[misc]
                )
            except StoreUnavailable as error:
                _log.error("%d leases could not be renewed: %s", len(held), error)
                continue
            with self._lock:
                lost &= self._held
                self._held -= lost
            if lost:
                _log.error("%d leases were lost while they were held: the store was away for too long", len(lost))

    async def close(self) -> None:
        """End the thread that renews."""
        self._ending.set()
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join)
