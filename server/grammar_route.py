"""``GET /grammar``: a caller's copy for whoever does not speak the protocol, such as the host of an engine."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.server.publish import CHOICES, NoCopy, Publisher, media_type, wanted

PATH: Final = "/grammar"
"""Where it stands."""

_STATUSES: Final = {
    NoCopy.Why.NOTHING_ALLOWED: 403,
    NoCopy.Why.NOTHING_TO_NAME: 404,
    NoCopy.Why.NOT_IN_DIALECT: 404,
    NoCopy.Why.ENGINE_REFUSES: 500,
}


def grammar_route(publisher: Publisher) -> Route:
    """Return the route. Who may reach it is for those in front of it."""

    async def grammar(request: Request) -> Response:
        return await _answer(publisher, request)

    return Route(PATH, grammar, methods=["GET"])


async def _answer(publisher: Publisher, request: Request) -> Response:
    try:
        asked = wanted(request.query_params.multi_items())
    except ValueError as error:
        return _error(400, "invalid_parameter", str(error), allowed={name: list(CHOICES[name]) for name in CHOICES})
    try:
        copy = await publisher.copy(publisher.audience(), asked)
    except NoCopy as none:
        needs = {"required_scopes": sorted(PROGRAM_SCOPES)} if none.why is NoCopy.Why.NOTHING_ALLOWED else {}
        return _error(_STATUSES[none.why], none.why, str(none), **needs)
    # A caller who steps up must have the longer copy at once, so that it is always asked for again.
    headers = {"ETag": f'"{copy.sha256}"', "Cache-Control": "private, no-cache"}
    if _is_known(request.headers.getlist("If-None-Match"), copy.sha256):
        return Response(status_code=304, headers=headers)
    return Response(copy.text, media_type=media_type(copy.dialect), headers=headers)


def _is_known(if_none_match: list[str], digest: str) -> bool:
    """Say whether a client has the copy already: RFC 9110, section 13.1.2. Digests have no comma in them."""
    tags = {tag.strip().removeprefix("W/") for tag in ",".join(if_none_match).split(",")}
    return not tags.isdisjoint({"*", f'"{digest}"'})


def _error(status: int, code: str, message: str, **details: object) -> JSONResponse:
    content = {"error": {"code": code, "message": message, **details}}
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})
