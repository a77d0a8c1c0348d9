"""One issuer a test, with a client that has registered."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.server.development_issuer.browser import TLS
from tests.server.development_issuer.world import Client, running


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[str]:
    """Run an issuer, and give its URL."""
    async with running(tmp_path / "issuer") as url:
        yield url


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """Give an HTTP client that follows no redirect."""
    async with httpx2.AsyncClient(verify=TLS, follow_redirects=False, trust_env=False) as client:
        yield client


@pytest.fixture
async def client(issuer: str, http: httpx2.AsyncClient) -> Client:
    """Give a client that has registered."""
    registered = Client(issuer, http)
    answer = await registered.register(client_name="Test client")
    assert answer.status_code == 201, answer.text
    return registered
