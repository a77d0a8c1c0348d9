"""The programs of other people that the server is held against."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.npm import PLACE, NotInstalledError, install

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def node_path() -> str:
    """Install the programs where that was not done yet; return the PATH on which they and a Node for them stand.

    A machine without npm skips, and fails in CI.
    """
    if shutil.which("npm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing")
        pytest.skip("npm is missing")
    try:
        install(PLACE)
    except NotInstalledError as error:
        pytest.fail(str(error), pytrace=False)
    programs = PLACE / "node_modules" / ".bin"
    return os.pathsep.join([str(programs), os.environ["PATH"]])


@pytest.fixture
def run(node_path: str, tmp_path: Path) -> Run:
    """Return a function that runs one of the programs in a home of its own."""

    def run(*command: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": node_path, "HOME": str(tmp_path), "NO_COLOR": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )

    return run
