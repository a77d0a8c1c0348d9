"""What a client may ask for is settled where it becomes known to the provider, before it is known what it will need.

Both SDKs register themselves for the scope of their first challenge, which is the one for reading. A provider that
holds a client to what it registered for then refuses every step-up. There are four ways out: the provider registers
clients for more than they name (so it is set up for test_step_up.py), an operator enters the client, or the client has
a metadata document; and a client can register for all that it may come to need, as the shell does (test_shell.py).
"""

import pytest

from tests.interop.oauth.clients import Application, Failed, Known
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import BY_HAND, Provider
from tests.interop.oauth.processes import Environment
from tests.interop.oauth.stories import BOTH, READ, applications, known_to


async def restarts(application: Application, guideway: Guideway, node: Environment, known: Known) -> None:
    """Let an application look at the tool and restart a service. Raises ``Failed``."""
    async with application.connected(guideway.url, node, known) as client:
        await client.grammar()
        report = await client.call(f'RESTART "{guideway.stopped_service()}"')
    assert report["status"] == "completed"


@pytest.mark.anyio
@applications
async def test_a_client_held_to_what_it_registered_for_is_told_so_and_asks_once(
    guideway: Guideway, provider: Provider, node: Environment, application: Application
) -> None:
    provider.set(registers="scopes-it-named")
    known = known_to(application)
    with pytest.raises(Failed, match="invalid_scope"):
        await restarts(application, guideway, node, known)
    assert provider.asked.scopes == [READ, BOTH]
    assert provider.asked.registrations == 1


@pytest.mark.anyio
@applications
async def test_a_client_that_an_operator_has_entered_steps_up(
    guideway: Guideway, provider: Provider, node: Environment, application: Application
) -> None:
    provider.set(registers="scopes-it-named")
    entered = BY_HAND | {"issuer": provider.issuer}
    await restarts(application, guideway, node, known_to(application, by_hand=entered))
    assert provider.asked.scopes == [READ, BOTH]
    assert provider.asked.registrations == 0


@pytest.mark.anyio
@applications
async def test_a_client_with_a_metadata_document_steps_up(
    guideway: Guideway, provider: Provider, node: Environment, application: Application, document: str
) -> None:
    provider.set(registers="scopes-it-named")
    await restarts(application, guideway, node, known_to(application, document=document))
    assert provider.asked.scopes == [READ, BOTH]
    assert provider.asked.registrations == 0
