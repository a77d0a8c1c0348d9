"""What the stories here share: the applications that they are told of, and how each has to be known to the provider."""

from typing import Any

import pytest

from guideway.dsl.scopes import Scope
from tests.interop.oauth.clients import APPLICATIONS, Application, Connected, Known

READ, BOTH = frozenset({Scope.READ.value}), frozenset({Scope.READ.value, Scope.WRITE.value})

applications = pytest.mark.parametrize("application", APPLICATIONS, ids=str)


def known_to(application: Application, **ways: Any) -> Known:
    """Return how an application is known to the provider, such that it can step up.

    Version 1 of the TypeScript SDK answers a challenge with its refresh token where it has one, which brings the same
    scopes again; so an application that is built with it has to do without.
    """
    return Known(refreshes=application.sdk != "typescript-1", **ways)


async def is_running(client: Connected, service: str) -> bool:
    """Ask, which needs no more than the scope for reading, whether a service runs."""
    report = await client.call(f'GET_STATUS "{service}"')
    [step] = report["steps"]
    return "running" in str(step)
