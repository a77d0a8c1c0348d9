"""What stands in the place of page and API where nobody can sign in."""

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_TEXT: Final = (
    "There is no approval page here: this server has no issuer, so nobody can sign in.\n"
    "Approve in the shell, with `guideway approvals`, or add an issuer to the configuration: docs/approvals.md\n"
)


def no_approvals() -> list[Route]:
    """Return routes that say so."""

    async def nowhere(_: Request) -> Response:
        return PlainTextResponse(_TEXT, 404, headers={"Cache-Control": "no-store"})

    methods = ["GET", "POST"]
    roots = ("/approvals", "/api/approvals")
    return [Route(path, nowhere, methods=methods) for root in roots for path in (root, f"{root}/{{rest:path}}")]
