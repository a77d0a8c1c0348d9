"""What the tests of real services share."""

import gc
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.system.containers import CONTAINERS
from tests.system.engines import KINDS, Engine, need_engine
from tests.system.remains import leaving_nothing
from tests.system.ssh_drivers import PROGRAMS, SETTINGS
from tests.system.sshd import Sshd, need_sshd
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd, need_containers
from tests.system.units import UNITS


@pytest.fixture
async def nothing_is_left(
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[None]:
    """After a test: nothing more than before, there neither, and no complaint of a library's or the loop's.

    The test has a state of its own, with a store that no other test's pipeline works on.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    elsewhere = []
    if "systemd" in request.fixturenames:
        systemd: Systemd = request.getfixturevalue("systemd")
        elsewhere += [systemd.connections, lambda: len(systemd.clients())]
    if "engine" in request.fixturenames:
        engine: Engine = request.getfixturevalue("engine")
        elsewhere += [engine.connections]
    async with leaving_nothing(*elsewhere):
        yield
    gc.collect()  # which is when the loop complains of exceptions that nobody looked at
    complaints = [one for one in caplog.records if one.name.startswith(("asyncio", "dbus_fast", "asyncssh"))]
    assert [one.getMessage() for one in complaints if one.levelno >= logging.WARNING] == []


@pytest.fixture(scope="module")
def systemd() -> Iterator[Systemd]:
    """A systemd with a unit of every kind."""
    need_containers()
    with Systemd(UNITS) as running:
        yield running


@pytest.fixture(scope="session", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with a container of every kind."""
    need_engine(request.param)
    with Engine(request.param, CONTAINERS) as running:
        yield running


@pytest.fixture(scope="module")
def supervisord() -> Iterator[Supervisord]:
    """A supervisord with two programs, for those who reach it over SSH."""
    with Supervisord(PROGRAMS, SETTINGS) as running:
        yield running


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    """An sshd to be spoiled."""
    need_sshd()
    with Sshd() as running:
        yield running


@pytest.fixture(scope="module")
def shared_sshd() -> Iterator[Sshd]:
    """An sshd that works."""
    need_sshd()
    with Sshd() as running:
        yield running
