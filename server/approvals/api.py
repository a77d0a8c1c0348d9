"""The JSON API of tickets, for programs that act for a person who approves, such as the shell.

Who asks is settled in front of it, by the token: every answer here is for a caller with the scope. Errors are
``{"error", "message", "help"}``, with codes that are stable.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from guideway.interpreter.approvals import MOST_WORDS, TicketState, Undecidable
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.server.approvals.desk import MOST_TICKETS, Desk
from guideway.server.approvals.paths import API

STATUSES: Final = {
    Undecidable.Why.NO_SCOPE: 403,
    Undecidable.Why.OWN_REQUEST: 403,
    Undecidable.Why.UNKNOWN: 404,
    Undecidable.Why.DECIDED: 409,
    Undecidable.Why.EXPIRED: 409,
    Undecidable.Why.OUTDATED: 409,
    Undecidable.Why.NO_REASON: 422,
}
_HELP: Final = {
    Undecidable.Why.NO_SCOPE: "sign in as somebody who may approve, and allow it",
    Undecidable.Why.OWN_REQUEST: "somebody else has to approve it; to refuse it is always yours",
    Undecidable.Why.UNKNOWN: "tickets of your tenant are listed by GET /api/approvals",
    Undecidable.Why.DECIDED: "whoever decides first, decides; GET the ticket to see who did",
    Undecidable.Why.EXPIRED: "whoever asked can ask again, which makes a new ticket",
    Undecidable.Why.OUTDATED: "whoever asked can ask again, under the policy that is in force now",
    Undecidable.Why.NO_REASON: "say in `reason` why it is to run in spite of the freeze",
}
_OF_A_BODY: Final = f'a decision\'s body is {{"reason": …}}, with at most {MOST_WORDS} characters; docs/approvals.md'
_OF_THE_LIST: Final = (
    f"`state` is one of {', '.join(TicketState)}, and may be repeated; `limit` is 1 to {MOST_TICKETS}; "
    "docs/approvals.md"
)
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Words(BaseModel):
    """The body of a decision."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    reason: Annotated[str, Field(max_length=MOST_WORDS)] = ""


class Asked(BaseModel):
    """The query of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: tuple[TicketState, ...] = ()
    limit: Annotated[int, Field(ge=1, le=MOST_TICKETS)] = 50


def api_routes(desk: Desk, caller: Callable[[], Principal]) -> list[Route]:
    """Return the routes. ``caller`` says who is asking; who may reach them is for those in front."""

    async def tickets(request: Request) -> Response:
        names = set(request.query_params.keys())
        query: dict[str, Any] = {name: request.query_params.get(name) for name in names}
        if "state" in query:
            query["state"] = request.query_params.getlist("state")
        asked = Asked.model_validate(query)
        found = await desk.tickets(caller(), states=asked.state, most=asked.limit)
        return _json({"tickets": [seen.facts for seen in found]})

    async def ticket(request: Request) -> Response:
        return _json((await desk.ticket(caller(), request.path_params["ticket"])).facts)

    def decision(*, approve: bool) -> Callable[[Request], Awaitable[Response]]:
        async def decide(request: Request) -> Response:
            ticket_id = request.path_params["ticket"]
            try:
                given = Words.model_validate_json(await request.body() or b"{}")
            except ValidationError as error:
                desk.note(caller(), ticket_id, "invalid_request", _what_is_wrong(error), approve=approve)
                raise
            seen = await desk.decide(caller(), ticket_id, approve=approve, reason=given.reason)
            return _json(seen.facts)

        return decide

    return [
        Route(API, _answered(tickets), methods=["GET"]),
        Route(f"{API}/{{ticket}}", _answered(ticket), methods=["GET"]),
        Route(f"{API}/{{ticket}}/approve", _answered(decision(approve=True)), methods=["POST"]),
        Route(f"{API}/{{ticket}}/deny", _answered(decision(approve=False)), methods=["POST"]),
    ]


def _answered(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that says in the API's form why there is no answer."""

    async def endpoint(request: Request) -> Response:
        try:
            return await answer(request)
        except Undecidable as error:
            return _error(STATUSES[error.code], error.code, str(error), _HELP[error.code])
        except StoreUnavailable:
            return _error(
                503, "store_unavailable", "the store of tickets cannot be used now", "the server's log says why"
            )
        except ValidationError as error:
            help_ = _OF_THE_LIST if error.title == Asked.__name__ else _OF_A_BODY
            return _error(400, "invalid_request", _what_is_wrong(error), help_)

    return endpoint


def _what_is_wrong(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    return f"{where + ': ' if where else ''}{first['msg'].lower()}"


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status, headers=_HEADERS)


def _error(status: int, code: str, message: str, help_: str) -> Response:
    return _json({"error": str(code), "message": message, "help": help_}, status)
