"""The world of approvals behind the door: HTTP on this machine, with tokens that a test makes up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

from guideway.dsl.scopes import Scope
from guideway.server.app import serve_http
from guideway.server.oauth.access import Access
from guideway.server.oauth.caller import caller
from guideway.server.tool import build_server
from tests.server.approvals.world import World
from tests.server.oauth.door import ISSUER, NO_AUTHORITIES, Tokens


@asynccontextmanager
async def serving(world: World, tokens: Tokens | None, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve a world on a free port to whoever shows one of the tokens, and give a client of it."""

    @asynccontextmanager
    async def access(resource: str) -> AsyncIterator[Access]:
        assert tokens is not None
        yield Access(tokens, resource, (ISSUER,))

    server = build_server(world.pipeline, caller)
    way_in = access if tokens is not None else None
    async with anyio.create_task_group() as tasks:

        async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(server, access=way_in, signals=False, grace=0, task_status=task_status, **settings)

        url = await tasks.start(serve)
        try:
            async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), verify=NO_AUTHORITIES) as http:
                yield http
        finally:
            tasks.cancel_scope.cancel()


def approvers() -> Tokens:
    """Return the tokens `ada`, who may approve, `red`, who may in another tenant, and `mona`, who may ask."""
    tokens = Tokens()
    tokens.add("ada", {Scope.APPROVE}, subject="ada")
    tokens.add("red", {Scope.APPROVE}, subject="rita", tenant="red")
    tokens.add("mona", {Scope.READ, Scope.WRITE}, subject="mona")
    return tokens
