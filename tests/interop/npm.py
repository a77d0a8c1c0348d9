"""Installs the programs of other people that the tests run, at the versions of a lock file: once, whoever asks first.

Run as a program it does so before the tests, beside pip (Makefile). The standard library alone is needed.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).parents[1] / "node"

_TRIES: Final = 3  # a registry that does not answer for a moment
_SECONDS: Final = 300.0
_COMMAND: Final = ("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error", "--prefix")


class NotInstalledError(Exception):
    """npm failed each time; the message is all that it said when it first did."""


def install(place: Path) -> None:
    """Install what the lock file of a folder names, unless that was done. Raises ``NotInstalledError``.

    Of several processes one does so and the others wait: where two do so at once, each removes what the other has put
    there, and npm ends with ENOTEMPTY or ENOENT. What npm leaves of a failed installation can be in its own way, so
    each try begins with nothing.
    """
    lock, installed = place / "package-lock.json", place / "node_modules" / ".package-lock.json"
    with _alone(place):
        if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
            return
        wrong = []
        for _ in range(_TRIES):
            shutil.rmtree(place / "node_modules", ignore_errors=True)
            said = _why_not(place)
            if said is None:
                return
            wrong.append(said)
    raise NotInstalledError(f"{wrong[0]}\nThat was the first of {_TRIES} times.")


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    folder = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _why_not(place: Path) -> str | None:
    command = [*_COMMAND, str(place)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"`{' '.join(command)}` was not over after {_SECONDS:.0f} seconds"
    if ended.returncode == 0:
        return None
    return f"`{' '.join(command)}` ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}".rstrip()


if __name__ == "__main__":
    if shutil.which("npm") is None:
        sys.exit("npm is missing; each test that needs it says so")  # and skips, or fails in CI
    try:
        install(PLACE)
    except NotInstalledError as error:
        sys.exit(str(error))
