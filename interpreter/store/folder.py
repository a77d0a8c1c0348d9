"""The store's folder and files: the owner's alone, and nowhere that somebody else decides what is in it."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from guideway.interpreter.records import StoreUnavailable

FILE: Final = "guideway.sqlite3"
"""The database in the folder."""


def private_folder(path: Path) -> Path:
    """Make a folder where it is missing, with those above it, and return its real path. Raises ``StoreUnavailable``.

    Others may look into it (its files are closed to them), but none may write there or put another in its place.
    """
    try:
        path = path.resolve()
        for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        for folder in (path, *path.parents):
            _require_ours(path, folder)
    except OSError as error:
        raise StoreUnavailable(f"the folder `{path}` cannot be used: {_why(error)}") from error
    return path


def private_file(path: Path) -> Path:
    """Make an empty file where none is, for its owner alone, and return its path. Raises ``StoreUnavailable``.

    One that is there is not opened: to close it again would take from this process every lock that SQLite has on it
    (POSIX ``fcntl`` locks; https://www.sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        found = path.lstat()
    except OSError as error:
        raise StoreUnavailable(f"`{path}` cannot be opened: {_why(error)}") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(f"`{path}` is no file: name another folder for the store")
    if not os.access(path, os.W_OK):
        raise StoreUnavailable(f"`{path}` can only be read: look at its owner, its mode and how it is mounted")
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(f"`{path}` belongs to another user: name another folder for the store")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreUnavailable(f"`{path}` can be used by others: chmod 600 {path}")
    return path


def _require_ours(path: Path, folder: Path) -> None:
    found = folder.stat()
    mine = found.st_uid == os.geteuid()
    if folder == path and not mine:
        raise StoreUnavailable(f"the folder `{path}` belongs to another user: name another one for the store")
    if not mine and found.st_uid != 0:
        raise StoreUnavailable(f"`{folder}` belongs to another user, who could exchange the store in it")
    shared = found.st_mode & 0o022 and not (found.st_mode & stat.S_ISVTX and folder != path)
    if shared:
        raise StoreUnavailable(f"others can write in `{folder}`: chmod go-w {folder}, or name another folder")


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
