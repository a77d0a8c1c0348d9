"""Approvals: what a ticket is, whom it binds, who may decide on it, and in which states it can be. Keeps nothing.

A ticket asks one person about one whole program. It is bound to the program's tree, the caller, the tenant and the
policy that made it necessary, lives a bounded time, and lets that program run once. Its id, which the agent holds, is a
claim check: alone it opens nothing.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from guideway.dsl.ast import Program
from guideway.dsl.errors import Code, printable
from guideway.dsl.printer import format_one_line
from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import Tier

LIFETIME: Final = 300.0
"""Seconds that a ticket lives, if nothing else is configured: from the question to the run."""

MOST_WORDS: Final = 500
"""Characters of a reason, the caller's or the approver's."""

TICKET_ID: Final = r"^[A-Za-z0-9_-]{24}$"
"""What a ticket's id looks like (``new_id``)."""


class TicketState(StrEnum):
    """Where a ticket is. The last three are ends; an approved one that is not used in time expires too."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"


@dataclass(frozen=True, slots=True)
class Who:
    """A person behind a token, and the program that they use. ``client`` does not make another person of them."""

    issuer: str
    subject: str
    client: str | None = None

    @classmethod
    def of(cls, caller: Principal) -> "Who":
        """Return who a caller is."""
        return cls(caller.issuer, caller.subject, caller.client)

    def is_person(self, other: "Who") -> bool:
        """Say whether two are one person, through whatever client."""
        return (self.issuer, self.subject) == (other.issuer, other.subject)


@dataclass(frozen=True, slots=True)
class Binding:
    """What a ticket holds for, and nothing else. ``digest`` is the program's tree's, whatever its spelling."""

    digest: str
    who: Who
    tenant: str | None
    policy: str


class Need(StrEnum):
    """Why a request needs a person, in the words of every door. The tier of its commands is another matter."""

    TIER = "tier 3"
    QUOTA = "above its quota"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a person is asked: a command and what its tier comes from, a quota that it would go beyond, or a freeze.

    ``tier`` is that of the command by the model, whatever the request needs.
    """

    command: str
    target: str
    tier: Tier
    source: str
    need: Need = Need.TIER

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "command": self.command,
            "target": self.target,
            "tier": int(self.tier),
            "source": self.source,
            "needs": self.need.value,
        }


def needs(causes: Iterable[Cause]) -> list[str]:
    """Return all that makes a request need a person, each once."""
    found = {cause.need for cause in causes}
    return [need.value for need in Need if need in found]


@dataclass(frozen=True, slots=True)
class Question:
    """A program that a person is to decide on.

    ``program`` is the text of its tree on one line, without comments: nothing in it but what runs. ``worst_case``
    counts by keyword and name. ``client_says`` is what the client calls itself, and ``break_glass`` the caller's reason
    to act in spite of a freeze, None where nothing is frozen: both untrusted. ``tiers`` are those of the mutations by
    the model when it was asked; of tickets that were kept without them, the causes' are known.
    """

    binding: Binding
    program: str
    causes: tuple[Cause, ...]
    worst_case: Mapping[tuple[str, str], int]
    seconds: float
    client_says: str | None = None
    break_glass: str | None = None
    tiers: Mapping[tuple[str, str], Tier] = field(default_factory=dict)

    @property
    def tier(self) -> Tier:
        """The program's tier by the model: that of its highest command."""
        return max([*self.tiers.values(), *(cause.tier for cause in self.causes)], default=Tier.SAFE)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A question, and what became of it. Times are in seconds since the epoch.

    ``outcome`` is how the run ended, None where it has not, or where the process that ran it was lost: what it did is
    then not known. ``reason`` is the approver's words.
    """

    id: str
    question: Question
    created_at: float
    expires_at: float
    state: TicketState
    decided_at: float | None = None
    decided_by: Who | None = None
    reason: str | None = None
    used_at: float | None = None
    run_id: str | None = None
    outcome: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what the caller is told of their own ticket; its end is ISO 8601 in UTC, as all times of a report are.

        It is cut, not rounded: nobody is promised a moment that is not there.
        """
        return {
            "ticket": self.id,
            "state": self.state.value,
            "expires_at": datetime.fromtimestamp(int(self.expires_at), UTC).isoformat(timespec="seconds"),
            "tier": int(self.question.tier),
            "needs_person": needs(self.question.causes),
            "causes": [cause.to_json() for cause in self.question.causes],
            "break_glass": self.question.break_glass is not None,
        }


class Undecidable(Exception):  # noqa: N818  # it is an answer, not a fault
    """Somebody may not decide on a ticket, or not any more; ``code`` is stable, the message says why."""

    class Why(StrEnum):
        """Which of the reasons it is."""

        NO_SCOPE = "insufficient_scope"
        OWN_REQUEST = "own_request"
        NO_REASON = "no_reason"
        UNKNOWN = "unknown_ticket"
        DECIDED = "already_decided"
        EXPIRED = "expired"
        OUTDATED = "outdated"

    def __init__(self, code: Why, message: str) -> None:
        super().__init__(message)
        self.code = code


def new_id() -> str:
    """Return an id that nobody guesses: 144 bits, in 24 characters that need no quoting anywhere.

    None begins as an option of a command line does.
    """
    while (made := secrets.token_urlsafe(18)).startswith("-"):
        pass
    return made


def digest(program: Program) -> str:
    """Return what a tree is bound by: SHA-256 of its canonical text without comments, in hexadecimal."""
    return hashlib.sha256(format_one_line(program).encode()).hexdigest()


def one_line(text: str) -> str:
    """Return what somebody wrote, on one line, printable and bounded."""
    return printable(" ".join(text.split()))[:MOST_WORDS]


def may_see(reader: Principal, ticket: Ticket, now: float) -> bool:
    """Say whether somebody who approves sees a ticket at all: those of their own tenant only."""
    return reader.holds(Scope.APPROVE, now) and reader.tenant == ticket.question.binding.tenant


def require_may_decide(
    approver: Principal, ticket: Ticket, reason: str, now: float, *, approves: bool, own_requests: bool, policy: str
) -> None:
    """Raise ``Undecidable`` unless somebody may decide on a ticket, with these words.

    ``own_requests`` is whether the configuration lets people approve what they asked for themselves; to refuse that is
    always theirs. A refusal needs no words; breaking the glass does. ``policy`` is the version of the ticket's tenant
    here: who may approve under another one, this configuration does not say.
    """
    if not approver.holds(Scope.APPROVE, now):
        raise Undecidable(Undecidable.Why.NO_SCOPE, f"approving requires scope '{Scope.APPROVE}'")
    if approver.tenant != ticket.question.binding.tenant:
        raise Undecidable(Undecidable.Why.UNKNOWN, "there is no such ticket")
    if approves and not own_requests and Who.of(approver).is_person(ticket.question.binding.who):
        raise Undecidable(Undecidable.Why.OWN_REQUEST, "nobody approves their own request")
    if approves and ticket.question.binding.policy != policy:
        raise Undecidable(Undecidable.Why.OUTDATED, "this ticket was made under another policy than is in force here")
    if approves and ticket.question.break_glass is not None and not reason.strip():
        raise Undecidable(Undecidable.Why.NO_REASON, "this breaks a freeze: it needs a reason")


def why_not(ticket: Ticket | None, binding: Binding) -> tuple[Code, str] | None:
    """Say why a ticket does not let a program run now, as a code and words; None where it does.

    What is asked first tells least: to another caller a ticket is not even pending.
    """
    if ticket is None:
        return Code.APPROVAL_UNKNOWN, "there is no such ticket"
    bound = ticket.question.binding
    checks: Sequence[tuple[bool, Code, str]] = (
        (bound.who != binding.who, Code.APPROVAL_OTHER_CALLER, "this ticket is another caller's"),
        (bound.tenant != binding.tenant, Code.APPROVAL_OTHER_CALLER, "this ticket is another tenant's"),
        (bound.digest != binding.digest, Code.APPROVAL_OTHER_PROGRAM, "this ticket is for another program"),
        (ticket.state is TicketState.USED, Code.APPROVAL_USED, f"this ticket was used already, by run {ticket.run_id}"),
        (ticket.state is TicketState.DENIED, Code.APPROVAL_DENIED, _denied(ticket)),
        (ticket.state is TicketState.EXPIRED, Code.APPROVAL_EXPIRED, "this ticket expired before it was used"),
        (bound.policy != binding.policy, Code.APPROVAL_OUTDATED, "the policy has changed since this ticket was made"),
        (ticket.state is TicketState.PENDING, Code.APPROVAL_REQUIRED, "nobody has decided on this ticket yet"),
    )
    return next(((code, words) for fails, code, words in checks if fails), None)


def _denied(ticket: Ticket) -> str:
    return f"a person refused this: {ticket.reason}" if ticket.reason else "a person refused this"
