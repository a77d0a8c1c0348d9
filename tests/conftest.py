"""What every test shares, and which tests may run beside each other."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

#: What each process of the tests takes as one: tests that share what is slow to start, by how their paths begin. The
#: longest come first, so that none is left to one process while the others have nothing to do.
TOGETHER = (
    ("system/test_container", "system/test_ssh_container", "system/test_contract"),
    ("engines/",),
    ("server/sign_in/",),
    ("system/test_systemd", "system/test_ssh_systemd"),
    ("interop/",),
    ("system/test_demo", "system/test_readme", "system/test_examples"),
    ("system/test_supervisord",),
    ("system/test_ssh",),
    ("server/oauth/",),
    ("crash/",),
    ("system/test_wheel",),
    ("server/development_issuer/",),
    ("grammar/",),
    ("store/",),
    ("system/test_replicas",),
    ("test_layers",),
    ("attacks/oauth/",),
)

#: Files whose tests share nothing and take long: each test runs for itself.
APART = ("scripts/test_sessions.py",)

_NAMED = 120  # characters of a value that stand in the name of a test


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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among the tests and what they import, neither now nor later.

    They are half a million objects, and stay: each look took a third of a second, and many tests look twice.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long value by its beginning: each process keeps the name of each test, and sends it with each report."""
    return f"{val[:_NAMED]!r} and more" if isinstance(val, str | bytes) and len(val) > _NAMED else None


@pytest.hookimpl(tryfirst=True)  # before those who hand tests out read the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests into groups, of which several processes (``--numprocesses``) take one after the other."""
    turns = []
    for item in items:
        place = item.path.relative_to(ROOT).as_posix()
        turn = next((number for number, paths in enumerate(TOGETHER) if place.startswith(paths)), len(TOGETHER))
        alone = f"{place} {item.name}" if place in APART else place
        item.add_marker(pytest.mark.xdist_group(alone if turn == len(TOGETHER) else TOGETHER[turn][0]))
        turns.append(turn if place not in APART else 0)
    order = sorted(range(len(items)), key=turns.__getitem__)
    items[:] = [items[index] for index in order]
