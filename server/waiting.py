"""Waiting for a person's decision: it holds no worker, is bounded in time and number, and ends when the server stops.

The store is looked at again and again, ever less often: the decision may fall on another replica, which sets no event
here. Calls that have waited for a while look at the same instants, so that the store answers all of them at once.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from guideway.interpreter.approvals import TicketState, Who
from guideway.interpreter.records import Records, StoreUnavailable

MOST_WAITING: Final = 512
"""Calls that wait at a time."""

MOST_OF_A_PERSON: Final = 32
"""Calls of one person that wait at a time."""

TELL_SECONDS: Final = 10.0
"""Seconds after which a client that asked for progress hears that its call goes on."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_GROWTH: Final = 1.5


class Waits:
    """The calls of one server that wait. Once ``stop`` was called, none does any more."""

    def __init__(self) -> None:
        self._stopped = False
        self._scopes = set[anyio.CancelScope]()
        self._people = Counter[Who]()

    def stop(self) -> None:
        """End what waits, as if its time were over: its ticket stays, and can be used at the next server."""
        self._stopped = True
        for scope in list(self._scopes):
            scope.cancel()

    @contextmanager
    def one(self, who: Who) -> Iterator[bool]:
        """Count one call that waits, and end it when the server stops. Gives False where it must not wait."""
        person = Who(who.issuer, who.subject)
        full = len(self._scopes) >= MOST_WAITING or self._people[person] >= MOST_OF_A_PERSON
        if self._stopped or full:
            yield False
            return
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            self._people[person] += 1
            try:
                yield True
            finally:
                self._scopes.remove(scope)
                self._people[person] -= 1
                self._people += Counter()  # drops who waits no more


async def until_decided(
    records: Records, ticket_id: str, seconds: float, tell: Callable[[str], Awaitable[None]]
) -> bool:
    """Say whether a ticket is decided, over, or cannot be looked at, within some seconds: then the gate has an answer.

    ``tell`` is given words for the client, now and then.
    """
    ends, told, pause = time.monotonic() + seconds, time.monotonic(), _FIRST_PAUSE
    while True:
        try:
            ticket = await records.ticket(ticket_id, time.time())
        except StoreUnavailable:
            return True
        if ticket is None or ticket.state is not TicketState.PENDING:
            return True
        now = time.monotonic()
        if now >= ends:
            return False
        if now - told >= TELL_SECONDS:
            told = now
            with anyio.move_on_after(ends - now):  # a client that reads nothing must not make the wait longer
                await tell(f"waiting for a person's decision, {max(0, int(ticket.expires_at - time.time()))} s left")
        await anyio.sleep(min(_to_next_look(pause, now), ends - now))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def _to_next_look(pause: float, now: float) -> float:
    """Return the seconds to sleep: the longest pause ends when those of all others do."""
    return pause if pause < _LONGEST_PAUSE else _LONGEST_PAUSE - now % _LONGEST_PAUSE
