"""The database while it is open, and calls to it: each in a worker thread, in one transaction, at the store's time.

This module loads no database: what does is loaded by the first call, in its thread.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from guideway.interpreter.records import StoreUnavailable

if TYPE_CHECKING:
    import sqlalchemy as sa

    from guideway.interpreter.store.calls import Calls
    from guideway.interpreter.store.database import Database
    from guideway.interpreter.store.work import Webhooks, Work

Result = TypeVar("Result")

READERS: Final = 4
"""Threads that read at once."""


class Opened:
    """A database that is opened by its first use, and again by the next one where that failed.

    ``writers`` is how many threads write at once. What is asked is a function of ``Calls`` and a transaction.
    """

    def __init__(self, open_database: "Callable[[], Database]", *, writers: int, webhooks: "Webhooks") -> None:
        self._open_database = open_database
        self._database: Database | None = None
        self._closed = False
        self._opening = threading.Lock()
        self._readers = CapacityLimiter(READERS)
        self._writers = CapacityLimiter(writers)
        self.webhooks = webhooks

    def database(self) -> "Database":
        """Return the open database; for worker threads. Raises ``StoreUnavailable``."""
        with self._opening:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            if self._database is None:
                self._database = self._open_database()
            return self._database

    def write_here(self, ask: "Callable[[type[Calls], Work], Result]", now: float, since: float) -> Result:
        """Do something in a transaction that writes, in this thread; ``now`` was at ``since`` of the monotonic clock.

        Every open ticket is as it is at that time, which goes on while the transaction is waited for: otherwise one
        that waited long would seem to come from a clock that was set back.
        """
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database
        from guideway.interpreter.store.work import Work  # noqa: PLC0415

        with self.database().write() as connection:
            return ask(Calls, Work.begin(connection, _later(now, since), self.webhooks))

    def read_here(
        self, ask: "Callable[[type[Calls], sa.Connection, float], Result]", now: float, since: float
    ) -> Result:
        """Do something in a transaction that reads, in this thread; or in one that writes, if something is over."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database
        from guideway.interpreter.store.work import time_to_read  # noqa: PLC0415

        with self.database().read() as connection:
            at = time_to_read(connection, _later(now, since))
            if at is not None:
                return ask(Calls, connection, at)
        return self.write_here(lambda calls, work: ask(calls, work.connection, work.now), now, since)

    def change_here(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that writes, in this thread; whatever the time."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        with self.database().write() as connection:
            return ask(Calls, connection)

    def look_here(self, ask: "Callable[[type[Calls], sa.Connection], Result]") -> Result:
        """Do something in a transaction that reads, in this thread; whatever the time."""
        from guideway.interpreter.store.calls import Calls  # noqa: PLC0415  # loads the database

        with self.database().read() as connection:
            return ask(Calls, connection)

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
