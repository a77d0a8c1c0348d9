"""What a page shows of a ticket, beside its facts: titles, rows and pieces, in words for people. Pure."""

import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from guideway.dsl.ast import COMMANDS
from guideway.interpreter.approvals import MOST_WORDS, Ticket, TicketState
from guideway.server.approvals.desk import MOST_TICKETS, Seen
from guideway.server.approvals.flow import Chart, flow
from guideway.server.approvals.highlight import highlighted
from guideway.server.approvals.rendered import duration
from guideway.server.approvals.view import bound_program, words

_MUTATING: Final = frozenset(command.keyword for command in COMMANDS if command.mutates)
_STATES: Final = {
    TicketState.PENDING: "waiting for a decision",
    TicketState.APPROVED: "approved",
    TicketState.DENIED: "refused",
    TicketState.EXPIRED: "expired",
    TicketState.USED: "has run",
}
_MOST_NAMED: Final = 3


def entry(seen: Seen) -> dict[str, Any]:
    """Return a ticket as a line of the list."""
    return seen.facts | {
        "title": title(seen),
        "state_words": _STATES[seen.ticket.state],
        "expires": round(seen.ticket.expires_at, 3),
        "left": duration(seen.facts["seconds_left"]),
        "own": seen.own,
    }


def list_values(found: Sequence[Seen]) -> dict[str, Any]:
    """Return what the list shows."""
    entries = [entry(seen) for seen in found]
    pending = [each for each in entries if each["state"] == TicketState.PENDING]
    return {
        "pending": sorted(pending, key=lambda each: each["expires"]),
        "past": [each for each in entries if each["state"] != TicketState.PENDING],
        "more": len(pending) >= MOST_TICKETS,
        "version": list_version([seen.ticket for seen in found]),
        "now": round(time.time(), 3),
    }


def list_version(tickets: Sequence[Ticket]) -> str:
    """Return what changes when the list does."""
    return sha256(repr([(ticket.id, ticket.state.value) for ticket in tickets]).encode()).hexdigest()[:16]


def decision_version(ticket: Ticket) -> str:
    """Return what changes when a decision's part of a page does."""
    return f"{ticket.state}-{words(ticket.outcome) or ''}"


def ticket_values(seen: Seen) -> dict[str, Any]:
    """Return what the page of a ticket shows."""
    program = bound_program(seen.ticket)
    chart = flow(program) if program is not None else None
    return {
        **decision_values(seen),
        "pieces": list(highlighted(seen.facts["program"])),
        "rows": _rows(seen),
        "chart": chart,
        "chart_words": _chart_words(chart),
        "changed": sorted({row["target"] for row in seen.facts["worst_case"] if row["command"] in _MUTATING}),
    }


def decision_values(seen: Seen) -> dict[str, Any]:
    """Return what the part of that page shows that changes by itself."""
    return {
        "t": entry(seen),
        "version": decision_version(seen.ticket),
        "now": round(time.time(), 3),
        "own": seen.own,
        "outdated": seen.outdated,
        "may_approve": seen.may_approve,
        "needs_reason": seen.facts["break_glass"] is not None,
        "most_words": MOST_WORDS,
        "typed": "",
        "error": "",
    }


def title(seen: Seen) -> str:
    """Return what a program would change, in a few words."""
    order = [row["target"] for row in seen.facts["targets"]]  # the highest tier first
    most = [row for row in seen.facts["worst_case"] if row["command"] in _MUTATING]
    most.sort(key=lambda row: order.index(row["target"]) if row["target"] in order else len(order))
    named = [row["target"] if row["times"] == 1 else f"{row['target']} ({row['times']} times)" for row in most]
    more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
    named = [*named[:_MOST_NAMED], *more]
    together = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    verbs = " or ".join(sorted({row["command"].capitalize() for row in most}))
    return f"{verbs} {together}" if named else "A program"


def _rows(seen: Seen) -> list[dict[str, Any]]:
    """Return each command with its target, how often it runs at most, and of which tier it is."""
    times = Counter({(row["command"], row["target"]): row["times"] for row in seen.facts["worst_case"]})
    return [row | {"times": times[row["command"], row["target"]]} for row in seen.facts["targets"]]


def _chart_words(chart: Chart | None) -> str:
    """Return the chart in words, for those who do not see it."""
    if chart is None:
        return ""
    changes = [box.name for box in chart.boxes if box.kind == "mutation"]
    return (
        f"{len(chart.boxes)} commands, of which {len(changes)} change state: {', '.join(changes)}. "
        "The program's text above says in which order and on which condition."
    )
