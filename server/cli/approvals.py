"""``guideway approvals``: what waits for a person, shown whole and decided on, here or on a server."""

import argparse
import re
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio

from guideway.interpreter.approvals import MOST_WORDS, TICKET_ID, TicketState
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import read_caller, read_config
from guideway.server.cli.console import BOLD, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.logs import show_log
from guideway.server.cli.person import complaint, person
from guideway.server.cli.ticket_facts import TicketFacts, read_facts, show_row, show_whole
from guideway.server.cli.tickets import Tickets, find, here, there, what_there_is
from guideway.server.sign_in.errors import ScopesMissingError, SignInError
from guideway.server.sign_in.servers import server_url
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.store import standard_store

_Open = Callable[[], AbstractAsyncContextManager[Tickets]]

_MOST: Final = 50  # tickets in a list
_LEAST: Final = 4  # characters of an id that is not written whole
_DECIDES: Final = ("approve", "deny")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "show", *_DECIDES), help="what to do")
    parser.add_argument("ticket", nargs="?", metavar="TICKET", help="its id, or how that begins; not for list")
    add_configuration(parser)
    parser.add_argument("--server", metavar="URL", help="the tickets of this server, as whoever signs in there")
    parser.add_argument("--ca-file", metavar="FILE", help="with --server: PEM of authorities to trust too")
    parser.add_argument("--no-input", action="store_true", help="never ask anybody: neither to sign in nor yes or no")
    parser.add_argument(
        "--state",
        action="append",
        choices=tuple(state.value for state in TicketState),
        help="for list: only these; may be repeated",
    )
    parser.add_argument("--reason", metavar="TEXT", help="for approve and deny: words that are kept, and told")
    parser.add_argument("--yes", action="store_true", help="for approve: do not show the request and ask")


def _run(options: argparse.Namespace) -> int:
    _check(options)
    open_tickets = _opener(options)
    try:
        match options.action:
            case "list":
                return _list(options, open_tickets)
            case "show":
                return _show(options, _fetched(options, open_tickets))
            case _:
                return _decide(options, open_tickets)
    except ScopesMissingError as error:
        raise complaint(error, Exit.REFUSED) from None
    except SignInError as error:
        raise complaint(error) from None


def _check(options: argparse.Namespace) -> None:
    """Raise ``Complaint`` for options that do not go together."""
    decides = options.action in _DECIDES
    if options.action == "list" and options.ticket is not None:
        raise Complaint("`list` takes no ticket", help=f"guideway approvals show {options.ticket}")
    if options.action != "list" and options.ticket is None:
        raise Complaint(
            f"`{options.action}` needs a ticket", help="`guideway approvals list` shows those that there are"
        )
    if options.state and options.action != "list":
        raise Complaint("--state is for list")
    if options.reason is not None and not decides:
        raise Complaint("--reason is for approve and deny")
    if options.yes and options.action != "approve":
        raise Complaint("--yes is for approve")
    if options.reason is not None and len(options.reason) > MOST_WORDS:
        raise Complaint(f"--reason takes at most {MOST_WORDS} characters")
    if options.server is not None and (options.config is not None or options.caller is not None):
        raise Complaint("--server cannot go with --config or --as: the server knows who you are")
    if options.server is None and options.ca_file is not None:
        raise Complaint("--ca-file is for --server")
    if options.ticket is not None and not re.fullmatch(rf"[A-Za-z0-9_-]{{{_LEAST},}}", options.ticket):
        raise Complaint("this is no ticket", help=f"its id, or at least {_LEAST} characters of how that begins")


def _opener(options: argparse.Namespace) -> _Open:
    """Return what opens the tickets; each time anew, because a person may be asked in between."""
    if options.server is not None:
        show_log()
        session = Session(server_url(options.server), standard_store(), options.ca_file)
        errors = Console(options.color, error=True)
        asked = person(errors, browser=True, pastes=sys.stdin.isatty()) if _may_ask(options, errors) else None
        return lambda: there(session, asked)
    config = read_config(options)
    reader = read_caller(options, config)
    return lambda: here(config, reader)


def _may_ask(options: argparse.Namespace, errors: Console) -> bool:
    return not options.no_input and errors.stream.isatty()


def _list(options: argparse.Namespace, open_tickets: _Open) -> int:
    async def get() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        async with open_tickets() as tickets:
            if options.state:
                found = await tickets.newest([TicketState(state) for state in options.state], _MOST)
            else:
                found = await what_there_is(tickets, _MOST)
            return found, await tickets.undelivered()

    found, undelivered = anyio.run(get)
    if options.json:
        write_json({"tickets": found, "undelivered": undelivered})
        return Exit.OK
    console = Console(options.color)
    for each in found:
        show_row(console, read_facts(each))
    if not found:
        console.line("there is no such ticket" if options.state else "there is no ticket")
    for lost in undelivered:
        what = f"`{lost['event']}` of {lost['run_id'] or lost['ticket']}"
        state = "undeliverable" if lost["given_up"] else "not delivered yet"
        console.line((state, YELLOW), f": {what} to webhook {lost['webhook']}: {lost['error']}")
    return Exit.OK


def _fetched(options: argparse.Namespace, open_tickets: _Open) -> dict[str, Any]:
    async def get() -> dict[str, Any]:
        async with open_tickets() as tickets:
            return await find(tickets, options.ticket, whole=re.fullmatch(TICKET_ID, options.ticket) is not None)

    return anyio.run(get)


def _show(options: argparse.Namespace, found: dict[str, Any]) -> int:
    if options.json:
        write_json(found)
    else:
        show_whole(Console(options.color), read_facts(found))
    return Exit.OK


def _decide(options: argparse.Namespace, open_tickets: _Open) -> int:
    approve, reason = options.action == "approve", options.reason or ""
    facts = read_facts(_fetched(options, open_tickets))
    if approve and not options.yes:
        said = _confirmed(options, facts, reason)
        if said is None:
            raise Complaint("nothing was decided", code="not_confirmed", exit_code=Exit.FAILED)
        reason = said

    async def decide() -> dict[str, Any]:
        async with open_tickets() as tickets:
            return await tickets.decide(facts.ticket, approve=approve, reason=reason)

    decided = anyio.run(decide)
    if options.json:
        write_json(decided)
        return Exit.OK
    console, then = Console(options.color), read_facts(decided)
    word, color = ("approved", GREEN) if approve else ("refused", RED)
    left = f": it may run once, within {then.seconds_left} s" if approve else ""
    console.line((word, f"{BOLD};{color}"), f" {then.ticket}{left}")
    return Exit.OK


def _confirmed(options: argparse.Namespace, facts: TicketFacts, reason: str) -> str | None:
    """Show a request, and ask yes or no; return the reason to give, None for no. Raises ``Complaint``."""
    errors = Console(options.color, error=True)
    if not (_may_ask(options, errors) and sys.stdin.isatty()):
        raise Complaint("nobody can be asked here whether this may run", help="--yes approves without being asked")
    show_whole(errors, facts)
    if facts.state is not TicketState.PENDING:
        return reason  # which the store answers, with who was first
    if facts.break_glass is not None and not reason.strip():
        reason = _asked(errors, "why may this break the freeze? (empty: it may not) ")
        if not reason:
            return None
    return reason if _asked(errors, "may this program run? [y/N] ").lower() in ("y", "yes") else None


def _asked(errors: Console, question: str) -> str:
    errors.stream.write(errors.spans((question, f"{BOLD};{YELLOW}")))
    errors.stream.flush()
    answer = sys.stdin.readline()
    if not answer:  # Ctrl-D
        errors.line()
    return answer.strip()[:MOST_WORDS]


COMMAND = Command(
    summary="show and decide on what waits for a person",
    description="Show the programs that wait for a person, and approve or refuse them: those of this\n"
    "configuration's store, or with --server of a server. That takes the scope mcp:diag:approve, and\n"
    "nobody approves what they asked for themselves, unless the configuration says so. approve shows the\n"
    "whole request and asks, unless --yes is given; without a terminal it takes --yes.",
    examples=(
        "guideway approvals list --as approver",
        "guideway approvals list --as approver --state pending --json",
        "guideway approvals show Zk3vQ1 --server https://guideway.example.com/mcp",
        "guideway approvals approve Zk3vQ1 --server https://guideway.example.com/mcp",
        'guideway approvals deny Zk3vQ1 --reason "at noon" --server https://guideway.example.com/mcp',
    ),
    exits=(
        (Exit.OK, "listed, shown, approved or refused, as asked"),
        (Exit.FAILED, "there is no such ticket, it was decided on or has expired; or you did not say yes"),
        (Exit.REFUSED, "you may not decide on it: your own, or without the scope"),
    ),
    arguments=_arguments,
    run=_run,
)
