"""The HTTP door with tokens that a test makes up: everything is real but who says what a token is worth."""

import ssl
import time
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller
from guideway.server.oauth.verified import TokenRefused, Verified
from guideway.server.sections import IssuerSection
from guideway.server.tool import TOOL_NAME, build_server
from tests.server.world import Era, World

ISSUER = IssuerSection(issuer="https://login.example.com")
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: reading the system's authorities takes longer than most tests."""

READ, WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})


class Tokens:
    """A verifier over the tokens that it was told of; to all others it says what they are."""

    def __init__(self) -> None:
        self._known: dict[str, Verified | Exception] = {}

    def add(
        self,
        token: str,
        scopes: Iterable[Scope] = (),
        *,
        subject: str = "alice",
        tenant: str | None = None,
        expires_at: float | None = None,
        issuer: IssuerSection = ISSUER,
        key_thumbprint: str | None = None,
    ) -> str:
        """Let a token be good; return it."""
        principal = Principal(subject, frozenset(scopes), issuer.issuer, "laptop", tenant, expires_at)
        self._known[token] = Verified(principal, issuer, key_thumbprint)
        return token

    def fail(self, token: str, error: Exception) -> str:
        """Let a token be answered with an error; return it."""
        self._known[token] = error
        return token

    async def verify(self, token: str) -> Verified:
        """Say who is behind a token, as ``TrustedIssuers`` does."""
        match self._known.get(token):
            case None:
                raise TokenRefused("the token is of no trusted issuer")
            case Exception() as error:
                raise error
            case verified if (verified.principal.expires_at or time.time() + 1) <= time.time():
                raise TokenRefused("the token has expired")
            case verified:
                return verified


class Door:
    """A world behind the door. ``url`` is its endpoint, once it is served."""

    def __init__(self, world: World | None = None, *issuers: IssuerSection) -> None:
        self.tokens = Tokens()
        self.world = world or World()
        self.world.server = build_server(self.world.pipeline, caller)
        self.issuers = issuers or (ISSUER,)
        self.url = ""

    @asynccontextmanager
    async def serving(self, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """Serve on a free port; give a client of plain HTTP."""

        @asynccontextmanager
        async def access(resource: str) -> AsyncIterator[Access]:
            yield Access(self.tokens, resource, self.issuers)

        async with (
            self.world.serving(access=access, **settings) as self.url,
            httpx2.AsyncClient(verify=NO_AUTHORITIES) as http,
        ):
            http.base_url = self.url.removesuffix("/mcp")
            yield http

    @asynccontextmanager
    async def connected(self, shown: "Shown | str", era: Era, **options: Any) -> AsyncIterator[Client]:
        """Connect the official client, which shows a token."""
        auth = shown if isinstance(shown, Shown) else Shown(shown)
        async with (
            httpx2.AsyncClient(auth=auth, verify=NO_AUTHORITIES) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era, **options) as client,
        ):
            yield client


class Shown(httpx2.Auth):
    """The token that a client shows, which may change; ``answers`` are those that it was not let in with."""

    def __init__(self, token: str) -> None:
        self.shows = token
        self.answers: list[httpx2.Response] = []

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self.shows}"
        response = yield request
        if response.status_code >= 400:
            self.answers.append(response)


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def message(method: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a request of 2026-07-28 and the headers that it goes with."""
    prefix = "io.modelcontextprotocol"
    meta = {"_meta": {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": {}}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | meta}, headers


def a_call(program: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a call of the tool, as ``message`` does."""
    return message("tools/call", name=TOOL_NAME, arguments={"program": program})


def facts(response: httpx2.Response) -> dict[str, Any]:
    """Return the data of the JSON-RPC error that a body is."""
    data: dict[str, Any] = response.json()["error"]["data"]
    return data


def challenges(response: httpx2.Response) -> list[tuple[str, dict[str, str]]]:
    """Return the scheme and the parameters of each challenge, one a header line."""
    found = []
    for line in response.headers.get_list("WWW-Authenticate"):
        scheme, _, rest = line.partition(" ")
        parameters = dict(part.split("=", 1) for part in rest.split(", ")) if rest else {}
        assert all(value[0] == value[-1] == '"' for value in parameters.values()), line
        found.append((scheme, {name: value[1:-1] for name, value in parameters.items()}))
    return found
