"""The state folder: where it is, and that nobody but its owner can read what is in it."""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from guideway.server.state import NoStateError, make_folder, state_folder


class StateError(Exception):
    """The state folder cannot be used. ``help`` is what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002  # the word that diagnostics use
        super().__init__(message)
        self.help = help


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the state is kept unless the configuration says otherwise. Raises ``StateError``."""
    try:
        return state_folder(environment) / "issuer"
    except NoStateError as error:
        raise StateError(str(error), error.help) from None


def open_folder(path: Path) -> Path:
    """Make the folder where it is missing, and return it. Raises ``StateError`` unless only its owner can use it."""
    try:
        make_folder(path)
        found = path.stat()
    except OSError as error:
        raise StateError(f"`{path}` cannot be made: {(error.strerror or type(error).__name__).lower()}") from None
    _require_private(path, found, 0o700)
    return path


def private_file(path: Path) -> Path:
    """Make an empty file where none is, and return its path. Raises ``StateError`` unless only its owner can use it.

    One that is there is not opened: to close it again would take from this process every lock that SQLite has on it
    (https://www.sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        found = path.lstat()
    except OSError as error:
        raise StateError(f"`{path}` cannot be opened: {(error.strerror or type(error).__name__).lower()}") from None
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"`{path}` is no file", "name another `state_folder` in [development_issuer]")
    _require_private(path, found, 0o600)
    return path


def _require_private(path: Path, found: os.stat_result, mode: int) -> None:
    if found.st_uid != os.geteuid():
        raise StateError(f"`{path}` belongs to another user", "name another `state_folder` in [development_issuer]")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(f"`{path}` can be used by others", f"chmod {mode:o} {path}")
