"""A run that waits for a person: what is said of its ticket, how it goes on, and the command that breaks a freeze.

By the report's own form, so that it is the same for a run here and one on a server.
"""

import argparse
import shlex
import time
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guideway.dsl.errors import Code
from guideway.interpreter.approvals import TICKET_ID, TicketState
from guideway.server.cli.console import CYAN, YELLOW, Console
from guideway.server.cli.files import STDIN

WAITING: Final = "waiting for a person's decision"


class Pending(BaseModel):
    """The ticket of a program that was not run yet. ``url`` is where a person decides, None where there is no page."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    ticket: Annotated[str, Field(pattern=TICKET_ID)]
    state: TicketState
    expires_at: datetime
    url: Annotated[str, Field(max_length=2_000)] | None = None
    break_glass: bool = False

    @property
    def seconds_left(self) -> float:
        """Seconds until it expires, by this machine's clock; never less than 0."""
        return max(0.0, self.expires_at.timestamp() - time.time())


def pending_in(document: dict[str, Any]) -> Pending | None:
    """Return the ticket in a report's machine form; None where it has none, or none that reads."""
    refusal = document.get("refusal")
    if not isinstance(refusal, dict) or refusal.get("code") != Code.APPROVAL_REQUIRED:
        return None
    try:
        return Pending.model_validate(refusal.get("approval"))
    except ValidationError:
        return None


class Commands:
    """The command lines that go on with a run: who reads them can paste them. ``options`` are those of ``run``.

    ``approver`` is a configured caller who may approve what is asked here, None where none is known.
    """

    def __init__(self, options: argparse.Namespace, approver: str | None = None) -> None:
        where = {"--server": options.server, "--config": options.config}
        self._where = "".join(f" {name} {shlex.quote(value)}" for name, value in where.items() if value is not None)
        who = f" --as {shlex.quote(options.caller)}" if options.caller is not None else ""
        self._is_piped = options.file == STDIN
        self._run = f"guideway run {shlex.quote(options.file)}{who}{self._where}"
        self._approver = f" --as {shlex.quote(approver)}" if approver is not None else ""

    def approve(self, ticket: str) -> str:
        """Return what approves a ticket."""
        return f"guideway approvals approve {ticket}{self._approver}{self._where}"

    def again(self, ticket: str) -> str:
        """Return what runs the same program by a ticket."""
        return f"{self._run} --ticket={ticket}"

    def fetch(self, key: str) -> str:
        """Return what gives the result of a call with an idempotency key, and runs nothing twice."""
        same = ", with the same program" if self._is_piped else ""
        return f"{self._run} --idempotency-key={shlex.quote(key)}{same}"

    def break_glass(self) -> str:
        """Return what asks for the same program in spite of a freeze."""
        return f'{self._run} --break-glass "why"'


def say_pending(errors: Console, pending: Pending, commands: Commands, *, waits: bool) -> None:
    """Write by which ticket a program waits, how a person decides and, unless this command ``waits``, what then."""
    state = "has a person's yes" if pending.state is TicketState.APPROVED else "waits for a person"
    errors.line(("approval: ", CYAN), f"ticket {pending.ticket} {state}, for {pending.seconds_left:.0f} s more")
    if pending.state is TicketState.PENDING:
        if pending.url is not None:
            errors.line(("  decide at: ", CYAN), pending.url)
        errors.line(
            ("  or with: " if pending.url else "  decide with: ", CYAN),
            commands.approve(pending.ticket),
        )
    if not waits:
        errors.line(("  go on with: ", CYAN), commands.again(pending.ticket))
    errors.stream.flush()


def say_left(errors: Console, pending: Pending, commands: Commands) -> None:
    """Write that a ticket is left as it is by whoever waits no more."""
    errors.line((f"not waiting any more: ticket {pending.ticket} stays, for {pending.seconds_left:.0f} s more", YELLOW))
    errors.line(("  go on with: ", CYAN), commands.again(pending.ticket))
    errors.stream.flush()


def say_on(errors: Console, pending: Pending | None, commands: Commands) -> None:
    """Write how a run goes on that waits for a person."""
    if pending is not None:
        say_pending(errors, pending, commands, waits=False)
