"""The database while it is open, and calls to it: each in a worker thread, in one transaction, at the store's time.

This module loads no database: what does is loaded by the first call, in its thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from guideway.interpreter.audit.chain import Link
from guideway.interpreter.audit.entry import Entry
from guideway.interpreter.audit.keeping import PLAIN, Keeping
from guideway.interpreter.audit.known_heads import KnownHeads
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.watch import StoreWatch, Transaction, timed

if TYPE_CHECKING:
    import sqlalchemy as sa

    from guideway.interpreter.store.calls import Calls
    from guideway.interpreter.store.database import Database
    from guideway.interpreter.store.work import Webhooks, Work

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

READERS: Final = 4
"""Threads that read at once."""


class Opened:
    """A database that is opened by its first use, and again by the next one where that failed.

    ``writers`` is how many threads write at once. What is asked is a function of ``Calls`` and a transaction. What it
    leaves for the outbox and for the audit trail is kept with it, as ``webhooks`` and ``keeping`` say. ``watch`` may be
    set before the first use.
    """

    def __init__(
        self,
        open_database: "Callable[[], Database]",
        *,
        writers: int,
        webhooks: "Webhooks",
        keeping: Keeping = PLAIN,
    ) -> None:
        self._open_database = open_database
        self._database: Database | None = None
        self._closed = False
        self._swept = False
        self._opening = threading.Lock()
        self._readers = CapacityLimiter(READERS)
        self._writers = CapacityLimiter(writers)
        self._checks = CapacityLimiter(1)
        self._adders = CapacityLimiter(READERS)
        self.webhooks = webhooks
        self.keeping = keeping
        self.heads = KnownHeads(keeping)
        self.watch: StoreWatch | None = None

    def database(self) -> "Database":
        """Return the open database; for worker threads. Raises ``StoreUnavailable``."""
        with self._opening:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            if self._database is None:
                self._database = self._open_database()
            return self._database

    def _read(self) -> "AbstractContextManager[sa.Connection]":
        return timed(self.watch, Transaction.READ, lambda: self.database().read())

    def _write(self) -> "AbstractContextManager[sa.Connection]":
        return timed(self.watch, Transaction.WRITE, lambda: self.database().write())

    def write_here(self, ask: "Callable[[type[Calls], Work], Result]", now: float, since: float) -> Result:
        """Do something in a transaction that writes, in this thread; ``now`` was at ``since`` of the monotonic clock.

        The first one also looks for what processes before this one left undone. Every open ticket is as it is at that
        time, which goes on while the transaction is waited for: otherwise one
        that waited long would seem to come from a clock that was set back.
        """
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database
        from guideway.interpreter.store.work import Work  # noqa: PLC0415

        with self._write() as connection:
            work = Work.begin(connection, _later(now, since), self.webhooks)
            if not self._swept:
                Calls.sweep(work, self.heads)
            result = ask(Calls, work)
            made: list[Link] = []
            if work.entries:
                work.seals.extend(Calls.append(connection, work.entries, self.heads, work.now, made=made))
        self._swept = True
        self.heads.reached(made)
        self._recorded(work.entries)
        self._anchor(work.seals)
        return result

    def read_here(
        self, ask: "Callable[[type[Calls], sa.Connection, float], Result]", now: float, since: float
    ) -> Result:
        """Do something in a transaction that reads, in this thread; or in one that writes, if something is over."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database
        from guideway.interpreter.store.work import time_to_read  # noqa: PLC0415

        with self._read() as connection:
            at = time_to_read(connection, _later(now, since))
            if at is not None:
                return ask(Calls, connection, at)
        return self.write_here(lambda calls, work: ask(calls, work.connection, work.now), now, since)

    def change_here(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that writes, in this thread; whatever the time."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        with self._write() as connection:
            return ask(Calls, connection)

    def look_here(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that reads, in this thread; whatever the time."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        with self._read() as connection:
            return ask(Calls, connection)

    def append_here(self, entries: Sequence[Entry], made: list[Link]) -> None:
        """Add entries to the audit trail, in this thread and in one transaction.

        ``made`` gets the last record of each trail before it is committed: where that fails, it may be there or not.
        """
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        try:
            with self._write() as connection:
                seals = Calls.append(connection, entries, self.heads, time.time(), made=made)
        except BaseException:
            if self.watch is not None:
                self.watch.unrecorded()
            raise
        self.heads.reached(made)
        self._recorded(entries)
        self._anchor(seals)

    def checkpoint_here(self, now: float) -> None:
        """Keep the seal of each trail's head as a checkpoint, in this thread."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        with self._write() as connection:
            seals = Calls.checkpoint(connection, self.heads, now)
        self._anchor(seals)

    def _recorded(self, entries: Sequence[Entry]) -> None:
        if self.watch is not None:
            self.watch.recorded(entries)

    def _anchor(self, seals: Sequence[str]) -> None:
        """Give checkpoints that are kept out of the store's reach. What goes wrong there is no fault of the store."""
        if self.keeping.anchor is None:
            return
        for seal in seals:
            try:
                self.keeping.anchor(seal)
            except Exception:  # noqa: BLE001  # an anchor is whatever was configured
                _log.exception("a checkpoint of the audit trail could not be brought out of the store: %s", seal)

    async def run(self, here: Callable[[], Result]) -> Result:
        """Do something that writes in a worker thread."""
        return await to_thread.run_sync(here, limiter=self._writers)

    async def write(self, ask: "Callable[[type[Calls], Work], Result]", now: float) -> Result:
        """Do something in a transaction that writes."""
        return await to_thread.run_sync(self.write_here, ask, now, time.monotonic(), limiter=self._writers)

    async def read(self, ask: "Callable[[type[Calls], sa.Connection, float], Result]", now: float) -> Result:
        """Do something in a transaction that reads."""
        return await to_thread.run_sync(self.read_here, ask, now, time.monotonic(), limiter=self._readers)

    async def change(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that writes, whatever the time."""
        return await to_thread.run_sync(self.change_here, ask, limiter=self._writers)

    async def look(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that reads, whatever the time."""
        return await to_thread.run_sync(self.look_here, ask, limiter=self._readers)

    async def add(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Add something in a transaction that waits for nobody: where the database itself decides between two.

        What comes with each request is neither behind those who read nor in their way.
        """
        return await to_thread.run_sync(self.look_here, ask, limiter=self._adders)

    async def check(self, now: float) -> None:
        """Write something small, not behind all that waits to be written. One that is cancelled is not waited for."""

        def touch(_: "type[Calls]", work: "Work") -> None:
            work.touch()

        await to_thread.run_sync(
            self.write_here, touch, now, time.monotonic(), limiter=self._checks, abandon_on_cancel=True
        )

    async def close(self) -> None:
        """Let go of the database. Nothing opens it again."""

        def close() -> None:
            with self._opening:
                self._closed = True
                database, self._database = self._database, None
            if database is not None:
                database.close()

        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(close)


def _later(now: float, since: float) -> float:
    waited = time.monotonic() - since
    return now + waited if waited > 1 else now
