"""The state folder: where it is, and that nobody but its owner can read what is in it."""

import os
import stat
from collections.abc import Mapping
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
    """Make an empty file where none is, and return its path. Raises ``StateError`` unless only its owner can use it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _require_private(path, os.fstat(descriptor), 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StateError(f"`{path}` cannot be opened: {(error.strerror or type(error).__name__).lower()}") from None
    return path


def _require_private(path: Path, found: os.stat_result, mode: int) -> None:
    if found.st_uid != os.geteuid():
        raise StateError(f"`{path}` belongs to another user", "name another `state_folder` in [development_issuer]")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(f"`{path}` can be used by others", f"chmod {mode:o} {path}")
