"""Where ``guideway approvals`` gets its tickets: the store of this configuration, or a server's API.

Neither has a rule about who may decide: here the desk asks ``interpreter.approvals``, there the server does.
"""

from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import anyio
import httpx2

from guideway.interpreter.approvals import TicketState, Undecidable
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.server import wiring
from guideway.server.approvals.desk import MOST_TICKETS, Desk
from guideway.server.approvals.paths import api_of
from guideway.server.cli.command import Complaint, Exit
from guideway.server.cli.person import speaking_to
from guideway.server.cli.ticket_facts import read_facts
from guideway.server.config import Config
from guideway.server.sign_in.auth import SignedIn
from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.errors import ServerError, theirs
from guideway.server.sign_in.servers import client, facts
from guideway.server.sign_in.session import Session
from guideway.server.webhooks.configured import deliver_on_leaving

_Result = TypeVar("_Result")

#: How a command ends for each reason that there is not to decide.
EXITS: Final = {
    Undecidable.Why.NO_SCOPE: Exit.REFUSED,
    Undecidable.Why.OWN_REQUEST: Exit.REFUSED,
    Undecidable.Why.NO_REASON: Exit.USAGE,
    Undecidable.Why.UNKNOWN: Exit.FAILED,
    Undecidable.Why.DECIDED: Exit.FAILED,
    Undecidable.Why.EXPIRED: Exit.FAILED,
    Undecidable.Why.OUTDATED: Exit.FAILED,
}
_HELP: Final = {
    Undecidable.Why.NO_SCOPE: "--as CALLER names one with that scope",
    Undecidable.Why.OWN_REQUEST: "somebody else has to approve it; to refuse it is always yours",
    Undecidable.Why.NO_REASON: '--reason "why it is to run in spite of the freeze"',
    Undecidable.Why.UNKNOWN: "`guideway approvals list` shows those of your tenant",
    Undecidable.Why.DECIDED: "`guideway approvals show` says by whom",
    Undecidable.Why.EXPIRED: "whoever asked can ask again, which makes a new ticket",
    Undecidable.Why.OUTDATED: "whoever asked can ask again, under the policy that is in force now",
}


class Tickets(Protocol):
    """Tickets that somebody may see and decide on. Everything raises ``Complaint``."""

    async def newest(self, states: Collection[TicketState], most: int) -> list[dict[str, Any]]:
        """Return tickets in some states, or in all, the newest first: their facts."""
        ...

    async def one(self, ticket_id: str) -> dict[str, Any]:
        """Return the facts of a ticket."""
        ...

    async def undelivered(self) -> list[dict[str, Any]]:
        """Return what people could not be told so far."""
        ...

    async def decide(self, ticket_id: str, *, approve: bool, reason: str) -> dict[str, Any]:
        """Approve or refuse a ticket, and return its facts as they are then."""
        ...


class TicketsHere:
    """The tickets of the configured store, for a configured caller."""

    def __init__(self, pipeline: Pipeline, reader: Principal) -> None:
        self._desk = Desk(pipeline)
        self._outbox = pipeline.gate.outbox
        self._reader = reader
        self.decided = False

    async def newest(self, states: Collection[TicketState], most: int) -> list[dict[str, Any]]:
        """Return tickets, the newest first."""
        found = await _told(self._desk.tickets(self._reader, states=states, most=most))
        return [seen.facts for seen in found]

    async def one(self, ticket_id: str) -> dict[str, Any]:
        """Return a ticket."""
        return (await _told(self._desk.ticket(self._reader, ticket_id))).facts

    async def undelivered(self) -> list[dict[str, Any]]:
        """Return what of the reader's tenant people could not be told so far."""
        found = [] if self._outbox is None else await _told(self._outbox.undelivered(MOST_TICKETS))
        return [
            {
                "webhook": each.notice.webhook,
                "event": each.notice.event["event"],
                "ticket": each.notice.event.get("ticket"),
                "run_id": each.notice.event.get("run_id"),
                "attempts": each.notice.attempts,
                "given_up": each.due_at is None,
                "error": each.error,
            }
            for each in found
            if each.notice.event["tenant"] == self._reader.tenant
        ]

    async def decide(self, ticket_id: str, *, approve: bool, reason: str) -> dict[str, Any]:
        """Decide on a ticket."""
        self.decided = True
        return (await _told(self._desk.decide(self._reader, ticket_id, approve=approve, reason=reason))).facts


async def _told(asked: Awaitable[_Result]) -> _Result:
    try:
        return await asked
    except Undecidable as error:
        raise Complaint(
            str(error), code=error.code.value, help=_HELP[error.code], exit_code=EXITS[error.code]
        ) from None
    except StoreUnavailable as error:
        raise Complaint(f"the store cannot be used: {error}", code="store_unavailable") from None


class TicketsThere:
    """The tickets of a server, for whoever is signed in there."""

    def __init__(self, http: httpx2.AsyncClient, server: str) -> None:
        self._http = http
        self._server = server

    async def newest(self, states: Collection[TicketState], most: int) -> list[dict[str, Any]]:
        """Return tickets, the newest first."""
        query = [*(("state", state.value) for state in sorted(states)), ("limit", str(most))]
        found = await self._ask("GET", "", params=query)
        tickets = found.get("tickets")
        if not isinstance(tickets, list):
            raise ServerError(f"`{self._server}` does not list tickets as Guideway does")
        return [self._checked(each) for each in tickets]

    async def one(self, ticket_id: str) -> dict[str, Any]:
        """Return a ticket."""
        return self._checked(await self._ask("GET", f"/{ticket_id}"))

    async def undelivered(self) -> list[dict[str, Any]]:
        """Return nothing: a server's log, and its doctor, say who was not told."""
        return []

    async def decide(self, ticket_id: str, *, approve: bool, reason: str) -> dict[str, Any]:
        """Decide on a ticket."""
        verb = "approve" if approve else "deny"
        return self._checked(await self._ask("POST", f"/{ticket_id}/{verb}", json={"reason": reason}))

    async def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        response = await self._http.request(method, f"{api_of(self._server)}{path}", **content)
        if response.status_code == 200:
            found = facts(response)
            if found:
                return found
            raise ServerError(f"`{self._server}` answers with no JSON object")
        raise self._complaint(response)

    def _complaint(self, response: httpx2.Response) -> Exception:
        """Return what is said of an answer that is an error in the API's form, or in none."""
        found = facts(response)
        code, message = found.get("error"), found.get("message")
        if not isinstance(code, str) or not isinstance(message, str):
            mend = "is this the URL of a Guideway server, with its path?"
            return ServerError(f"`{self._server}` answers HTTP status {response.status_code}", mend)
        known = next((why for why in Undecidable.Why if why == code), None)
        given = found.get("help")
        return Complaint(
            theirs(message),
            code=known.value if known else "server",
            help=_HELP[known] if known else theirs(given) if isinstance(given, str) else None,
            exit_code=EXITS[known] if known else Exit.USAGE,
        )

    def _checked(self, document: Any) -> dict[str, Any]:
        try:
            read_facts(document)
        except ValueError as error:
            raise ServerError(f"a ticket of `{self._server}` cannot be read: {theirs(error)}") from None
        checked: dict[str, Any] = document
        return checked


@asynccontextmanager
async def here(config: Config, reader: Principal) -> AsyncIterator["TicketsHere"]:
    """Give the tickets of a configuration's store. Who is to be told of a decision is told on the way out."""
    pipeline = wiring.build(config)
    tickets = TicketsHere(pipeline, reader)
    try:
        yield tickets
    finally:
        with anyio.CancelScope(shield=True):
            if tickets.decided:
                await deliver_on_leaving(config, pipeline.gate.outbox)
            await pipeline.close()


@asynccontextmanager
async def there(session: Session, person: Person | None) -> AsyncIterator[Tickets]:
    """Give the tickets of a server. Raises ``SignInError``."""
    with speaking_to(session.server):
        async with client(session.server, session.ca_file, SignedIn(session, person)) as http:
            yield TicketsThere(http, session.server)


async def what_there_is(tickets: Tickets, most: int) -> list[dict[str, Any]]:
    """Return what waits, and behind it the last of what does not: however much of that there is, it hides nothing.

    In this order: what is decided on in between is in both answers, and in none never.
    """
    waiting = await tickets.newest([TicketState.PENDING], MOST_TICKETS)
    past = await tickets.newest([state for state in TicketState if state is not TicketState.PENDING], most)
    ids = {each["ticket"] for each in waiting}
    return [*waiting, *(each for each in past if each["ticket"] not in ids)]


async def find(tickets: Tickets, given: str, *, whole: bool) -> dict[str, Any]:
    """Return the facts of the ticket that an id means, or how that begins. Raises ``Complaint``."""
    if whole:
        return await tickets.one(given)
    meant = [each for each in await what_there_is(tickets, MOST_TICKETS) if each["ticket"].startswith(given)]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        code = Undecidable.Why.UNKNOWN
        raise Complaint("there is no such ticket", code=code.value, help=_HELP[code], exit_code=EXITS[code])
    ids = ", ".join(each["ticket"] for each in meant[:5])
    raise Complaint(f"{len(meant)} tickets begin like this", help=f"write more of it: {ids}")
