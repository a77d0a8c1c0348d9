"""A server and an issuer in one, on loopback, that do what a test tells them: the wrong things, mostly.

It stands for a server that was taken over, an issuer that is broken, and what comes between them.
"""

import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import uvicorn
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.redirect import Answer, Redirect
from tests.server.sign_in.world import READ, WRITE, free_port


class Liar:
    """What it says is in its attributes; ``counts`` is how often each of its addresses was asked."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/mcp"
        self.counts: Counter[str] = Counter()
        self.bodies: list[str] = []
        self.granted = f"{READ} {WRITE}"
        self.resource: dict[str, Any] = {
            "resource": self.url,
            "authorization_servers": [self.origin],
            "scopes_supported": [READ, WRITE],
        }
        self.metadata: dict[str, Any] = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "authorization_response_iss_parameter_supported": True,
        }
        self.answer: dict[str, str | None] = {}
        """What the redirect has otherwise than it should; None leaves it out."""
        self.endpoint: Response | None = None
        """What the endpoint answers, token or not; None: 401 without a token, else 200."""
        self.token: Response | None = None
        """What the token endpoint answers."""

    @property
    def app(self) -> Starlette:
        """Its application."""
        return Starlette(
            routes=[
                Route("/mcp", self._mcp, methods=["GET", "POST"]),
                Route("/.well-known/oauth-protected-resource/mcp", self._resource),
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def challenge(self, status: int, **fields: str) -> Response:
        """Return a challenge."""
        fields = {"resource_metadata": f"{self.origin}/.well-known/oauth-protected-resource/mcp", **fields}
        header = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in fields.items())
        return Response("", status, {"WWW-Authenticate": header})

    async def _mcp(self, request: Request) -> Response:
        self.counts["mcp"] += 1
        if self.endpoint is not None:
            return self.endpoint
        return Response("", 200) if "authorization" in request.headers else self.challenge(401, scope=READ)

    async def _resource(self, _: Request) -> Response:
        return JSONResponse(self.resource)

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(self.metadata)

    async def _register(self, request: Request) -> Response:
        self.counts["register"] += 1
        return JSONResponse({**json.loads(await request.body()), "client_id": "a-client"}, 201)

    async def _authorize(self, request: Request) -> Response:
        self.counts["authorize"] += 1
        asked = request.query_params
        said = {"code": secrets.token_urlsafe(), "state": asked["state"], "iss": self.origin, **self.answer}
        sent = urlencode({name: value for name, value in said.items() if value is not None})
        return RedirectResponse(f"{asked['redirect_uri']}?{sent}", 303)

    async def _token(self, request: Request) -> Response:
        self.counts["token"] += 1
        self.bodies.append((await request.body()).decode())
        if self.token is not None:
            return self.token
        tokens = {"access_token": secrets.token_urlsafe(), "token_type": "Bearer", "expires_in": 600}
        return JSONResponse({**tokens, "scope": self.granted})


@asynccontextmanager
async def lying() -> AsyncIterator[Liar]:
    """Run a liar."""
    port = free_port()
    liar = Liar(port)
    server = uvicorn.Server(
        uvicorn.Config(liar.app, port=port, log_config=None, access_log=False, lifespan="off", ws="none")
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server._serve)  # `serve` would take the signals
        while not server.started:
            await anyio.sleep(0.01)
        yield liar
        server.should_exit = True


class Visitor(Person):
    """Somebody whose browser goes where it is sent, and on to where that sends it. ``pages`` are where it ended."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.told: list[str] = []
        self.pages: list[str] = []
        self._tasks = tasks
        super().__init__(self.told.append, opens=False, pastes=False)

    async def answer(self, redirect: Redirect, forgets: str | None = None) -> Answer:
        """Browse while the answer is waited for."""
        self._tasks.start_soon(self._browse, self.told[-1].strip())
        return await super().answer(redirect, forgets)

    async def _browse(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as http:
            self.pages.append((await http.get(url)).text)
