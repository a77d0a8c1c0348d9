"""The runs of one server: they can be cancelled all together, and what became of them at a stop is told in one line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anyio

from guideway.interpreter.results import Report, Status
from guideway.server.idle import Idle, drain

_log: Final = logging.getLogger(__name__)
_MOST_IDS: Final = 100  # in the line; each run has a line of its own too


class Runs:
    """Runs that go on, each with the scope that ends it. ``stopping`` is whether the server was told to stop."""

    def __init__(self) -> None:
        self.stopping = False
        self._scopes = set[anyio.CancelScope]()
        self._idle = Idle()
        self._finished: list[str] = []
        self._cancelled: list[str] = []

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a run, which ``cancel`` ends."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            self._idle.busy()
            try:
                yield
            finally:
                self._scopes.remove(scope)
                if not self._scopes:
                    self._idle.rest()

    async def drain(self, seconds: float, hurry: anyio.Event) -> None:
        """Return when nothing runs; at the latest after some seconds, or at an event."""
        await drain(self._idle.wait, seconds, hurry)

    def cancel(self) -> None:
        """Cancel what runs."""
        for scope in self._scopes:
            scope.cancel()

    def ended(self, report: Report) -> None:
        """Note how a run ended, where that is after the server was told to stop."""
        if self.stopping:
            (self._cancelled if report.status is Status.CANCELLED else self._finished).append(report.run_id)

    def facts(self) -> dict[str, Any]:
        """Return, for a record, what became of the runs that went on when the server was told to stop."""
        return {"finished": list(self._finished), "cancelled": list(self._cancelled), "not_ended": len(self)}

    def tell(self) -> None:
        """Log what became of the runs that went on when the server was told to stop, where there were any."""
        if not (self._finished or self._cancelled or self._scopes):
            return
        told = f"{_counted(self._finished, 'finished')}, {_counted(self._cancelled, 'cancelled')}"
        left = f", {len(self)} did not end" if self._scopes else ""
        _log.info("stopped; of the runs that went on: %s%s", told, left)


def _counted(ids: list[str], what: str) -> str:
    if not ids:
        return f"0 {what}"
    more = ", …" if len(ids) > _MOST_IDS else ""
    return f"{len(ids)} {what} ({', '.join(ids[:_MOST_IDS])}{more})"
