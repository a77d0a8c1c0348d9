"""The world that the door's tests share, and the ways to reach it."""

import pytest

from tests.server.world import World


@pytest.fixture
def world() -> World:
    """Return a fresh world whose caller may read and write."""
    return World()
