"""What the tests of real services share."""

from collections.abc import Iterator

import pytest
from tests.system.systemd import Systemd, need_containers
from tests.system.units import UNITS


@pytest.fixture(scope="module")
def systemd() -> Iterator[Systemd]:
    """A systemd with a unit of every kind."""
    need_containers()
    with Systemd(UNITS) as running:
        yield running
