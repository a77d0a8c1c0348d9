"""The facts of a ticket, in the one form that the page, the API and the shell show. Pure; asks nobody.

What callers, approvers and services wrote comes out on one line each, printable and bounded. It is no markup, and is
still to be escaped where it is shown.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import COMMANDS, Command, Program
from guideway.dsl.errors import Refusal, printable
from guideway.dsl.parser import Limits, parse
from guideway.dsl.printer import format_program
from guideway.interpreter.approvals import MOST_WORDS, Ticket, TicketState, Who, needs
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.records import Mutation
from guideway.interpreter.risk import TierSource, own_tier

MOST_NAME: Final = 200
"""Characters of a name that an issuer, a client or a tenant has."""

_OPEN: Final = frozenset({TicketState.PENDING, TicketState.APPROVED})
_COMMANDS: Final = {command.keyword: command for command in COMMANDS}
#: A program that was let in once, with braces for each body: the largest one that a configuration can allow.
_LIMITS: Final = Limits(bytes=8_388_608, nesting=100, commands=10_000)


def facts(
    ticket: Ticket, inventory: Inventory, history: Iterable[Mutation], now: float, wait: float = 0.0
) -> dict[str, Any]:
    """Return the facts of a ticket, for whoever may decide on it.

    ``inventory`` is the ticket's tenant's, and says of which tier its targets are today. ``history`` has what earlier
    runs did to them, the newest first. ``now`` is in seconds since the epoch; every time that comes out is ISO 8601 in
    UTC. ``program`` has no comments: nothing stands there but what runs. ``wait`` is the seconds that each restart may
    wait for others, which are counted in ``seconds``.
    """
    question = ticket.question
    bound, program = question.binding, bound_program(ticket)
    return {
        "ticket": ticket.id,
        "state": ticket.state.value,
        "created_at": moment(ticket.created_at),
        "expires_at": moment(ticket.expires_at),
        "seconds_left": max(0, int(ticket.expires_at - now)) if ticket.state in _OPEN else 0,
        "program": format_program(program) if program else words(question.program, len(question.program)) + "\n",
        "digest": bound.digest,
        "worst_case": [
            {"command": words(keyword), "target": words(target), "times": times}
            for (keyword, target), times in sorted(question.worst_case.items())
        ],
        "seconds": question.seconds,
        "wait_seconds": wait,
        "tier": int(question.tier),
        "tier_name": question.tier.label,
        "needs_person": needs(question.causes),
        "targets": _targets(program, inventory) if program else [],
        "causes": [
            cause.to_json()
            | {"command": words(cause.command), "target": words(cause.target), "source": words(cause.source)}
            for cause in question.causes
        ],
        "asked_by": _who(bound.who) | {"client_says": words(question.client_says)},
        "tenant": words(bound.tenant, MOST_NAME),
        "break_glass": words(question.break_glass),
        "decided_at": moment(ticket.decided_at),
        "decided_by": _who(ticket.decided_by) if ticket.decided_by else None,
        "reason": words(ticket.reason),
        "used_at": moment(ticket.used_at),
        "run_id": words(ticket.run_id),
        "outcome": words(ticket.outcome),
        "history": _history(history),
    }


def bound_program(ticket: Ticket) -> Program | None:
    """Return the tree that a ticket holds for; None for one of another version's language, which is shown as it is."""
    try:
        return parse(ticket.question.program, name=ticket.id, limits=_LIMITS)
    except Refusal:
        return None


def mutated(ticket: Ticket) -> frozenset[str]:
    """Return the services that a ticket's program may change: those whose history matters."""
    return frozenset(target for keyword, target in ticket.question.worst_case if _mutates(keyword))


def tier_of(command: type[Command], name: str, inventory: Inventory) -> TierSource | None:
    """Return of which tier a command is for a target, and why; None where the inventory does not have it any more."""
    if not command.mutates:
        return own_tier(command)
    try:
        return inventory.service(name).risk.effective(command)
    except KeyError:
        return None


def words(text: str | None, most: int = MOST_WORDS) -> Any:
    """Return somebody else's text on one line, printable and at most ``most`` characters long; None for None."""
    if text is None:
        return None
    line = printable(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def moment(at: float | None) -> str | None:
    """Return a time in seconds since the epoch as ISO 8601, in UTC; None for None."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _mutates(keyword: str) -> bool:
    command = _COMMANDS.get(keyword)
    return command is None or command.mutates  # one that is not known any more may have


def _targets(program: Program, inventory: Inventory) -> list[dict[str, Any]]:
    """Return each command with each of its targets, the highest tier first."""
    found = []
    for command, name in sorted(analyze(program).targets, key=lambda each: (each[1], each[0].keyword)):
        tier = tier_of(command, name, inventory)
        found.append(
            {
                "command": command.keyword,
                "target": name,
                "mutates": command.mutates,
                "tier": None if tier is None else int(tier.tier),
                "tier_name": None if tier is None else tier.tier.label,
                "source": "the inventory does not have it any more" if tier is None else tier.source,
            }
        )
    return sorted(found, key=lambda each: -1 if each["tier"] is None else -each["tier"])


def _who(who: Who) -> dict[str, Any]:
    return {
        "issuer": words(who.issuer, MOST_NAME),
        "subject": words(who.subject, MOST_NAME),
        "client": words(who.client, MOST_NAME),
    }


def _history(mutations: Iterable[Mutation]) -> Mapping[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for each in mutations:
        found.setdefault(each.service, []).append(
            {
                "run_id": words(each.run_id),
                "at": moment(each.started_at),
                "who": _who(each.who),
                "outcome": words(each.outcome),
                "message": words(each.message),
            }
        )
    return found
