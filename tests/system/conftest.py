"""What the tests of real services share."""

from collections.abc import Iterator

import pytest
from tests.system.containers import CONTAINERS
from tests.system.engines import KINDS, Engine, need_engine
from tests.system.sshd import Sshd, need_sshd
from tests.system.systemd import Systemd, need_containers
from tests.system.units import UNITS


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
