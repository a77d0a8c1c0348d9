"""Idempotency keys in the store: who has one, until when they may be at it, and what they were answered with."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from guideway.interpreter.repeats import Call, Earlier
from guideway.interpreter.store.tables import CALLS
from guideway.interpreter.store.work import Work


class State(StrEnum):
    """How far a call has come."""

    RUNNING = "running"
    DONE = "done"


def begin(work: Work, call: Call) -> Earlier | None:
    """Take a key, or return the call that has it. Keys whose time is over are forgotten."""
    work.connection.execute(CALLS.delete().where(CALLS.c.expires_at <= work.now))
    row = work.connection.execute(sa.select(CALLS).where(*_key(call))).one_or_none()
    if row is not None:
        return Earlier(row.digest, row.run_id, row.until - work.now, row.result)
    work.connection.execute(
        CALLS.insert().values(
            issuer=call.issuer,
            subject=call.subject,
            tenant=call.tenant,
            key=call.key,
            digest=call.digest,
            run_id=call.run_id,
            began_at=work.now,
            until=work.now + call.seconds,
            expires_at=work.now + call.lifetime + call.seconds,
            state=State.RUNNING.value,
            result=None,
        )
    )
    return None


def end(connection: sa.Connection, call: Call, result: Mapping[str, Any]) -> None:
    """Keep what a call was answered with."""
    connection.execute(CALLS.update().where(*_run(call)).values(state=State.DONE.value, result=dict(result)))


def forget(connection: sa.Connection, call: Call) -> None:
    """Leave a key free."""
    connection.execute(CALLS.delete().where(*_run(call)))


def _key(call: Call) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        CALLS.c.issuer == call.issuer,
        CALLS.c.subject == call.subject,
        CALLS.c.tenant == call.tenant,
        CALLS.c.key == call.key,
    )


def _run(call: Call) -> tuple[sa.ColumnElement[bool], ...]:
    """Return what finds a call's own row: the key may be another one's by now."""
    return (*_key(call), CALLS.c.run_id == call.run_id)
