"""The issuers that the tests of this folder trust."""

from collections.abc import Iterator

import pytest

from tests.server.oauth.issuer import CLIENT_SECRET, Issuer


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the secret where ``Issuer.opaque_section`` says that it is."""
    monkeypatch.setenv("GUIDEWAY_TEST_SECRET", CLIENT_SECRET)


@pytest.fixture(scope="session")
def steady() -> Iterator[Issuer]:
    """Return an issuer that no test may change."""
    with Issuer(path="/steady") as issuer:
        yield issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Return an issuer of the test's own."""
    with Issuer() as issuer:
        yield issuer
