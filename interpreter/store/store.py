"""The store as the gate, the approval page and the webhooks see it; opened by the first of them that needs it.

This module loads no database: what does is loaded by the first call, in its thread.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import to_thread

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Binding, Question, Ticket, TicketState, Who, one_line
from guideway.interpreter.audit.keeping import PLAIN, Head, Keeping, Kept, Oddity
from guideway.interpreter.notices import Notice, Undelivered
from guideway.interpreter.quotas import Allowance, Overrun
from guideway.interpreter.records import Mutation
from guideway.interpreter.store.opened import Opened
from guideway.interpreter.store.soon import Soon
from guideway.interpreter.store.stored_proofs import StoredProofs
from guideway.interpreter.store.stored_repeats import StoredRepeats
from guideway.interpreter.store.stored_trail import StoredTrail
from guideway.interpreter.store.sweeps import Sweeps
from guideway.interpreter.store.together import Together

if TYPE_CHECKING:
    import sqlalchemy as sa

    from guideway.interpreter.store.calls import Calls
    from guideway.interpreter.store.database import Database
    from guideway.interpreter.store.work import Webhooks, Work

MOST_SWEPT: Final = 100
"""Transactions of one sweep."""


class Store:
    """Tickets, uses and history (``Records``), with the notices that wait (``outbox``) and the page's ``sessions``.

    ``trail`` is the audit trail, kept as ``keeping`` says, and ``repeats`` has the calls with idempotency keys.

    One for a process. ``writers`` is how many of its threads may write at once. Where replicas share it, ``proofs`` is
    what they were shown of them.
    """

    def __init__(
        self,
        open_database: "Callable[[], Database]",
        *,
        writers: int,
        webhooks: "Webhooks",
        keeping: Keeping = PLAIN,
    ) -> None:
        self.opened = Opened(open_database, writers=writers, webhooks=webhooks, keeping=keeping)
        self.trail = StoredTrail(self.opened)
        self._soon: Soon[Mapping[str, Any]] = Soon("notices", self._keep, name=_name_of)
        self.outbox = StoredOutbox(self.opened, self._soon)
        self.sessions = StoredSessions(self.opened)
        self.proofs: StoredProofs | None = None
        self.repeats = StoredRepeats(self.opened)
        self._sweeps = Sweeps()
        self._tickets = Together(self._find)

    async def ask(self, question: Question, now: float, *, lifetime: float, most_open: int) -> Ticket:
        """Return the open ticket of a question's binding, or a new one. Raises ``TooManyOpen``."""
        return await self.opened.write(lambda calls, work: calls.ask(work, question, lifetime, most_open), now)

    async def ticket(self, ticket_id: str, now: float) -> Ticket | None:
        """Return a ticket as it is now."""
        return await self._tickets.get(ticket_id, now)

    async def tickets(
        self, tenant: str | None, now: float, *, states: Collection[TicketState] = (), most: int = 50
    ) -> list[Ticket]:
        """Return a tenant's tickets, the newest first."""
        return await self.opened.read(lambda calls, connection, _: calls.newest(connection, tenant, states, most), now)

    async def decide(self, ticket_id: str, *, approve: bool, by: Who, reason: str, now: float) -> Ticket:
        """Approve or refuse a pending ticket. Raises ``Undecidable``."""
        words = one_line(reason)
        return await self.opened.write(
            lambda calls, work: calls.decide(work, ticket_id, by, words, approve=approve), now
        )

    async def use(
        self, ticket_id: str, binding: Binding, run_id: str, allowances: Sequence[Allowance], now: float
    ) -> Ticket | tuple[Code, str]:
        """Use an approved ticket up for a run, once, or say why it does not let it."""
        return await self.opened.write(lambda calls, work: calls.use(work, ticket_id, binding, run_id, allowances), now)

    async def reserve(self, run_id: str, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """Reserve what a run may do, or return what would be gone beyond."""
        return await self.opened.write(lambda calls, work: calls.reserve(work, run_id, allowances), now)

    async def overruns(self, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """Return what a run would go beyond, and reserve nothing."""
        return await self.opened.look(lambda calls, connection: calls.beyond(connection, allowances, now))

    async def uses(self, keys: Collection[str], now: float) -> Mapping[str, Sequence[float]]:
        """Return when each use of some keys was made that counts."""
        return await self.opened.look(lambda calls, connection: calls.made(connection, keys, now))

    async def settle(self, run_id: str, used: Mapping[str, int], outcome: str, now: float) -> None:
        """Give back what a run reserved and did not do."""
        await self.opened.write(lambda calls, work: calls.settle(work, run_id, used, outcome), now)

    async def history(self, tenant: str | None, services: Collection[str], *, most: int = 5) -> list[Mutation]:
        """Return the last mutations of each service, the newest first."""
        await self.trail.written()
        return await self.opened.look(
            lambda calls, connection: calls.last_mutations(connection, tenant, services, most)
        )

    async def sweep(self, now: float) -> None:
        """Clear up: what was left by processes that were lost, and records of the audit trail that are too old.

        No record is removed by the first sweep of a process, nor by a clock that says that time has passed of which
        there is no other sign: one that is wrong must not empty the trail.
        """
        before = await self._remove_before(now)
        for _ in range(MOST_SWEPT):
            if not await self.opened.write(
                lambda calls, work: calls.sweep(work, self.opened.heads, before=before), now
            ):
                return

    async def _remove_before(self, now: float) -> float | None:
        keep_seconds = self.opened.keeping.keep_seconds
        if keep_seconds is None:
            return None
        if not self._sweeps.has_begun:
            self._sweeps.begin(now, await self.opened.look(lambda calls, connection: calls.spans(connection)))
            return None
        return self._sweeps.remove_before(now, keep_seconds)

    async def trails(self) -> list[Head]:
        """Return the head of every trail that has one, by name."""
        return await self.opened.look(lambda calls, connection: calls.heads(connection))

    async def names(self) -> list[str]:
        """Return the names of all trails of which anything is there."""
        return await self.opened.look(lambda calls, connection: calls.names(connection))

    async def oddities(self, *, passed_over: bool = False) -> list[Oddity]:
        """Return the first odd row of each trail and table; of all, or of those that nobody is shown."""
        return await self.opened.look(lambda calls, connection: calls.oddities(connection, passed_over=passed_over))

    async def records(
        self,
        trail: str,
        *,
        after: int = 0,
        most: int = 1_000,
        newest: bool = False,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Kept]:
        """Return records of a trail in their order: the first after a place, or the newest, and of a time."""
        return await self.opened.look(
            lambda calls, connection: calls.records(
                connection, trail, after=after, most=most, newest=newest, since=since, until=until
            )
        )

    async def checkpoints(self, trail: str) -> list[str]:
        """Return the seals that are kept of a trail, in their order."""
        return await self.opened.look(lambda calls, connection: calls.checkpoints(connection, trail))

    async def open_tickets(self, now: float) -> Mapping[str, int]:
        """Return how many tickets are open, by their state."""
        return await self.opened.look(lambda calls, connection: calls.count_open(connection, now))

    async def check(self, now: float) -> None:
        """Read and write something."""
        await self.opened.check(now)

    async def close(self) -> None:
        """Keep what waits to be kept, and let go of the database."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._soon.close)
            await to_thread.run_sync(self.trail.close)
        await self.repeats.close()
        await self.opened.close()

    async def _find(self, ticket_ids: Collection[str], now: float) -> Mapping[str, Ticket]:
        return await self.opened.read(lambda calls, connection, _: calls.find_all(connection, ticket_ids), now)

    def _keep(self, events: Sequence[Mapping[str, Any]]) -> None:
        def keep(calls: "type[Calls]", connection: "sa.Connection") -> None:
            for event in events:
                calls.put_event(connection, self.opened.webhooks, event, time.time())

        self.opened.change_here(keep)


def _name_of(event: Mapping[str, Any]) -> str:
    """Return which event something is, without what it tells."""
    return f"{event.get('event')} of {event.get('ticket') or event.get('run_id')}"


class StoredOutbox:
    """The notices that wait (``Outbox``)."""

    def __init__(self, opened: Opened, soon: Soon[Mapping[str, Any]]) -> None:
        self._opened = opened
        self._soon = soon

    def enqueue(self, event: Mapping[str, Any]) -> None:
        """Keep an event for each webhook that wants its kind, soon."""
        self._soon.put([event])

    async def claim(self, now: float, most: int, webhook: str) -> list[Notice]:
        """Return a webhook's notices that are due, and nobody else's for a time. Writes nothing where none is."""
        if self._soon.pending:
            await to_thread.run_sync(self._soon.flush)
        # By ``read``: a ticket that expires while nobody looks is noticed here.
        if not await self._opened.read(lambda calls, connection, at: calls.notice_is_due(connection, at, webhook), now):
            return []
        return await self._opened.write(
            lambda calls, work: calls.claim_notices(work.connection, work.now, most, webhook), now
        )

    async def undelivered(self, most: int) -> list[Undelivered]:
        """Return what could not be delivered, and what waits after a failure, the newest first."""
        if self._soon.pending:
            await to_thread.run_sync(self._soon.flush)
        return await self._opened.look(lambda calls, connection: calls.undelivered_notices(connection, most))

    async def done(self, notice_id: str) -> None:
        """Forget a notice that was delivered."""
        await self._opened.change(lambda calls, connection: calls.forget_notice(connection, notice_id))

    async def again(self, notice_id: str, at: float, error: str) -> None:
        """Give a notice back, to be tried again at a time."""
        await self._put_off(notice_id, at, error)

    async def give_up(self, notice_id: str, error: str) -> None:
        """Keep a notice that cannot be delivered as a record."""
        await self._put_off(notice_id, None, error)

    async def _put_off(self, notice_id: str, at: float | None, error: str) -> None:
        await self._opened.change(lambda calls, connection: calls.put_off_notice(connection, notice_id, at, error))


class StoredSessions:
    """The approval page's sessions (``Sessions``)."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    async def put(self, id_hash: str, content: Mapping[str, Any], expires_at: float) -> None:
        """Keep a session, or what is new of it."""
        await self._opened.change(lambda calls, connection: calls.put_session(connection, id_hash, content, expires_at))

    async def get(self, id_hash: str, now: float) -> dict[str, Any] | None:
        """Return a session's content, None where there is none or its time is over."""
        return await self._opened.read(lambda calls, connection, at: calls.get_session(connection, id_hash, at), now)

    async def take(self, id_hash: str, now: float) -> dict[str, Any] | None:
        """Return a session's content and forget it."""

        def take(calls: "type[Calls]", work: "Work") -> dict[str, Any] | None:
            content = calls.get_session(work.connection, id_hash, work.now)
            calls.delete_session(work.connection, id_hash)
            return content

        return await self._opened.write(take, now)

    async def delete(self, id_hash: str) -> None:
        """Forget a session."""
        await self._opened.change(lambda calls, connection: calls.delete_session(connection, id_hash))

    async def prune(self, now: float) -> None:
        """Forget each session whose time is over."""
        await self._opened.write(lambda calls, work: calls.prune_sessions(work.connection, work.now), now)
