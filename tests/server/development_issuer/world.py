"""An issuer that listens, and a client of it that is as simple as a client can be."""

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2

from guideway.dsl.scopes import Scope
from guideway.server.development_issuer.documents import ClientDocuments
from guideway.server.development_issuer.serving import serve
from guideway.server.sections import DevelopmentIssuerSection
from tests.server.development_issuer.browser import approve, parameters

RESOURCE = "http://127.0.0.1:8765/mcp"
REDIRECT = "http://127.0.0.1:3000/callback"
CODE = "ABCD-EFGH-JKLM-NPQR"
READ, WRITE = Scope.READ.value, Scope.WRITE.value
PEOPLE = {"alice": frozenset({Scope.READ, Scope.WRITE}), "bob": frozenset({Scope.READ})}


@asynccontextmanager
async def running(
    folder: Path,
    *,
    people: Mapping[str, frozenset[Scope]] = PEOPLE,
    documents: ClientDocuments | None = None,
    port: int = 0,
    resource: str = RESOURCE,
) -> AsyncIterator[str]:
    """Run an issuer whose sign-in code is ``CODE``, and give its URL."""
    section = DevelopmentIssuerSection(people=dict(people), port=port, state_folder=folder)
    async with anyio.create_task_group() as tasks:
        start = partial(serve, section, resource=resource, sign_in_code=CODE, documents=documents)
        yield await tasks.start(start)
        tasks.cancel_scope.cancel()


class Client:
    """A public client that has registered, or is about to."""

    def __init__(self, issuer: str, http: httpx2.AsyncClient) -> None:
        self.issuer = issuer
        self.http = http
        self.client_id = ""
        self.verifier = secrets.token_urlsafe(48)

    async def register(self, **metadata: Any) -> httpx2.Response:
        """Register, and take on the identifier that comes of it."""
        given = {"redirect_uris": [REDIRECT], "grant_types": ["authorization_code", "refresh_token"], **metadata}
        answer = await self.http.post(f"{self.issuer}/register", json=given)
        self.client_id = answer.json().get("client_id", "")
        return answer

    def url(self, **changed: str | None) -> str:
        """Return the address of an authorization request, with some parameters changed or left out."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        asked: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "scope": f"{READ} {WRITE}",
            "state": "a state",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            **changed,
        }
        return f"{self.issuer}/authorize?{urlencode({k: v for k, v in asked.items() if v is not None})}"

    async def code(self, person: str = "alice", **changed: str | None) -> str:
        """Return a code that a person has let the client have."""
        return parameters(await approve(self.url(**changed), CODE, person))["code"]

    async def redeem(self, code: str, **changed: str | None) -> httpx2.Response:
        """Exchange a code."""
        sent = {"code": code, "redirect_uri": REDIRECT, "code_verifier": self.verifier, "resource": RESOURCE}
        return await self.exchange("authorization_code", **{**sent, **changed})

    async def refresh(self, token: str, **changed: str | None) -> httpx2.Response:
        """Exchange a refresh token."""
        return await self.exchange("refresh_token", **{"refresh_token": token, **changed})

    async def exchange(self, grant_type: str, **sent: str | None) -> httpx2.Response:
        """Ask the token endpoint."""
        form = {"grant_type": grant_type, "client_id": self.client_id, **sent}
        return await self.http.post(f"{self.issuer}/token", data={k: v for k, v in form.items() if v is not None})

    async def tokens(self, person: str = "alice", **changed: str | None) -> dict[str, Any]:
        """Return the tokens of a whole flow."""
        answer = await self.redeem(await self.code(person, **changed))
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens


def opened(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT, unchecked."""
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header, claims
