"""What every test shares, and which tests may run beside each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

#: Folders whose tests share what is slow to start or there only once on a machine: each folder's run in one process.
TOGETHER = (
    "system",
    "interop",
    "engines",
    "grammar",
    "store",
    "attacks/oauth",
    "server/oauth",
    "server/sign_in",
    "server/development_issuer",
)

#: Files whose tests share nothing and take long: each test runs for itself.
APART = ("scripts/test_sessions.py",)


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio: it is what the servers and drivers run on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what programs keep by default, such as locks and tickets, out of the state of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests into groups, of which several processes (``--numprocesses``) take one after the other."""
    for item in items:
        place = item.path.relative_to(ROOT).as_posix()
        folder = next((folder for folder in TOGETHER if place.startswith(f"{folder}/")), None)
        alone = f"{place} {item.name}" if place in APART else place
        item.add_marker(pytest.mark.xdist_group(folder or alone))
