"""Faults of a store and of the gate, for replicas that have them: to see that what counts afterwards would find them.

Each is what somebody might write who did not think of a second process, or of one that dies.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from guideway.dsl.ast import Restart
from guideway.dsl.errors import Code
from guideway.interpreter.approvals import Binding, Ticket, TicketState, why_not
from guideway.interpreter.audit.entry import Entry, Kind, Trail
from guideway.interpreter.clearance import Turn
from guideway.interpreter.leases import Full, Place, Waited
from guideway.interpreter.quotas import Allowance, Overrun
from guideway.interpreter.recorder import RunRecord
from guideway.interpreter.records import Mutation
from guideway.interpreter.results import Report
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store, mutations, places
from guideway.interpreter.store.calls import Calls
from guideway.interpreter.store.file_leases import FileLeases, _Locked
from guideway.interpreter.store.sql_leases import SqlLeases
from guideway.interpreter.store.tables import TICKETS


def nothing_is_held() -> None:
    """A restart holds no lease."""

    @asynccontextmanager
    async def hold(_self: object, _places: Sequence[Place], _run_id: str, _wait: float) -> AsyncIterator[Waited]:
        yield Waited(0.0)

    FileLeases.hold = SqlLeases.hold = hold  # type: ignore[method-assign,assignment]


def held_by_a_file_that_is_there() -> None:
    """Whoever makes the file holds the lease; so does a process that died, for ever."""

    def lock(self: FileLeases, place: Place, _run_id: str) -> _Locked | Full:
        path = f"{self._name_of(place.key)}.0"
        try:
            return _Locked(path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), b"")
        except FileExistsError:
            return Full(place.label, None)

    def unlock(_self: FileLeases, taken: Sequence[_Locked], *, was_held: bool = True) -> None:  # noqa: ARG001
        for path, opened, _ in taken:
            os.close(opened)
            os.unlink(path)

    FileLeases._lock, FileLeases._unlock = lock, unlock  # type: ignore[method-assign,assignment]


def a_row_is_held_for_an_hour() -> None:
    """A lease is good for an hour, however soon it is to be renewed."""
    take = places.take

    def take_for_long(
        connection: sa.Connection, wanted: Sequence[Place], run_id: str, holder: str, _seconds: float
    ) -> Full | list[str]:
        return take(connection, wanted, run_id, holder, 3_600.0)

    Calls.take_places = staticmethod(take_for_long)  # type: ignore[arg-type]


def a_ticket_is_read_before_it_is_used() -> None:
    """A ticket is looked at in one transaction, and used in another."""

    async def use(
        self: Store, ticket_id: str, binding: Binding, run_id: str, _allowances: Sequence[Allowance], now: float
    ) -> Ticket | tuple[Code, str]:
        found = await self.ticket(ticket_id, now)
        refused = why_not(found, binding)
        if found is None or refused is not None:
            return refused or (Code.APPROVAL_UNKNOWN, "there is no such ticket")
        used = TICKETS.update().where(TICKETS.c.id == ticket_id)
        used = used.values(state=TicketState.USED.value, used_at=now, run_id=run_id)
        await self.opened.change(lambda _, connection: connection.execute(used))
        return found

    Store.use = use  # type: ignore[method-assign,assignment]


def a_quota_is_looked_at_alone() -> None:
    """What a run may do is compared with its quota, and counted when it is over."""

    async def reserve(self: Store, run_id: str, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        overruns = await self.overruns(allowances, now)
        if not overruns:
            _MAY[run_id] = allowances
        return overruns

    settle = Store.settle

    async def count_and_settle(self: Store, run_id: str, used: Any, outcome: str, now: float) -> None:
        if run_id in _MAY:
            await reserve_now(self, run_id, _MAY.pop(run_id), now)
        await settle(self, run_id, used, outcome, now)

    reserve_now = Store.reserve
    Store.reserve, Store.settle = reserve, count_and_settle  # type: ignore[method-assign]


@dataclass
class _Hasty:
    """A trail for which nobody waits."""

    trail: Trail

    @property
    def failing(self) -> str | None:
        return self.trail.failing

    def put(self, entries: Sequence[Entry]) -> None:
        self.trail.put(entries)

    async def written(self) -> None:
        pass


def an_intent_is_kept_soon() -> None:
    """An intent is on its way to the disk when the service is restarted."""
    restart = RunRecord.restart

    @asynccontextmanager
    async def hasty(
        self: RunRecord, command: Restart, service: Service, seconds: float, turn: Turn
    ) -> AsyncIterator[None]:
        trail = self.trail
        assert trail is not None
        self.trail = _Hasty(trail)
        async with restart(self, command, service, seconds, turn):
            self.trail = trail
            yield

    RunRecord.restart = hasty  # type: ignore[method-assign]


def a_restart_is_ok_when_it_begins() -> None:
    """A restart is recorded as done with its intent."""
    put_restart = RunRecord._put_restart

    def put_both(self: RunRecord, kind: Kind, mutation: Mutation) -> None:
        if kind is Kind.RESTART_BEGUN:
            put_restart(self, kind, mutation)
            put_restart(self, Kind.RESTART_ENDED, replace(mutation, outcome="ok", ended_at=mutation.started_at))

    RunRecord._put_restart = put_both  # type: ignore[method-assign]


def a_lost_restart_is_taken_to_be_done() -> None:
    """Whoever finds a restart whose process was lost says that it is done."""
    mutations.UNKNOWN = "ok"  # type: ignore[misc]


def an_answer_comes_before_its_record() -> None:
    """A call is answered when its end was given to the trail."""

    async def ended(self: RunRecord, report: Report, *, withheld: bool) -> Report:  # noqa: ARG001
        self.put_end(report)
        return report

    RunRecord.ended = ended  # type: ignore[method-assign]


_MAY: Final[dict[str, Sequence[Allowance]]] = {}

FAULTS: Final[dict[str, Callable[[], None]]] = {
    fault.__name__: fault
    for fault in (
        nothing_is_held,
        held_by_a_file_that_is_there,
        a_row_is_held_for_an_hour,
        a_ticket_is_read_before_it_is_used,
        a_quota_is_looked_at_alone,
        an_intent_is_kept_soon,
        a_restart_is_ok_when_it_begins,
        a_lost_restart_is_taken_to_be_done,
        an_answer_comes_before_its_record,
    )
}
