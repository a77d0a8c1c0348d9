"""People sign in to the approval page at an OpenID provider of other people's: npm `oidc-provider`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx2
import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import TicketState
from guideway.server.app import serve_http
from guideway.server.oauth.access import Access, PageClient
from guideway.server.oauth.caller import caller
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection
from guideway.server.tool import build_server
from tests.interop.oauth.oidc_provider import PAGE, Provider
from tests.server.approvals.site import Person, Site
from tests.server.approvals.world import ASKER, World

pytestmark = pytest.mark.anyio
MOST_STEPS = 20


@asynccontextmanager
async def serving(world: World, provider: Provider, secret: str = PAGE["client_secret"]) -> AsyncIterator[Site]:
    """Serve a world whose people sign in at the provider."""

    @asynccontextmanager
    async def access(resource: str) -> AsyncIterator[Access]:
        trusted = IssuerSection(issuer=provider.issuer)
        async with TrustedIssuers({"provider": trusted}, resource=resource, tenants={}) as verifier:
            yield Access(verifier, resource, (trusted,), PageClient(trusted, PAGE["client_id"], secret))

    server = build_server(world.pipeline, caller)
    async with anyio.create_task_group() as tasks:

        async def run(*, task_status: anyio.abc.TaskStatus[str]) -> None:
            await serve_http(server, access=access, signals=False, grace=0, task_status=task_status)

        url = await tasks.start(run)
        try:
            yield Site(url.replace("/mcp", "/approvals"), provider.issuer, world)
        finally:
            tasks.cancel_scope.cancel()


async def sign_in(person: Person, ticket: str = "") -> httpx2.Response:
    """Go through the provider's pages, which agree by themselves, and return the page that comes of it."""
    url = await person.begin(ticket)
    for _ in range(MOST_STEPS):
        answer = await person.http.get(url)
        if "location" not in answer.headers:
            return answer
        url = urljoin(url, answer.headers["location"])
    raise AssertionError(f"no way back in {MOST_STEPS} steps")


async def test_a_person_of_the_provider_approves(provider: Provider) -> None:
    world = World()
    ticket = await world.ask(replace(ASKER, issuer=provider.issuer))
    async with serving(world, provider) as site, Person(site) as alice:
        page = await sign_in(alice, ticket.id)
        assert str(page.url) == f"{site.url}/{ticket.id}"
        assert "alice</span>" in page.text
        assert "<b>alice</b> approved this" in (await alice.decide(ticket.id, "approve")).text
    [asked] = provider.asked.authorization
    assert asked["scope"] == f"openid {Scope.APPROVE}"
    assert asked["code_challenge_method"] == "S256"
    decided_by = world.records.kept[ticket.id].decided_by
    assert decided_by is not None
    assert (decided_by.subject, decided_by.issuer, decided_by.client) == ("alice", provider.issuer, PAGE["client_id"])


async def test_who_asked_there_does_not_approve_here(provider: Provider) -> None:
    world = World()
    ticket = await world.ask(replace(ASKER, subject="alice", issuer=provider.issuer))
    async with serving(world, provider) as site, Person(site) as alice:
        assert "You asked for this yourself" in (await sign_in(alice, ticket.id)).text
    assert world.records.kept[ticket.id].state is TicketState.PENDING


@pytest.mark.parametrize(
    ("settings", "secret", "said"),
    [
        ({"consents": ["openid"]}, PAGE["client_secret"], "not signed in"),
        ({}, "another", "gave nothing for its answer"),
    ],
    ids=["without the scope", "with a wrong secret"],
)
async def test_a_sign_in_that_fails_ends_on_a_page(
    provider: Provider, settings: dict[str, Any], secret: str, said: str
) -> None:
    provider.set(**settings)
    world = World()
    async with serving(world, provider, secret) as site, Person(site) as alice:
        page = await sign_in(alice)
        assert page.status_code == 403
        assert said in page.text
    assert not world.records.sessions.kept
