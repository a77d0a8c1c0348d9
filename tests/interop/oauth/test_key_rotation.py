"""The provider changes its keys while clients of every kind are connected and call."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from anyio.to_thread import run_sync

from tests.interop.oauth.clients import APPLICATIONS, Application, Connected
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import Provider
from tests.interop.oauth.processes import Environment
from tests.interop.oauth.stories import BOTH, READ, known_to


@asynccontextmanager
async def all_calling(clients: list[Connected]) -> AsyncIterator[None]:
    """Let all clients call without a pause, before, while and after what is done meanwhile; no call may fail."""
    begun, over = anyio.Semaphore(0), anyio.Event()

    async def calling(client: Connected) -> None:
        last = False
        while not last:
            last = over.is_set()
            assert (await client.call('PING "api.internal"'))["status"] == "completed"
            begun.release()

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(calling, client)
        for _ in clients:
            await begun.acquire()
        yield
        over.set()


@pytest.mark.anyio
async def test_no_call_is_lost_when_the_provider_changes_its_keys(
    guideway: Guideway, provider: Provider, node: Environment
) -> None:
    async with AsyncExitStack() as stack:

        async def connect(application: Application) -> Connected:
            return await stack.enter_async_context(application.connected(guideway.url, node, known_to(application)))

        async def step_up(client: Connected) -> None:
            assert (await client.call(f'RESTART "{guideway.stopped_service()}"'))["status"] == "completed"

        clients = [await connect(application) for application in APPLICATIONS]
        before = provider.published_keys()
        async with all_calling(clients):  # with tokens of the old keys
            await run_sync(provider.keys, "rotate")
        assert set(provider.published_keys()) > set(before)

        async with anyio.create_task_group() as tasks:  # which brings tokens of the new keys, all at once
            for client in clients:
                tasks.start_soon(step_up, client)
        # Each steps up once. On a busy machine one was seen to sign in again first, which loses no call either.
        assert [scopes for scopes in provider.asked.scopes if scopes != READ] == [BOTH] * len(clients)

        async with all_calling(clients):
            await run_sync(provider.keys, "withdraw")
        assert not set(provider.published_keys()) & set(before)
        async with all_calling([*clients, await connect(APPLICATIONS[0])]):
            pass
        assert provider.asked.scopes == [READ]
