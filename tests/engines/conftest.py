"""What the tests of the engines share: processes that work on their jobs, as many as there are processors."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context

import pytest


@pytest.fixture(scope="session")
def workers() -> Iterator[Executor]:
    """Processes that run functions of modules here. One that an engine ends is an error of every job that waits."""
    # Engines have threads, which no fork survives.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield pool
