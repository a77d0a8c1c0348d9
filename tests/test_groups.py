"""Where several processes run the tests: which run in one, and what that costs."""

import gc
import os

import pytest


def test_who_hands_tests_out_knows_their_groups(request: pytest.FixtureRequest) -> None:
    """Once they did not, and each process of the tests started each thing that the tests of a group share."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@test_groups.py")
    else:
        assert request.node.get_closest_marker("xdist_group").args == ("test_groups.py",)


@pytest.mark.parametrize("value", ["x" * 1_000_000, b"\0" * 1_000_000])
def test_a_long_value_is_not_in_the_name_of_a_test(value: object, request: pytest.FixtureRequest) -> None:
    """Once names had 400 MB: each process kept them, and sent them to the one that hands tests out."""
    assert value
    assert len(request.node.nodeid) < 1000


def test_no_look_for_garbage_looks_at_the_tests(request: pytest.FixtureRequest) -> None:
    assert request.session.items
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
