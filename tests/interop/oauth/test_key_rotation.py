"""The provider changes its keys while clients of every kind are connected and call."""

from contextlib import AsyncExitStack

import pytest

from tests.interop.oauth.clients import APPLICATIONS, Application, Connected
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import Provider
from tests.interop.oauth.processes import Environment
from tests.interop.oauth.stories import BOTH, READ, known_to

CALLS = 5


async def all_call(clients: list[Connected]) -> None:
    """Let each client call, in turn, several times."""
    for _ in range(CALLS):
        for client in clients:
            assert (await client.call('PING "api.internal"'))["status"] == "completed"


@pytest.mark.anyio
async def test_no_call_is_lost_when_the_provider_changes_its_keys(
    guideway: Guideway, provider: Provider, node: Environment
) -> None:
    async with AsyncExitStack() as stack:

        async def connect(application: Application) -> Connected:
            known = known_to(application)
            return await stack.enter_async_context(application.connected(guideway.url, node, known))

        clients = [await connect(application) for application in APPLICATIONS]
        await all_call(clients)
        before = provider.published_keys()

        provider.keys("rotate")
        assert set(provider.published_keys()) > set(before)
        await all_call(clients)  # with tokens of the old keys
        newcomer = await connect(APPLICATIONS[0])  # with one of the new
        await all_call([newcomer, *clients])
        for client in clients:  # and now they get such tokens too
            assert (await client.call(f'RESTART "{guideway.stopped_service()}"'))["status"] == "completed"
        assert provider.asked.scopes == [READ] + [BOTH] * len(clients)

        provider.keys("withdraw")
        assert not set(provider.published_keys()) & set(before)
        await all_call([newcomer, *clients])
        await all_call([await connect(application) for application in APPLICATIONS])
        assert provider.asked.scopes == [READ] * len(APPLICATIONS)
