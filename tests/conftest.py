"""What every test shares, and which tests may run beside each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

#: Those that share what is slow to start, by how their paths begin, with the name of the group. The first that fits
#: counts, and groups are begun in this order: the longest first, so that none is left over at the end.
TOGETHER = {
    "system/test_container": "containers",
    "system/test_ssh_container": "containers",
    "system/test_contract": "containers",
    "engines/": "engines",
    "system/kubernetes/": "kubernetes",
    "system/": "system",
    "interop/": "interop",
    "store/": "store",
    "server/sign_in/": "sign_in",
    "attacks/oauth/": "attacks",
    "server/oauth/": "oauth",
    "server/development_issuer/": "development_issuer",
    "grammar/": "grammar",
}
#: Files whose tests share nothing and take long: each is a group of its own.
APART = ("scripts/test_sessions.py", "scripts/test_docs.py")


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
    order = {group: number for number, group in enumerate(dict.fromkeys(TOGETHER.values()))}
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: order.get(groups[item], len(order)))


def _group(item: pytest.Item) -> str:
    place = item.path.relative_to(ROOT).as_posix()
    if place in APART:
        return f"{place} {item.name}"
    return next((group for start, group in TOGETHER.items() if place.startswith(start)), place)
