"""Opaque tokens of a provider that has to be asked about each: `django-oauth-toolkit`, and introspection (RFC 7662)."""

import anyio
import httpx2
import pytest

from guideway.dsl.scopes import Scope
from tests.interop.oauth.browser import sign_in
from tests.interop.oauth.clients import Application
from tests.interop.oauth.django_provider import PEOPLE_USE, Site
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.processes import Environment
from tests.interop.oauth.stories import applications, is_running, known_to


async def show(guideway: Guideway, token: str) -> httpx2.Response:
    """Ask for the caller's grammar with a token."""
    async with httpx2.AsyncClient() as http:
        return await http.get(guideway.grammar_url, headers={"Authorization": f"Bearer {token}"})


async def token_for(site: Site, guideway: Guideway, *scopes: Scope) -> str:
    """Return a token for the server."""
    return await sign_in(site.issuer, PEOPLE_USE, guideway.url, *(scopes or (Scope.READ,)))


@pytest.mark.anyio
@applications
async def test_a_reader_with_opaque_tokens_steps_up_and_repairs(
    asking_guideway: Guideway, site: Site, node: Environment, application: Application
) -> None:
    service = asking_guideway.stopped_service()
    known = known_to(application, by_hand=site.client)
    async with application.connected(asking_guideway.url, node, known) as client:
        assert "RESTART" not in await client.grammar()
        assert (await client.call(f'RESTART "{service}"'))["status"] == "completed"
        assert "RESTART" in await client.grammar()
        assert await is_running(client, service)


@pytest.mark.anyio
async def test_a_token_for_another_resource_is_refused(asking_guideway: Guideway, site: Site) -> None:
    token = await sign_in(site.issuer, PEOPLE_USE, "http://127.0.0.1:1/mcp", Scope.READ)
    assert (await show(asking_guideway, token)).status_code == 401


@pytest.mark.anyio
async def test_a_revoked_token_is_refused_once_the_last_answer_is_old(asking_guideway: Guideway, site: Site) -> None:
    token = await token_for(site, asking_guideway)
    assert (await show(asking_guideway, token)).status_code == 200
    site.revoke(token)
    with anyio.fail_after(20):
        while (answer := await show(asking_guideway, token)).status_code == 200:
            await anyio.sleep(0.1)
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.anyio
async def test_while_the_provider_is_down_known_tokens_go_on_and_others_are_told_to_wait(
    asking_guideway: Guideway, site: Site
) -> None:
    known = await token_for(site, asking_guideway)
    unseen = await token_for(site, asking_guideway)
    assert (await show(asking_guideway, known)).status_code == 200
    site.stop()
    await anyio.sleep(1.1)  # until the answer about the known one is old
    told = await show(asking_guideway, unseen)
    assert told.status_code == 503
    assert int(told.headers["retry-after"]) > 0
    assert (await show(asking_guideway, known)).status_code == 200
    site.start()
    with anyio.fail_after(30):
        while (await show(asking_guideway, unseen)).status_code == 503:
            await anyio.sleep(0.2)
    assert (await show(asking_guideway, unseen)).status_code == 200
    assert (await show(asking_guideway, known)).status_code == 200
