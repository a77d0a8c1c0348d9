"""The programs of other people that the server is held against. npm installs them at the versions of its lock file."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "node"

_TRIES = 3  # a registry that does not answer for a moment, and what npm itself trips over
_LAST_LINES = 150  # npm writes its reason above a page of usage

Run = Callable[..., subprocess.CompletedProcess[str]]


def install(place: Path) -> None:
    """Install what the lock file of a folder names; where npm fails, so does the test, with npm's own last lines.

    What npm leaves of a failed installation can be in its own way, so each try begins with nothing.
    """
    command = ["npm", "ci", "--no-audit", "--no-fund", "--prefix", str(place)]
    for _ in range(_TRIES):
        shutil.rmtree(place / "node_modules", ignore_errors=True)
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if ended.returncode == 0:
            return
    said = "\n".join(f"{ended.stdout}{ended.stderr}".splitlines()[-_LAST_LINES:])
    pytest.fail(f"`{' '.join(command)}` ended with {ended.returncode}, {_TRIES} times:\n{said}", pytrace=False)


@pytest.fixture(scope="session")
def node_path() -> str:
    """Install the programs where that was not done yet; return the PATH on which they and a Node for them stand.

    A machine without npm skips, and fails in CI.
    """
    if shutil.which("npm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing")
        pytest.skip("npm is missing")
    lock, installed = PLACE / "package-lock.json", PLACE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        install(PLACE)
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
