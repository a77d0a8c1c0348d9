"""A reader lists and looks, is challenged for a restart, is granted the one scope more, and goes on: each client by
itself, or as its API wants it, against a certified provider.
"""

from contextlib import AsyncExitStack

import anyio
import pytest

from tests.interop.oauth.clients import APPLICATIONS, Application, Failed, Known
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import Provider
from tests.interop.oauth.processes import Environment
from tests.interop.oauth.stories import BOTH, READ, applications, is_running, known_to


@pytest.mark.anyio
@applications
async def test_a_reader_steps_up_and_repairs(
    guideway: Guideway, provider: Provider, node: Environment, application: Application
) -> None:
    provider.set(algorithm="ES256")  # the other stories are told with RS256
    service = guideway.stopped_service()
    async with application.connected(guideway.url, node, known_to(application)) as client:
        assert "RESTART" not in await client.grammar()
        assert not await is_running(client, service)
        assert provider.asked.scopes == [READ]
        report = await client.call(f'RESTART "{service}"')
        assert report["status"] == "completed"
        assert provider.asked.scopes == [READ, BOTH]
        assert "RESTART" in await client.grammar()
        assert await is_running(client, service)
        assert await client.revision() == {"legacy": "2025-11-25"}.get(application.era, application.era)
    assert {asked["resource"] for asked in provider.asked.authorization} == {guideway.url}
    assert {asked["code_challenge_method"] for asked in provider.asked.authorization} == {"S256"}
    assert provider.asked.registrations == 1


@pytest.mark.anyio
@applications
async def test_a_step_up_that_is_granted_less_ends_with_an_error_and_without_a_loop(
    guideway: Guideway, provider: Provider, node: Environment, application: Application
) -> None:
    provider.set(consents=[*READ, "offline_access"])
    service = guideway.stopped_service()
    async with application.connected(guideway.url, node, known_to(application)) as client:
        await client.grammar()
        with pytest.raises(Failed):
            await client.call(f'RESTART "{service}"')
        first, *more = provider.asked.scopes
        assert first == READ
        assert more in ([BOTH], [BOTH, BOTH])  # an application that tries again makes its SDK ask again, once
        assert "RESTART" not in await client.grammar()
        assert not await is_running(client, service)
        assert len(provider.asked.scopes) == 1 + len(more)


@pytest.mark.anyio
async def test_version_1_with_a_refresh_token_is_told_that_it_has_no_more_and_asks_nobody(
    guideway: Guideway, provider: Provider, node: Environment
) -> None:
    """It answers the challenge by refreshing, which cannot widen anything (RFC 6749, section 6)."""
    service = guideway.stopped_service()
    async with Application("typescript-1", "legacy").connected(guideway.url, node) as client:
        with pytest.raises(Failed, match="403 after trying upscoping"):
            await client.call(f'RESTART "{service}"')
        assert provider.asked.scopes == [READ]
        assert not await is_running(client, service)


@pytest.mark.anyio
async def test_a_python_client_that_is_challenged_twice_for_one_request_tries_again_at_its_next(
    guideway: Guideway, provider: Provider, node: Environment
) -> None:
    """Its first request of all is a call, so it is asked for a token, and then for more than that token allows. Its SDK
    signs in once a request. In the older era, and where it looks at the tool first, it has a token by then.
    """
    program = f'RESTART "{guideway.stopped_service()}"'
    async with Application("python", "2026-07-28").connected(guideway.url, node) as client:
        with pytest.raises(Failed):
            await client.call(program)
        assert provider.asked.scopes == [READ]
        assert (await client.call(program))["status"] == "completed"
    assert provider.asked.scopes == [READ, BOTH]


@pytest.mark.anyio
async def test_clients_whose_tokens_run_out_go_on_with_others_and_nobody_is_asked(
    guideway: Guideway, provider: Provider, node: Environment
) -> None:
    provider.set(seconds=1)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(application.connected(guideway.url, node)) for application in APPLICATIONS
        ]
        for client in clients:
            await client.grammar()  # and has signed in by now
        for client in [*clients, clients[0]]:  # the first one again, with a refresh token that came of one
            provider.set(seconds=1)
            with anyio.fail_after(20):
                while not provider.asked.tokens:
                    assert (await client.call('PING "api.internal"'))["status"] == "completed"
                    await anyio.sleep(0.1)
            assert provider.asked.scopes == []


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_that_binds_its_tokens_to_a_key_steps_up_too(
    guideway: Guideway, provider: Provider, node: Environment, era: str
) -> None:
    """DPoP (RFC 9449): the provider binds the token, and each request brings a proof of its own."""
    service = guideway.stopped_service()
    application = Application("typescript-2", "legacy" if era == "legacy" else "2026-07-28")
    async with application.connected(guideway.url, node, Known(dpop=True)) as client:
        assert "RESTART" not in await client.grammar()
        assert (await client.call(f'RESTART "{service}"'))["status"] == "completed"
        assert await is_running(client, service)
    assert provider.asked.scopes == [READ, BOTH]
    assert provider.asked.bound_tokens == provider.asked.tokens
