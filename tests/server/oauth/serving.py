"""A world behind tokens: served to whoever shows one of an issuer, bound to a key or not."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

from guideway.server.app import serve_http
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import Network
from guideway.server.tool import build_server
from tests.attacks.oauth.forge import Key, ec_key, proof
from tests.server.oauth.issuer import Issuer
from tests.server.world import World

KEY = ec_key("requests")


@asynccontextmanager
async def serving(
    world: World,
    issuer: Issuer,
    url: str | None = None,
    *,
    host: str = "127.0.0.1",
    proxies: Iterable[Network] = (),
    **section: Any,
) -> AsyncIterator[str]:
    """Serve to whoever shows a token of the issuer; give the URL that is listened on. ``section`` is the issuer's."""
    section = {"audience": "guideway", **section}
    settings: dict[str, Any] = {"signals": False, "grace": 0, "host": host, "url": url, "proxies": proxies}

    @asynccontextmanager
    async def access(resource: str) -> AsyncIterator[Access]:
        trusted = issuer.section(**section)
        async with TrustedIssuers({"corp": trusted}, resource=resource, tenants={}) as verifier:
            yield Access(verifier, resource, (trusted,))

    server = build_server(world.pipeline, caller)
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(server, access=access, task_status=task_status, **settings)

        try:
            yield await tasks.start(serve)
        finally:
            tasks.cancel_scope.cancel()


def bound(issuer: Issuer, key: Key = KEY) -> str:
    return token(issuer, cnf={"jkt": key.thumbprint()})


def token(issuer: Issuer, **claims: Any) -> str:
    return issuer.token(aud="guideway", scope="mcp:diag:read mcp:diag:write", **claims)


class Proving(httpx2.Auth):
    """What a client does that has a bound token: it signs a proof for each request, for the URL that it asks."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        request.headers["Authorization"] = f"DPoP {self._token}"
        request.headers["DPoP"] = proof(KEY, token=self._token, method=request.method, url=str(request.url))
        yield request
