"""The server that is attacked, and the watch over all that is written meanwhile."""

from collections.abc import Iterator

import pytest

from tests.attacks.oauth import forge, wire
from tests.attacks.oauth.stage import Stage, staged
from tests.attacks.oauth.watch import leaks, listening


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Return a server that trusts two issuers."""
    with staged() as stage:
        yield stage


@pytest.fixture(autouse=True)
def heard(request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Hold, for every attack, that no token, key or secret stands in a log, an answer, or what the server prints.

    Return what is logged.
    """
    if "stage" in request.fixturenames:
        request.getfixturevalue("stage")  # what is made once and for all is no part of this attack
    forge.SECRETS.clear()
    answered = len(wire.ANSWERED)
    with listening() as logged:
        yield logged
    answers = [each.decode("latin-1") for each in wire.ANSWERED[answered:]]
    assert not leaks("\n".join([*logged, *capfd.readouterr(), *answers]), forge.SECRETS | forge.KEYS)
