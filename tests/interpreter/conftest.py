"""What the tests of this package share."""

import pytest
from tests.interpreter.worlds import HostInMemory, World

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.results import Reason


@pytest.fixture
def world() -> World:
    """A database and a cache that run, a host that answers, and one that does not."""
    return World(
        services={"database": MemoryDriver(), "cache": MemoryDriver()},
        hosts={
            "api.internal": HostInMemory(),
            "silent.internal": HostInMemory(fault=Fault(Reason.NO_ANSWER, "no answer")),
        },
    )
