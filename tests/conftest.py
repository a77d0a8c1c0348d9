"""What every test shares."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio: it is what the servers and drivers run on."""
    return "asyncio"
