"""Other people's clients, each driven as an application would: the official Python SDK and both TypeScript SDKs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from guideway.server.describe import GRAMMAR_KEY
from guideway.server.tool import TOOL_NAME
from tests.interop.npm import PLACE
from tests.interop.oauth.browser import REDIRECT, brought, visit
from tests.interop.oauth.processes import Environment
from tests.server.world import Era

Sdk = Literal["python", "typescript-2", "typescript-1"]

_SECONDS = 30
_MOST_LINE = 1 << 20


class Failed(Exception):  # noqa: N818  # it is what the client says, not a fault of the test
    """The client told its application that it could not; the message is the client's own."""


class Connected(Protocol):
    """A client that is connected."""

    async def grammar(self) -> str:
        """List the tools; return the grammar that the one tool carries. Raises ``Failed``."""

    async def call(self, program: str) -> dict[str, Any]:
        """Have a program run; return the report. Raises ``Failed``."""

    async def revision(self) -> str:
        """Return the protocol revision that is spoken."""


@dataclass(frozen=True)
class Known:
    """How a client is known to the provider. Where nothing says it, the client registers itself.

    ``by_hand`` is what an operator has entered there, ``document`` the address of a metadata document. ``refreshes``
    is whether it keeps refresh tokens, ``dpop`` whether it binds its tokens to a key of its own.
    """

    by_hand: dict[str, Any] | None = None
    document: str | None = None
    refreshes: bool = True
    dpop: bool = False


@dataclass(frozen=True)
class Application:
    """An application that is built with an SDK and speaks an era."""

    sdk: Sdk
    era: Era

    def __str__(self) -> str:
        return f"{self.sdk}-{self.era}"

    @asynccontextmanager
    async def connected(self, url: str, environment: Environment, known: Known = Known()) -> AsyncIterator[Connected]:
        """Connect to a server, and sign in where it asks for that. Raises ``Failed``."""
        with anyio.fail_after(_SECONDS * 2):
            made = _python(url, self.era, known) if self.sdk == "python" else _node(self, url, environment, known)
            async with made as client:
                yield client


APPLICATIONS = (
    Application("python", "legacy"),
    Application("python", "2026-07-28"),
    Application("typescript-2", "legacy"),
    Application("typescript-2", "2026-07-28"),
    Application("typescript-1", "legacy"),
)
"""Every SDK, in each era that it speaks."""


class _Storage:
    """What the application keeps for the SDK, for as long as it runs."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class _Person:
    """Signs in where the SDK sends them, with a browser."""

    def __init__(self) -> None:
        self._answer: dict[str, str] = {}

    async def open(self, start: str) -> None:
        self._answer = brought(await visit(start))

    async def answer(self) -> AuthorizationCodeResult:
        if "error" in self._answer:
            raise OAuthFlowError(f"{self._answer['error']}: {self._answer.get('error_description')}")
        return AuthorizationCodeResult.model_validate(self._answer)


class _PythonClient:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def grammar(self) -> str:
        with _telling():
            return _grammar((await self._client.list_tools()).model_dump(by_alias=True))

    async def call(self, program: str) -> dict[str, Any]:
        with _telling():
            result = await self._client.call_tool(TOOL_NAME, {"program": program})
        return _report(result.model_dump(by_alias=True))

    async def revision(self) -> str:
        return str(self._client.protocol_version)


@asynccontextmanager
async def _python(url: str, era: Era, known: Known) -> AsyncIterator[Connected]:
    metadata = OAuthClientMetadata(
        client_name="a Python client",
        redirect_uris=[AnyUrl(REDIRECT)],
        token_endpoint_auth_method="none",  # noqa: S106  # not a password
        grant_types=["authorization_code", "refresh_token"],
    )
    person = _Person()
    auth = OAuthClientProvider(
        url,
        metadata,
        _Storage(OAuthClientInformationFull.model_validate(known.by_hand) if known.by_hand else None),
        person.open,
        person.answer,
        client_metadata_url=known.document,
    )
    try:
        async with (
            httpx2.AsyncClient(auth=auth, timeout=_SECONDS) as http,
            Client(streamable_http_client(url, http_client=http), mode=era) as client,
        ):
            yield _PythonClient(client)
    except* (OAuthFlowError, OAuthTokenError) as failed:  # in the older era it ends the connection
        raise Failed(", ".join(str(error) for error in failed.exceptions)) from None


class _telling:  # noqa: N801  # used as a function is
    """Turns what the Python SDK raises into ``Failed``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MCPError | OAuthFlowError | OAuthTokenError | httpx2.HTTPError):
            raise Failed(str(error)) from error


class _NodeClient:
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to = process.stdin
        self._from = BufferedByteReceiveStream(process.stdout)

    async def ask(self, what: dict[str, Any]) -> dict[str, Any]:
        await self._to.send(json.dumps(what).encode() + b"\n")
        told: dict[str, Any] = json.loads(await self._from.receive_until(b"\n", _MOST_LINE))
        if "error" in told:
            raise Failed(f"{told['kind']}: {told['error']}")
        return told

    async def grammar(self) -> str:
        return _grammar(await self.ask({"do": "list"}))

    async def call(self, program: str) -> dict[str, Any]:
        return _report(await self.ask({"do": "call", "program": program}))

    async def revision(self) -> str:
        return str((await self.ask({"do": "revision"}))["revision"])


@asynccontextmanager
async def _node(app: Application, url: str, environment: Environment, known: Known) -> AsyncIterator[Connected]:
    script = PLACE / "oauth" / f"client_{app.sdk[-1]}.mjs"
    job = {
        "url": url,
        "era": app.era,
        "client": known.by_hand,
        "metadata_url": known.document,
        "refreshes": known.refreshes,
        "dpop": known.dpop,
    }
    process = await anyio.open_process(["node", str(script)], env=environment, stderr=None)
    try:
        client = _NodeClient(process)
        await client.ask(job)
        yield client
    finally:
        with anyio.CancelScope(shield=True):
            process.kill()
            await process.aclose()


def _grammar(listing: dict[str, Any]) -> str:
    [tool] = listing["tools"]
    definition: str = tool["_meta"][GRAMMAR_KEY]["definition"]
    return definition


def _report(result: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = result["structuredContent"]
    return report
