"""Tests that share what is slow to start run in one process, where several processes run the tests."""

import os

import pytest


def test_who_hands_tests_out_knows_their_groups(request: pytest.FixtureRequest) -> None:
    """Once they did not, and each process of the tests started each thing that the tests of a group share."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@test_groups.py")
    else:
        assert request.node.get_closest_marker("xdist_group").args == ("test_groups.py",)
