"""What a caller is told whose program waits for a person: which ticket, who decides where, and what then."""

import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from guideway.dsl.errors import Code, Refusal
from guideway.interpreter.approvals import Ticket
from guideway.interpreter.impact import needs_approval
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report, Status
from guideway.server.schema import CONFIRMATION, GLASS

if TYPE_CHECKING:
    from guideway.server.asking import Undecided


def approval_lines(ticket: Ticket, url: str | None, why: str = "") -> list[str]:
    """Return how a call goes on. ``why`` is what became of a question in the client, empty where there was none."""
    left = max(0, int(ticket.expires_at - time.time()))
    return [
        *([f"{why}; the ticket is still open"] if why else []),
        f"ticket {ticket.id}: {ticket.state}, for {left} s more",
        f"a person approves it at {url}" if url else f"a person approves it by: guideway approvals approve {ticket.id}",
        f'then call again with the same program and "{CONFIRMATION}": "{ticket.id}"',
    ]


def with_way_out(report: Report, way: str) -> Report:
    """Return a report whose refusal for a freeze says, as help of its first reason, how a person is asked to break it.

    ``way`` is what a caller does at this door. Any other report comes back as it is.
    """
    refusal = report.refusal
    if refusal is None or refusal.code is not Code.FROZEN:
        return report
    first, *others = refusal.diagnostics
    help_ = f"in an emergency a person can let it run all the same: {way}"
    return replace(report, refusal=Refusal([first.replace(help=help_), *others], refusal.source))


BREAK_GLASS: Final = f'call again with the same program and "{GLASS}": "why it has to run"'
"""How a client of the protocol asks to break a freeze."""


def not_run(pipeline: Pipeline, program: str, caller: Principal, undecided: "Undecided") -> Report:
    """Return the report of a call that runs nothing, because the question about it came to nothing.

    A program that is not let in any more is refused for that.
    """
    since, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="milliseconds")
    worst_case = None
    try:
        admitted = pipeline.admit(program, caller)
        worst_case = admitted.worst_case
        refusal: Refusal = needs_approval(admitted.analysis, undecided.ticket)
    except Refusal as refused:
        refusal = refused
    return Report(
        run_id=str(uuid.uuid4()),
        status=Status.REFUSED,
        steps=(),
        containments=(),
        worst_case=worst_case,
        ran={},
        started=started,
        seconds=round(time.perf_counter() - since, 6),
        refusal=refusal,
    )
