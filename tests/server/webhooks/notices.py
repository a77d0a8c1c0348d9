"""Notices to deliver, and a key to sign them with."""

import time
from typing import Any

from guideway.interpreter.approvals import Binding, Cause, Question, Ticket, TicketState, Who
from guideway.interpreter.notices import Event, of_ticket
from guideway.interpreter.risk import Tier
from guideway.server.webhooks.webhook import Webhook, key_of

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  # of the specification's own examples
PAGE = "https://guideway.example.com/approvals/"


def ticket(ticket_id: str = "T" * 24, *, lifetime: float = 300.0, **changed: Any) -> Ticket:
    """Return a pending ticket; ``changed`` are fields of its question, or of its caller's ``Who``."""
    now = time.time()
    person = {key: changed.pop(key) for key in ("issuer", "subject", "client") if key in changed}
    who = Who(**{"issuer": "https://login.example.com", "subject": "mona", "client": "agent", **person})
    question = {
        "binding": Binding("ab" * 32, who, None, "policy-1"),
        "program": 'RESTART "database"',
        "causes": (Cause("RESTART", "database", Tier.APPROVAL_REQUIRED, "impact high, reversibility hard"),),
        "worst_case": {("RESTART", "database"): 2, ("PING", "api.internal"): 1},
        "seconds": 65.0,
        **changed,
    }
    return Ticket(ticket_id, Question(**question), now, now + lifetime, TicketState.PENDING)


def pending(ticket_id: str = "T" * 24, **changed: Any) -> dict[str, Any]:
    """Return what is told of a pending ticket."""
    return of_ticket(Event.PENDING, ticket(ticket_id, **changed), time.time())


def webhook(url: str, **changed: Any) -> Webhook:
    """Return a webhook that signs."""
    return Webhook(**{"name": "ops", "url": url, "key": key_of(SECRET), **changed})


def page(ticket_id: str) -> str:
    """Return the address of a ticket's page."""
    return PAGE + ticket_id
