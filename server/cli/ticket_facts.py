"""The facts of a ticket as this shell reads them, from its own store or from a server, and how it draws them.

What a server sends is somebody else's text and read strictly; what callers and approvers wrote is that anyway. Nothing
of it reaches the terminal but through the console, which cleans it.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guideway.dsl.analysis import analyze
from guideway.dsl.errors import Refusal
from guideway.dsl.parser import Limits, parse
from guideway.dsl.source import Source
from guideway.interpreter.approvals import TICKET_ID, TicketState
from guideway.server.cli.console import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Console, Span

_COLORS: Final = {TicketState.PENDING: YELLOW, TicketState.APPROVED: GREEN, TicketState.DENIED: RED}
_LIMITS: Final = Limits(bytes=8_388_608, nesting=100, commands=10_000)  # of a program that was let in once
_MOST_ROWS: Final = 10_000
_HISTORY: Final = 5


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Person(_Read):
    issuer: str
    subject: str
    client: str | None = None
    client_says: str | None = None

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}" + (f", through {self.client}" if self.client else "")


class _Count(_Read):
    command: str
    target: str
    times: int


class _Target(_Read):
    command: str
    target: str
    mutates: bool = False
    tier: int | None
    tier_name: str | None = None
    source: str


class _Cause(_Read):
    command: str
    target: str
    tier: int
    source: str


class _Earlier(_Read):
    run_id: str
    at: str
    who: _Person
    outcome: str | None
    message: str | None


class TicketFacts(_Read):
    """A ticket, by the form that ``approvals.view.facts`` gives."""

    ticket: Annotated[str, Field(pattern=TICKET_ID)]
    state: TicketState
    created_at: str
    expires_at: str
    seconds_left: int
    program: str
    digest: str
    worst_case: Annotated[tuple[_Count, ...], Field(max_length=_MOST_ROWS)]
    seconds: float
    wait_seconds: float = 0.0
    tier: int | None = None
    tier_name: str | None = None
    needs_person: tuple[str, ...] = ()
    targets: Annotated[tuple[_Target, ...], Field(max_length=_MOST_ROWS)]
    causes: Annotated[tuple[_Cause, ...], Field(max_length=_MOST_ROWS)]
    asked_by: _Person
    tenant: str | None
    break_glass: str | None
    decided_at: str | None
    decided_by: _Person | None
    reason: str | None
    run_id: str | None
    outcome: str | None
    history: dict[str, tuple[_Earlier, ...]]

    @property
    def mutations(self) -> list[str]:
        """What the program would change, in words."""
        return [f"{each.command} {each.target}" for each in self.targets if each.mutates] or [
            f"{each.command} {each.target}" for each in self.worst_case if each.command == "RESTART"
        ]


def read_facts(document: Any) -> TicketFacts:
    """Return a ticket. Raises ``ValueError``, which says where it does not read."""
    try:
        return TicketFacts.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].lower()}") from None


def waits_in(wait: float) -> str:
    """Return what is said behind a worst case of the seconds in it that a restart may wait for others."""
    return f", counting for each restart {wait:g} s of waiting for others" if wait else ""


def show_row(console: Console, facts: TicketFacts) -> None:
    """Write a ticket as one line."""
    left = f"{facts.seconds_left} s" if facts.seconds_left else "-"
    console.line(
        (f"{facts.state:<9}", _COLORS.get(facts.state, DIM)),
        f"{facts.ticket}  {left:>6}  {facts.asked_by.subject}: {', '.join(facts.mutations)}",
        (" breaks a freeze", f"{BOLD};{RED}") if facts.break_glass is not None else "",
    )


def show_whole(console: Console, facts: TicketFacts) -> None:
    """Write all that somebody who decides needs to know."""
    console.line(("ticket ", BOLD), (facts.ticket, BOLD))
    left = f", for {facts.seconds_left} s more" if facts.seconds_left else ""
    _field(console, "state", (facts.state.value, _COLORS.get(facts.state, DIM)), left)
    _field(console, "asked", f"{facts.created_at}; until {facts.expires_at}")
    _field(console, "by", str(facts.asked_by))
    if facts.asked_by.client_says is not None:
        _field(console, "client", f"calls itself `{facts.asked_by.client_says}`", (" (its own word)", DIM))
    if facts.tenant is not None:
        _field(console, "tenant", facts.tenant)
    if facts.tier is not None:
        _field(console, "tier", f"{facts.tier} {facts.tier_name}")
    if facts.needs_person:
        _field(console, "needs", f"a person: {', '.join(facts.needs_person)}")
    for cause in facts.causes:
        _field(console, "why", f"{cause.command} {cause.target}: {cause.source}", (f" (tier {cause.tier})", DIM))
    if facts.break_glass is not None:
        _field(console, "freeze", ("would be broken", f"{BOLD};{RED}"), ", for a reason that the caller gives:")
        console.line((f"           | {facts.break_glass}", DIM))
    _show_decision(console, facts)
    show_program(console, facts.program)
    console.line(("at most", BOLD))
    for each in facts.worst_case:
        console.line(f'  {each.command} "{each.target}"', f", {each.times} times" if each.times > 1 else ", once")
    console.line(f"  {facts.seconds:g} s", waits_in(facts.wait_seconds))
    console.line(("targets", BOLD))
    for target in facts.targets:
        tier = "no tier" if target.tier is None else f"tier {target.tier} ({target.tier_name})"
        console.line(f"  {target.command} {target.target}: {tier}, {target.source}")
    _show_history(console, facts)


def _show_decision(console: Console, facts: TicketFacts) -> None:
    if facts.decided_by is not None:
        _field(console, "decided", f"{facts.decided_at} by {facts.decided_by}")
    if facts.reason is not None:
        _field(console, "reason", facts.reason)
    if facts.run_id is not None:
        _field(console, "run", f"{facts.run_id}: {facts.outcome or 'not known to have ended'}")


def show_program(console: Console, program: str) -> None:
    """Write a program with its lines numbered, those with a mutation marked."""
    console.line(("program", BOLD), ("  ! changes something", DIM))
    marked = _mutating_lines(program)
    for number, line in enumerate(program.rstrip("\n").split("\n"), start=1):
        is_marked = number in marked
        console.line(
            (" ! " if is_marked else "   ", f"{BOLD};{RED}"), (f"{number:>3} ", DIM), (line, RED if is_marked else "")
        )


def _mutating_lines(program: str) -> frozenset[int]:
    try:
        source = Source(program, "program")
        commands = analyze(parse(program, limits=_LIMITS)).commands
    except Refusal:  # of another version's language: it is shown as it is
        return frozenset()
    return frozenset(source.position(command.start).line for command in commands if command.mutates)


def _show_history(console: Console, facts: TicketFacts) -> None:
    console.line(("last runs of these", BOLD))
    if not facts.history:
        console.line(("  none is known", DIM))
    for service, runs in sorted(facts.history.items()):
        for run in runs[:_HISTORY]:
            good = run.outcome == "ok"
            outcome = (run.outcome or "not known", GREEN if good else RED)
            said = f": {run.message}" if run.message else ""
            console.line(f"  {service} {run.at} ", outcome, f" by {run.who.subject}{said}")


def _field(console: Console, name: str, *spans: Span) -> None:
    console.line((f"  {name:<9}", CYAN), *spans)
