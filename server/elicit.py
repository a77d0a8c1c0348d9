"""What a person is asked through the client that a call came by, and whether that client can ask it.

Two forms. The address of the page is for a client that can have its person open one: whoever decides there is signed
in, and the client says no more than whether it was opened. A form's answer is the client's own word: it counts as its
caller's own approval, and only where the configuration lets people approve their own requests and trusts that client
with the question.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from guideway.dsl.errors import Refusal, printable
from guideway.dsl.parser import Limits, parse
from guideway.dsl.printer import format_program
from guideway.interpreter.approvals import MOST_WORDS, TICKET_ID, Ticket, one_line
from guideway.interpreter.principal import Principal

LOCAL: Final = "local"
"""What ``[approvals] form`` calls the client of a caller whom the configuration names, not a token."""

MOST_IN_FORM: Final = 4_000
"""Characters of a program that a form shows. A longer one is for the page: nobody approves what they cannot see."""

_URL_SINCE: Final = "2025-11-25"
_FORM_SINCE: Final = "2025-06-18"
_LIMITS: Final = Limits(bytes=8_388_608, nesting=100, commands=10_000)  # of a text that was let in once


class Mode(StrEnum):
    """How a person is asked, in the protocol's words."""

    URL = "url"
    FORM = "form"


class Question(BaseModel):
    """The state of a question that a client has: to which ticket the answer belongs, and what was asked.

    ``key`` is this one question's, made anew for each. ``tenant`` and ``digest`` are the ticket's. ``answered`` is
    whether the person has agreed to open the page, ``rounds`` how often the client came back.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ticket: str = Field(pattern=TICKET_ID)
    digest: str
    tenant: str | None
    key: str
    mode: Annotated[Mode, Strict(False)]
    answered: bool = False
    rounds: int = Field(default=0, ge=0)


class FormAnswer(BaseModel):
    """What a form brings back, by ``form_schema``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    approve: bool
    reason: str = Field(default="", max_length=MOST_WORDS)


def mode_of(
    capabilities: types.ClientCapabilities | None,
    version: str,
    caller: Principal,
    ticket: Ticket,
    *,
    page: str | None,
    forms: Collection[str],
) -> Mode | None:
    """Return how a client can be asked about a ticket; None where it cannot.

    ``page`` is where the page stands, None where there is none. ``forms`` are the clients that may ask in a form of
    their own.
    """
    can = capabilities.elicitation if capabilities else None
    if can is None:
        return None
    if can.url is not None and version >= _URL_SINCE and page is not None:
        return Mode.URL
    # A client that names neither form nor URL means forms: before there were two there was no word for it.
    if (can.form is not None or can.url is None) and version >= _FORM_SINCE and may_answer(caller, ticket, forms):
        return Mode.FORM
    return None


def may_answer(caller: Principal, ticket: Ticket, forms: Collection[str]) -> bool:
    """Say whether a caller's client may answer for them in a form.

    Never to break the glass, which needs a person who is signed in; nor for a program that a form cannot show whole.
    """
    client = LOCAL if caller.issuer == LOCAL else caller.client
    trusted = client in forms and (client == LOCAL) == (caller.issuer == LOCAL)
    return trusted and ticket.question.break_glass is None and len(_program(ticket)) <= MOST_IN_FORM


def request(mode: Mode, ticket: Ticket, *, url: str | None, elicitation_id: str | None = None) -> types.ElicitRequest:
    """Return the question. ``elicitation_id`` is for revisions that have one."""
    if mode is Mode.URL and url is not None:
        opened = types.ElicitRequestURLParams(message=_opening(ticket), url=url, elicitation_id=elicitation_id)
        return types.ElicitRequest(params=opened)
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=form_message(ticket), requested_schema=form_schema())
    )


def form_schema() -> dict[str, Any]:
    """Return what a form asks for."""
    return {
        "type": "object",
        "properties": {
            "approve": {
                "type": "boolean",
                "title": "Let this program run",
                "description": "yes lets it run once; no refuses it",
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "optional; it is recorded, and told to the caller where you refuse",
                "maxLength": MOST_WORDS,
            },
        },
        "required": ["approve"],
    }


def form_message(ticket: Ticket) -> str:
    """Return what a form says: the whole program, and what it does at most."""
    counts = [f'{times} x {keyword} "{name}"' for (keyword, name), times in sorted(ticket.question.worst_case.items())]
    return "\n".join(["May this program run?", "", _program(ticket), f"At most: {', '.join(counts)}", *_why(ticket)])


def form_answer(content: Mapping[str, Any] | None) -> FormAnswer | None:
    """Return what a form says, None where that is not what was asked for."""
    try:
        return FormAnswer.model_validate(content or {})
    except ValidationError:
        return None


def client_says(ctx_client: types.InitializeRequestParams | None) -> str | None:
    """Return what a client calls itself: untrusted, on one line and bounded. None where it does not say."""
    if ctx_client is None:
        return None
    info = ctx_client.client_info
    words = f"{info.name[:MOST_WORDS]} {info.version[:MOST_WORDS]}".split()
    return printable(" ".join(words))[:_MOST_CLIENT] or None


def model_says(meta: Mapping[str, Any] | None) -> str | None:
    """Return which model a client says to have written the program, by ``MODEL_KEY`` of the call's ``_meta``.

    Untrusted, on one line and bounded; None where it does not say.
    """
    said = (meta or {}).get(MODEL_KEY)
    return one_line(said)[:_MOST_CLIENT] or None if isinstance(said, str) else None


MODEL_KEY: Final = "io.github.guideway/model"

_MOST_CLIENT: Final = 200


def _opening(ticket: Ticket) -> str:
    return " ".join(
        [
            "A person must approve this program before it runs.",
            "The page shows it whole; whoever decides signs in there.",
            *_why(ticket),
        ]
    )


def _why(ticket: Ticket) -> list[str]:
    """Return why a person is asked, of the first few causes."""
    causes = ticket.question.causes
    shown = [f'{cause.command} "{cause.target}": {cause.source}' for cause in causes[:_MOST_CAUSES]]
    more = [f"{len(causes) - _MOST_CAUSES} more"] if causes[_MOST_CAUSES:] else []
    return [printable(f"Why: {'; '.join(shown + more)}."[:1_000])] if shown else []


_MOST_CAUSES: Final = 5


def _program(ticket: Ticket) -> str:
    """Return the program of a ticket as it is shown, a line a command."""
    text = ticket.question.program
    if len(text) > MOST_IN_FORM:
        return text
    try:
        return format_program(parse(text, name=ticket.id, limits=_LIMITS))
    except Refusal:  # of another version's language
        return text
