"""How a call goes on when a person must approve its program: ask through the client, wait, and run; or say how else.

A question of revision 2026-07-28 is a result that the client answers by calling again, with the state that it was
given; the call may come to another replica. In older revisions it is a request within the call. Either way the store
alone knows what was decided: of a client's answer counts that its person opened the page, or, where the operator
allows that, what its form says.
"""

import logging
import secrets
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from guideway.interpreter.approvals import MOST_WORDS, Ticket, TicketState, Undecidable, Who
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.server.elicit import FormAnswer, Mode, Question, form_answer, may_answer, mode_of, request
from guideway.server.load import Place
from guideway.server.progress import Progress
from guideway.server.run_log import who
from guideway.server.waiting import Waits, until_decided

WAIT_SECONDS: Final = 40.0
"""Seconds that one request waits: official clients give a request up after 60."""

MOST_ROUNDS: Final = 9
"""How often a client is sent back with the state alone; official clients go round ten times."""

KEY: Final = "approval-"
"""What the key of a question begins with; the rest is this question's own."""

_log: Final = logging.getLogger(__name__)
_Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """The client is answered with this: a question, or to come again."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """The gate can say now what a ticket lets run: it was decided, or is over."""

    ticket: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing was decided, and this call asks no further; ``why`` is for the caller."""

    ticket: Ticket
    why: str


Turn = Reply | Decided | Undecided


class Asking:
    """Asks through clients. ``forms`` are the clients that may answer in a form of their own.

    ``page`` is the address that the pages of tickets stand below, None where there are none; the door that serves them
    sets it.
    """

    def __init__(self, gate: ImpactGate, forms: Collection[str] = ()) -> None:
        self.page: str | None = None
        self.waits = Waits()
        self._gate = gate
        self._forms = frozenset(forms)

    def url(self, ticket: Ticket) -> str | None:
        """Return the address of a ticket's page, None where there is none."""
        return None if self.page is None else f"{self.page}/{ticket.id}"

    async def resume(self, call: "Conversation", params: types.CallToolRequestParams) -> Turn | None:
        """Go on where a client brings a question's state back; None where it brings none.

        Raises ``MCPError`` for a state that is not this caller's, and for an answer to nothing that was asked.
        """
        question = _brought(call, params)
        if question is None:
            return None
        try:
            ticket = await self._ticket(question.ticket)
        except StoreUnavailable:
            return Decided(question.ticket)  # which the gate answers
        if ticket is None or ticket.state is not TicketState.PENDING or not _is_of(ticket, question, call.caller):
            return Decided(question.ticket)  # which the gate answers too, with the reason
        return await self._go_on(call, params, ticket, question)

    async def _go_on(
        self, call: "Conversation", params: types.CallToolRequestParams, ticket: Ticket, question: Question
    ) -> Turn:
        """Go on with a question whose ticket is pending: by its answer, or by waiting."""
        if question.answered:
            return await self._wait_again(call, ticket, question)
        answer = (params.input_responses or {}).get(question.key)
        if not isinstance(answer, types.ElicitResult):
            return self._once_more(call, ticket, question)
        if question.mode is Mode.FORM:
            return await self._by_form(call, ticket, answer)
        if answer.action != "accept":
            return Undecided(ticket, f"the question was answered with `{answer.action}` in the client")
        return await self._wait_again(call, ticket, question.model_copy(update={"answered": True}))

    async def ask(self, call: "Conversation", ticket: Ticket, *, again: bool) -> Turn:
        """Ask about a ticket. ``again`` is whether its caller knows of it already: then nobody is asked twice."""
        if ticket.state is TicketState.APPROVED:
            return Decided(ticket.id)
        mode = self._mode(call, ticket)
        if again:
            return Decided(ticket.id) if await self._waited(call, ticket) else Undecided(ticket, "")
        if mode is None:
            return Undecided(ticket, "")
        if call.modern:
            bound = ticket.question.binding
            key = f"{KEY}{secrets.token_urlsafe(12)}"
            question = Question(ticket=ticket.id, digest=bound.digest, tenant=bound.tenant, key=key, mode=mode)
            return self._reply(ticket, question)
        if not call.ctx.session.can_send_request:
            return Undecided(ticket, "")
        return await self._live(call, ticket, mode)

    def _mode(self, call: "Conversation", ticket: Ticket) -> Mode | None:
        """Return in which way a client is asked about a ticket, None where in none."""
        return mode_of(
            call.ctx.session.client_capabilities,
            call.ctx.protocol_version,
            call.caller,
            ticket,
            page=self.page,
            forms=self._trusted,
        )

    @property
    def _trusted(self) -> frozenset[str]:
        """The clients whose forms count: none unless people may approve their own requests."""
        return self._forms if self._gate.rules.own_requests else frozenset()

    async def _ticket(self, ticket_id: str) -> Ticket | None:
        if self._gate.records is None:
            raise StoreUnavailable("none is configured")
        return await self._gate.records.ticket(ticket_id, time.time())

    def _reply(self, ticket: Ticket, question: Question, *, asks: bool = True) -> Reply:
        """Return the result that asks, or that has the client come again with nothing but the state."""
        requests: types.InputRequests = {}
        if asks:
            requests[question.key] = request(question.mode, ticket, url=self.url(ticket))
        state = question.model_dump_json()
        result = types.InputRequiredResult(input_requests=requests or None, request_state=state)
        return Reply(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    def _once_more(self, call: "Conversation", ticket: Ticket, question: Question) -> Turn:
        """Ask what was not answered; the protocol has a server do so."""
        mode = self._mode(call, ticket)
        if question.rounds >= MOST_ROUNDS or mode is not question.mode:
            return Undecided(ticket, "the question was not answered")
        return self._reply(ticket, question.model_copy(update={"rounds": question.rounds + 1}))

    async def _wait_again(self, call: "Conversation", ticket: Ticket, question: Question) -> Turn:
        """Wait a while, and have the client come again where nobody has decided by then."""
        if await self._waited(call, ticket):
            return Decided(ticket.id)
        if question.rounds >= MOST_ROUNDS:
            return Undecided(ticket, "")
        return self._reply(ticket, question.model_copy(update={"rounds": question.rounds + 1}), asks=False)

    async def _waited(self, call: "Conversation", ticket: Ticket) -> bool:
        """Wait for a decision, and say whether the gate has something to say; False also where waiting is over."""
        records = self._gate.records
        if records is None:
            return True
        left = max(0.0, ticket.expires_at - time.time()) + 0.1
        # A client that hears of progress stays for as long as the ticket lives; any other is answered in time.
        longest = left if call.progress.asked and not call.modern else min(left, call.seconds_left())
        decided = False
        with self.waits.one(Who.of(call.caller)) as may_wait:
            if may_wait:
                call.place.rest()
                decided = await until_decided(records, ticket.id, longest, call.progress.tell)
        return decided

    async def _live(self, call: "Conversation", ticket: Ticket, mode: Mode) -> Turn:
        """Ask within the call, and go on as soon as it is decided, wherever that happens."""
        elicitation = str(uuid.uuid4())
        asked = request(mode, ticket, url=self.url(ticket), elicitation_id=elicitation)
        turn: Turn | None = None
        async with anyio.create_task_group() as tasks:

            async def put() -> None:
                nonlocal turn
                found = await self._put(call, ticket, mode, asked)
                if found is not None:
                    turn = found
                    tasks.cancel_scope.cancel()

            tasks.start_soon(put)
            decided = await self._waited(call, ticket)
            tasks.cancel_scope.cancel()
        if turn is not None:
            return turn
        if decided and mode is Mode.URL:
            await call.ctx.session.send_elicit_complete(elicitation, related_request_id=call.ctx.request_id)
        return Decided(ticket.id) if decided else Undecided(ticket, "")

    async def _put(self, call: "Conversation", ticket: Ticket, mode: Mode, asked: types.ElicitRequest) -> Turn | None:
        """Put the question to the client; None where its person has gone to the page, and may still decide."""
        try:
            answer = await call.elicit(asked)
        except (MCPError, ValidationError) as error:
            _log.info("a client that can ask its person did not: %s", type(error).__name__)
            return Undecided(ticket, "the client did not ask")
        if mode is Mode.FORM:
            return await self._by_form(call, ticket, answer)
        return None if answer.action == "accept" else Undecided(ticket, _answered_with(answer))

    async def _by_form(self, call: "Conversation", ticket: Ticket, answer: types.ElicitResult) -> Turn:
        """Take a form's answer for the caller's own decision. What it was is recorded as what it is: a client's word.

        A form that is closed decides nothing.
        """
        said = form_answer(answer.content) if answer.action == "accept" else None
        if answer.action == "decline":
            said = FormAnswer(approve=False)
        if said is None:
            return Undecided(ticket, _answered_with(answer) if answer.action == "cancel" else "the form does not read")
        if not may_answer(call.caller, ticket, self._trusted):
            return Undecided(ticket, "this client may not answer for its person")
        by = Who.of(call.caller)
        reason = f"in a form of the client's own, as the client says{f': {said.reason}' if said.reason else ''}"
        try:
            records = self._gate.records
            if records is not None:
                await records.decide(
                    ticket.id, approve=said.approve, by=by, reason=reason[:MOST_WORDS], now=time.time()
                )
                verb = "approved" if said.approve else "refused"
                _log.info("ticket %s: %s in a form of the client's own; %s", ticket.id, verb, who(call.caller))
        except (Undecidable, StoreUnavailable) as error:  # the gate says which
            _log.info("ticket %s: a form came to nothing: %s; %s", ticket.id, error, who(call.caller))
        return Decided(ticket.id)


class Conversation:
    """One call, as far as asking goes: who calls, what the client can, and how long it may still wait.

    ``place`` is given back while it waits, which costs nothing then but memory.
    """

    def __init__(self, ctx: _Context, caller: Principal, progress: Progress, place: Place) -> None:
        self.ctx = ctx
        self.caller = caller
        self.progress = progress
        self.place = place
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._since = time.monotonic()

    def seconds_left(self) -> float:
        """Return the seconds until a client may give this request up."""
        return max(0.0, self._since + WAIT_SECONDS - time.monotonic())

    async def elicit(self, asked: types.ElicitRequest) -> types.ElicitResult:
        """Put a question to the client, on the stream of this call. Raises ``MCPError`` and ``ValidationError``."""
        session, related = self.ctx.session, self.ctx.request_id
        match asked.params:
            case types.ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id):
                return await session.elicit_url(message, url, elicitation_id or "", related)
            case types.ElicitRequestFormParams(message=message, requested_schema=schema):
                return await session.elicit_form(message, schema, related)


def _brought(call: Conversation, params: types.CallToolRequestParams) -> Question | None:
    """Return the question whose state a client brings back, None where it brings none. Raises ``MCPError``."""
    if not call.modern:
        return None
    if params.request_state is None:
        if params.input_responses:
            raise _not_good(call, "an answer came without a state")
        return None
    try:
        question = Question.model_validate_json(params.request_state)
    except ValidationError:
        raise _not_good(call, "it does not read") from None
    if question.tenant != call.caller.tenant:
        raise _not_good(call, "it is of another tenant")
    return question


def _is_of(ticket: Ticket, question: Question, caller: Principal) -> bool:
    bound = ticket.question.binding
    return (bound.digest, bound.who, bound.tenant) == (question.digest, Who.of(caller), caller.tenant)


def _answered_with(answer: types.ElicitResult) -> str:
    return f"the question was answered with `{answer.action}` in the client"


def _not_good(call: Conversation, why: str) -> MCPError:
    """Return the error that the SDK gives for a state that is not good, and log the reason, which is not told."""
    _log.warning("requestState rejected on tools/call: %s; %s", why, who(call.caller))
    data = {"reason": "invalid_request_state"}
    return MCPError(code=types.INVALID_PARAMS, message="Invalid or expired requestState", data=data)
