"""Idempotency keys of a store that is opened by its first use. This module loads no database."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.repeats import Call, Earlier
from guideway.interpreter.store.opened import Opened
from guideway.interpreter.store.soon import Soon

if TYPE_CHECKING:
    import sqlalchemy as sa

    from guideway.interpreter.store.calls import Calls

_log = logging.getLogger(__name__)

_Ended = tuple[Call, Mapping[str, Any]]


class StoredRepeats:
    """The keys in a store (``Repeats``)."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._late: Soon[_Ended] = Soon("results of calls", self._keep, name=_name_of)

    async def begin(self, call: Call, now: float) -> Earlier | None:
        """Take a key for a call, or return the call that has it."""
        if self._late.pending:
            await to_thread.run_sync(self._late.flush)
        return await self._opened.write(lambda calls, work: calls.begin_call(work, call), now)

    async def end(self, call: Call, result: Mapping[str, Any]) -> None:
        """Keep what a call was answered with; if the store is away, as soon as it is there again."""
        try:
            await self._opened.change(lambda calls, connection: calls.end_call(connection, call, result))
        except StoreUnavailable as error:
            _log.error("run %s: its result waits for the store: %s", call.run_id, error)
            self._late.put([(call, result)])

    async def forget(self, call: Call) -> None:
        """Leave a key free."""
        await self._opened.change(lambda calls, connection: calls.forget_call(connection, call))

    async def close(self) -> None:
        """Keep what waits to be kept."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._late.close)

    def _keep(self, ended: Sequence[_Ended]) -> None:
        def keep(calls: "type[Calls]", connection: "sa.Connection") -> None:
            for call, result in ended:
                calls.end_call(connection, call, result)

        self._opened.change_here(keep)


def _name_of(ended: _Ended) -> str:
    """Return whose result something is: neither the key nor what services said is for the log."""
    return f"run {ended[0].run_id}"
