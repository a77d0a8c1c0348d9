"""One server with its issuer for the tests of this folder, and a shell for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.server.sign_in.world import Place, Shell, serving


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run a server and its issuer, which no test may change."""
    folder = tmp_path_factory.mktemp("place")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(folder)) as made:
        yield made


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a shell of somebody who is signed in nowhere, and whose browser has them agree to all."""
    shell = Shell(tmp_path / "home")
    shell.has_browser()
    return shell
