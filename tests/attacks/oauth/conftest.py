"""The server that is attacked, and the watch over all that is written meanwhile."""

import logging
from collections.abc import Iterator

import pytest

from tests.attacks.oauth import forge, wire
from tests.attacks.oauth.stage import Stage, staged
from tests.attacks.oauth.watch import leaks


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Return a server that trusts two issuers."""
    with staged() as stage:
        yield stage


@pytest.fixture(autouse=True)
def nothing_is_told(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Hold, for every attack, that no token, key or secret stands in a log, an answer, or what the server prints."""
    if "stage" in request.fixturenames:
        request.getfixturevalue("stage")  # what is made once and for all is no part of this attack
    forge.SECRETS.clear()
    answered = len(wire.ANSWERED)
    caplog.set_level(logging.DEBUG)
    yield
    printed, complained = capfd.readouterr()
    written = "\n".join(
        [caplog.text, printed, complained, *(each.decode("latin-1") for each in wire.ANSWERED[answered:])]
    )
    assert not leaks(written, forge.SECRETS | forge.KEYS)
