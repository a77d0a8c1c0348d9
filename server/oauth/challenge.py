"""The answers to a request that is not let in, each with the challenge that says what would be: RFC 6750 and 9449.

The only place that builds them. Header and body say the same; no part of a token, and nothing that came with one, is
in either. The body is an error of JSON-RPC, which clients of the protocol show to their people: its ``data`` has the
facts, its ``code`` is the status, since the protocol reserves none for this.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, requires
from guideway.server.oauth.access import Access
from guideway.server.oauth.dpop import ALGORITHMS
from guideway.server.oauth.verified import IssuerUnavailable, Verified
from guideway.server.sections import IssuerSection

_FIRST: Final = frozenset({Scope.READ})
"""What is asked for of somebody who shows no scope that lets a program run."""


class Scheme(StrEnum):
    """How a token is shown."""

    BEARER = "Bearer"
    DPOP = "DPoP"


class Challenges:
    """The answers for one resource. Scopes are in the words of the issuer whose token it was, else the first one's."""

    def __init__(self, access: Access) -> None:
        self._metadata_url = access.metadata_url
        self._first = access.issuers[0]
        required = [section.dpop == "required" for section in access.issuers]
        # Clients that know one scheme read the first challenge alone (RFC 9110, section 11.6.1, allows several).
        self._schemes = [
            *([] if all(required) else [Scheme.BEARER]),
            *([Scheme.DPOP] if any(required) else []),
        ]

    def no_token(self, first: frozenset[Scope] = _FIRST) -> Response:
        """Answer a request without a token: 401, and no error code (RFC 6750, section 3.1).

        ``first`` is what to ask for to begin with.
        """
        scope = self._words(self._first, first)
        return self._answer(401, self._schemes, why="an access token is needed", scope=scope)

    def invalid_token(self, why: str, scheme: Scheme, first: frozenset[Scope] = _FIRST) -> Response:
        """Answer a token that is not believed: 401."""
        schemes = list(dict.fromkeys((*self._schemes, scheme)))
        return self._answer(401, schemes, error="invalid_token", why=why, scope=self._words(self._first, first))

    def invalid_proof(self, why: str) -> Response:
        """Answer a proof that is not believed, whatever its token: 401 (RFC 9449, section 7.1)."""
        return self._answer(401, [Scheme.DPOP], error="invalid_dpop_proof", why=why)

    def invalid_request(self, why: str) -> Response:
        """Answer a request that shows its token in a way that is not allowed: 400."""
        return self._answer(400, self._schemes, error="invalid_request", why=why)

    def insufficient_scope(self, verified: Verified, scheme: Scheme, required: frozenset[Scope] = _FIRST) -> Response:
        """Answer a token that lacks scopes: 403.

        The challenge names what is required together with what the token has: clients that ask for the challenged
        scopes alone would lose the others.
        """
        held = verified.principal.scopes
        return self._answer(
            403,
            [scheme],
            error="insufficient_scope",
            why=requires(required - held),
            scope=self._words(verified.issuer, required | (held & PROGRAM_SCOPES)),
            about={"required_scopes": sorted(required), "missing_scopes": sorted(required - held)},
        )

    def unavailable(self, error: IssuerUnavailable) -> Response:
        """Answer a token that nobody can be asked about now: 503."""
        response = self._answer(503, [], error="temporarily_unavailable", why=str(error))
        response.headers["Retry-After"] = str(error.retry_after)
        return response

    def broken(self) -> Response:
        """Answer where this program itself fails: 500."""
        return self._answer(500, [], error="server_error", why="the token could not be checked")

    def _words(self, issuer: IssuerSection, scopes: frozenset[Scope]) -> str:
        return " ".join(issuer.words(scopes))

    def _answer(
        self,
        status: int,
        schemes: Iterable[Scheme],
        *,
        why: str,
        error: str | None = None,
        scope: str | None = None,
        about: Mapping[str, Any] = MappingProxyType({}),
    ) -> Response:
        said = {} if error is None else {"error": error, "error_description": why}
        if scope is not None:
            said["scope"] = scope
        body = {"code": status, "message": why, "data": {**said, **about}}
        content = {"jsonrpc": "2.0", "id": None, "error": body}
        response = JSONResponse(content, status, headers={"Cache-Control": "no-store"})
        for scheme in schemes:
            more = {"algs": " ".join(ALGORITHMS)} if scheme is Scheme.DPOP else {}
            parameters = {**said, "resource_metadata": self._metadata_url, **more}
            response.headers.append("WWW-Authenticate", f"{scheme} {', '.join(_parameters(parameters))}")
        return response


def _parameters(values: Mapping[str, str]) -> Iterator[str]:
    """Yield auth-params, each value as a quoted-string: RFC 9110, sections 5.6.4 and 11.2.

    What a header cannot hold is replaced: no value can end its quotes, its header or its line.
    """
    for name, value in values.items():
        shown = "".join(char if char.isascii() and char.isprintable() else "?" for char in value)
        escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
        yield f'{name}="{escaped}"'
