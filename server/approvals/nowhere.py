"""What stands in the place of page or API where nobody can sign in."""

from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

NO_ISSUER: Final = (
    "There is no approval page here: this server has no issuer, so nobody can sign in.\n"
    "Approve in the shell, with `guideway approvals`, or add an issuer to the configuration: docs/approvals.md\n"
)
NO_CLIENT: Final = (
    "There is no approval page here: [approvals] of the configuration names no `issuer` and `client_id`.\n"
    "Approve in the shell, with `guideway approvals --server`, or add them: docs/approvals.md\n"
)


def nothing_at(paths: Iterable[str], why: str) -> list[Route]:
    """Return routes that say so, there and below."""

    async def nowhere(_: Request) -> Response:
        return PlainTextResponse(why, 404, headers={"Cache-Control": "no-store"})

    methods = ["GET", "POST"]
    return [Route(path, nowhere, methods=methods) for root in paths for path in (root, f"{root}/{{rest:path}}")]
