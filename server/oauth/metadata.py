"""What a client can find out about the resource before it has a token: RFC 9728.

The document is the same for everybody and says nothing of who asks, so that web pages may read it too.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, request_response

from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.server.oauth.access import Access, metadata_path
from guideway.server.oauth.dpop import ALGORITHMS
from guideway.server.sections import ENDPOINT

_SECONDS: Final = 300
"""How long a client may keep it: short, because an issuer may be added."""


def metadata_paths(access: Access) -> frozenset[str]:
    """Return where the document is served: at the place of the resource's URL, and at that of the path it has here.

    The two differ behind a proxy that serves the endpoint under a path of its own.
    """
    return frozenset(metadata_path(path) for path in (urlsplit(access.resource).path, ENDPOINT))


def metadata_routes(access: Access) -> list[Route]:
    """Return the routes of the document."""
    content = document(access)

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(content, headers={"Cache-Control": f"public, max-age={_SECONDS}"})

    app = CORSMiddleware(request_response(answer), allow_origins=["*"], allow_methods=["GET"], allow_headers=["*"])
    return [Route(path, app, methods=["GET", "OPTIONS"]) for path in sorted(metadata_paths(access))]


def document(access: Access) -> dict[str, Any]:
    """Return the document: RFC 9728, section 2."""
    return {
        "resource": access.resource,
        "resource_name": "Guideway",
        "authorization_servers": [section.issuer for section in access.issuers],
        "scopes_supported": list(
            dict.fromkeys(word for section in access.issuers for word in section.words(PROGRAM_SCOPES))
        ),
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "dpop_bound_access_tokens_required": all(section.dpop == "required" for section in access.issuers),
    }
