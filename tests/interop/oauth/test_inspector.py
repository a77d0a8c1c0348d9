"""The MCP Inspector with a token in a header, as people look at a server whose tokens they got by other means."""

from typing import Any

import pytest

from guideway.dsl.scopes import Scope
from guideway.server.describe import GRAMMAR_KEY
from tests.interop.conftest import Run
from tests.interop.oauth.browser import sign_in
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import BY_HAND, Provider
from tests.interop.test_inspector import calling, eras, listing, over_http, result

NOT_DONE = 1  # the inspector's exit code where there is no result at all


def with_token(token: str) -> list[str]:
    """Return how the inspector is told to show a token."""
    return ["--header", f"Authorization: Bearer {token}"]


async def token_for(provider: Provider, guideway: Guideway, *scopes: Scope) -> str:
    """Return a token with scopes for the server."""
    return await sign_in(provider.issuer, BY_HAND["client_id"], guideway.url, *scopes)


def grammar(listed: dict[str, Any]) -> str:
    """Return the grammar of the one tool in a listing."""
    [tool] = listed["tools"]
    definition: str = tool["_meta"][GRAMMAR_KEY]["definition"]
    return definition


@eras
@pytest.mark.anyio
@pytest.mark.parametrize("scopes", [(Scope.READ,), (Scope.READ, Scope.WRITE)], ids=["reader", "writer"])
async def test_the_tool_is_listed_as_its_caller_may_use_it(
    run: Run, guideway: Guideway, provider: Provider, era: str, scopes: tuple[Scope, ...]
) -> None:
    token = await token_for(provider, guideway, *scopes)
    ended = run(*listing(era), *over_http(guideway.url), *with_token(token))
    assert ended.returncode == 0, ended.stderr
    assert ("RESTART" in grammar(result(ended.stdout))) == (Scope.WRITE in scopes)


@eras
@pytest.mark.anyio
async def test_a_program_is_run_or_the_missing_scope_is_told(
    run: Run, guideway: Guideway, provider: Provider, era: str
) -> None:
    program = f'RESTART "{guideway.stopped_service()}"'
    reader = await token_for(provider, guideway, Scope.READ)
    ended = run(*calling(era, program), *over_http(guideway.url), *with_token(reader))
    assert ended.returncode == NOT_DONE
    assert 'Insufficient scope: required \\"mcp:diag:read mcp:diag:write\\"' in ended.stderr
    writer = await token_for(provider, guideway, Scope.READ, Scope.WRITE)
    ended = run(*calling(era, program), *over_http(guideway.url), *with_token(writer))
    assert (result(ended.stdout)["structuredContent"]["status"], ended.returncode) == ("completed", 0), ended.stderr
