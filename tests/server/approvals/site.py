"""The approval page with the development issuer, both over HTTP, and a person at a browser of it."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin

import anyio
import httpx2

from guideway.dsl.scopes import Scope
from guideway.server.app import serve_http
from guideway.server.approvals.paths import DEVELOPMENT_CLIENT
from guideway.server.development_issuer.serving import serve
from guideway.server.oauth.access import Access, PageClient
from guideway.server.oauth.caller import caller
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import DevelopmentIssuerSection, IssuerSection
from guideway.server.tool import build_server
from tests.server.approvals.world import World
from tests.server.development_issuer.browser import TLS, approve

CODE = "ABCD-EFGH-JKLM-NPQR"
PEOPLE = {
    "ada": frozenset({Scope.APPROVE}),
    "mona": frozenset({Scope.READ, Scope.WRITE, Scope.APPROVE}),
    "rudi": frozenset({Scope.READ}),
}


@dataclass(frozen=True)
class Site:
    """A server with its page. ``url`` is the page's, without a slash at its end."""

    url: str
    issuer: str
    world: World


@asynccontextmanager
async def serving(
    world: World,
    folder: Path,
    *,
    people: Mapping[str, frozenset[Scope]] = PEOPLE,
    section: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Site]:
    """Serve a world, whose people sign in at a development issuer beside it. ``section`` is of the trusted issuer."""
    told: list[str] = []
    issued = DevelopmentIssuerSection(people=dict(people), port=0, state_folder=folder)

    @asynccontextmanager
    async def access(resource: str) -> AsyncIterator[Access]:
        async with anyio.create_task_group() as tasks:
            issuer = await tasks.start(partial(serve, issued, resource=resource, sign_in_code=CODE))
            told.append(issuer)
            given: dict[str, Any] = {"issuer": issuer, "algorithms": frozenset({"ES256"}), "leeway_seconds": 0}
            trusted = IssuerSection(**given | dict(section or {}))
            async with TrustedIssuers({"development": trusted}, resource=resource, tenants={}) as verifier:
                yield Access(verifier, resource, (trusted,), PageClient(trusted, DEVELOPMENT_CLIENT))
            tasks.cancel_scope.cancel()

    server = build_server(world.pipeline, caller)
    async with anyio.create_task_group() as tasks:

        async def run(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(server, access=access, signals=False, grace=0, task_status=task_status, **settings)

        url = await tasks.start(run)
        try:
            yield Site(url.replace("/mcp", "/approvals"), told[0], world)
        finally:
            tasks.cancel_scope.cancel()


class Person:
    """Somebody at a browser that keeps cookies, follows redirects of the site, and has no scripts."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.http = httpx2.AsyncClient(verify=TLS, trust_env=False, follow_redirects=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def open(self, path: str = "") -> httpx2.Response:
        """Return a page of the site."""
        return await self.http.get(f"{self.site.url}{path}")

    async def begin(self, ticket: str = "") -> str:
        """Press on `Sign in`, and return where the browser is sent."""
        page = await self.open(f"/{ticket}" if ticket else "")
        [link] = re.findall(r'class="button" href="([^"]+)"', page.text)
        answer = await self.http.get(urljoin(str(page.url), unescape(link)))
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    async def sign_in(self, name: str, ticket: str = "") -> httpx2.Response:
        """Sign in, and return the page that comes of it."""
        back = await approve(await self.begin(ticket), CODE, name)
        answer = await self.http.get(back)
        return await self.follow(answer)

    async def follow(self, answer: httpx2.Response) -> httpx2.Response:
        """Return what an answer leads to, on this site only."""
        if answer.status_code != 303:
            return answer
        url = urljoin(str(answer.url), answer.headers["location"])
        assert url.startswith(self.site.url), url
        return await self.http.get(url)

    async def decide(self, ticket: str, decision: str, reason: str = "", **headers: str) -> httpx2.Response:
        """Fill in and post a form of a ticket's page, and return what comes of it."""
        page = await self.open(f"/{ticket}")
        return await self.follow(await self.post(f"/{ticket}/{decision}", stamp(page), headers, reason=reason))

    async def post(
        self, path: str, stamped: str | None, headers: Mapping[str, str] | None = None, **fields: str
    ) -> httpx2.Response:
        """Post a form as a browser does, or as the headers say."""
        origin = self.site.url.removesuffix("/approvals")
        sent = {"Origin": origin, "Sec-Fetch-Site": "same-origin"} | dict(headers or {})
        form = fields if stamped is None else {"stamp": stamped, **fields}
        return await self.http.post(
            f"{self.site.url}{path}", data=form, headers={name: value for name, value in sent.items() if value}
        )


def stamp(page: httpx2.Response) -> str:
    """Return what the forms of a page bring back."""
    found = set(re.findall(r'name="stamp" value="([^"]+)"', page.text))
    assert len(found) == 1, page.text
    return str(found.pop())
