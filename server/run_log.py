"""What the log says of runs: one line each, with who asked and how it ended, and never a program's text.

A subject, a tenant and a client are an issuer's words: each is cut, and quoted so that none can pass for another field.
What a line says comes beside it as fields too, for logs in JSON.
"""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from guideway.dsl.ast import Restart
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.interpreter.approvals import TICKET_ID, Ticket, needs
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report

_log: Final = logging.getLogger(__name__)
_MOST: Final = 120  # characters of a field
_MOST_SERVICES: Final = 5  # named in a line


def log_run(report: Report, caller: Principal, ticket_id: str | None = None) -> None:
    """Log that a run has ended, or that its program was refused; ``ticket_id`` is the one that its caller showed."""
    if not _log.isEnabledFor(logging.INFO):
        return
    status = report.status.value
    if report.refusal is not None:
        status += f" ({report.refusal.code.value})"
    _log.info(
        "run %s: %s, %d steps, %.3f s; %s%s",
        *(report.run_id, status, len(report.steps), report.seconds, _links(report, ticket_id), who(caller)),
        extra={"fields": _run_fields(report, ticket_id) | who_fields(caller)},
    )


def _run_fields(report: Report, ticket_id: str | None) -> dict[str, Any]:
    asks = report.refusal.ticket if isinstance(report.refusal, NeedsApproval) else None
    shown = asks.id if asks is not None else ticket_id
    return {
        "run_id": report.run_id,
        "status": report.status.value,
        "refusal": None if report.refusal is None else report.refusal.code.value,
        "steps": len(report.steps),
        "seconds": report.seconds,
        "ticket": None if shown is None else _cut(shown),
        "services": [] if report.worst_case is None else _restarted(report.worst_case.targets)[:_MOST_SERVICES],
    }


def _links(report: Report, ticket_id: str | None) -> str:
    """Return what leads from a run to its ticket and services, empty where there are none."""
    if isinstance(report.refusal, NeedsApproval):
        return f"{about_ticket(report.refusal.ticket, asker=False)}; "
    fields = [] if ticket_id is None else [f"ticket={_id(ticket_id)}"]
    if report.worst_case is not None and (services := _services(report.worst_case.targets)):
        fields.append(f"services={services}")
    return f"{' '.join(fields)}; " if fields else ""


def about_ticket(ticket: Ticket, *, asker: bool = True) -> str:
    """Return a ticket in one line: its id, the services that it would change, the program's digest, and whose it is.

    The words are those that break a freeze. The text of the program is not among it.
    """
    question = ticket.question
    bound = question.binding
    fields = [
        f"ticket={_id(ticket.id)}",
        f"services={_services(question.worst_case) or '-'}",
        f"digest={bound.digest[:16]}",
        f"needs={_field(', '.join(needs(question.causes)))}",
    ]
    if asker:
        fields += [f"asker={_field(bound.who.subject)}", f"asker_issuer={_field(bound.who.issuer)}"]
        fields += [f"asker_client={'-' if bound.who.client is None else _field(bound.who.client)}"]
    if question.break_glass is not None:
        fields.append(f"break_glass={_field(question.break_glass)}")
    return " ".join(fields)


def reason(text: str | None) -> str:
    """Return an approver's words as a field."""
    return f"reason={_field(text) if text else '-'}"


def _services(targets: Mapping[tuple[str, str], int]) -> str:
    """Return the services that a program may restart, the first few of many, empty where there are none."""
    names = _restarted(targets)
    more = f" and {len(names) - _MOST_SERVICES} more" if len(names) > _MOST_SERVICES else ""
    return json.dumps(", ".join(names[:_MOST_SERVICES]) + more) if names else ""


def _restarted(targets: Mapping[tuple[str, str], int]) -> list[str]:
    return sorted({name for keyword, name in targets if keyword == Restart.keyword})


def _id(ticket_id: str) -> str:
    return ticket_id if re.fullmatch(TICKET_ID, ticket_id) else _field(ticket_id)


def log_scopes_missing(caller: Principal, required: frozenset[Scope]) -> None:
    """Log that a program was not run because the token of its caller has too few scopes, which is how it was told."""
    fields = {"refusal": "insufficient_scope", "required_scopes": sorted(required)} | who_fields(caller)
    _log.info(
        "no run: insufficient_scope, %s is needed; %s", scope_list(required), who(caller), extra={"fields": fields}
    )


def log_not_let_in(caller: Principal, any_of: frozenset[Scope]) -> None:
    """Log that a request got no further than its path, because its token has none of the scopes that lead there."""
    needed = "a diagnostic scope" if any_of == PROGRAM_SCOPES else scope_list(any_of)
    fields = {"refusal": "insufficient_scope"} | who_fields(caller)
    _log.info("not let in: insufficient_scope, %s is needed; %s", needed, who(caller), extra={"fields": fields})


def who(caller: Principal) -> str:
    """Return a caller in one line."""
    return " ".join(
        f"{name}={'-' if value is None else json.dumps(value)}" for name, value in who_fields(caller).items()
    )


def who_fields(caller: Principal) -> dict[str, str | None]:
    """Return a caller as fields, each cut."""
    fields = {"subject": caller.subject, "issuer": caller.issuer, "tenant": caller.tenant, "client": caller.client}
    return {name: None if value is None else _cut(value) for name, value in fields.items()}


def _field(text: str) -> str:
    return json.dumps(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
