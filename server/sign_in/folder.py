"""Files that only their owner may read: opened without following links, replaced whole, locked between processes.

A file or folder that others could read or write is refused, never mended in passing: what it holds may be known by now.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from guideway.server.sign_in.errors import StorageError, theirs
from guideway.server.state import make_folder

_OTHERS: Final = 0o077
_PATIENCE: Final = 60.0  # seconds that a lock is waited for: longer than one renewal may take
_MOST_BYTES: Final = 1_048_576


class PrivateFolder:
    """A folder of mode 0700 with files of mode 0600. It is made where something is first kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None where there is no such file. Raises ``StorageError``."""
        path = self.path / name
        try:
            if not self._is_private():
                return None
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _cannot("read", path, error) from None
        with os.fdopen(descriptor, "rb") as file:
            self._require_private_file(path, os.fstat(descriptor))
            return file.read(_MOST_BYTES)

    def write(self, name: str, content: bytes) -> None:
        """Put a content in a file's place at once, whole or not at all. Raises ``StorageError``."""
        path = self.path / name
        fresh = self.path / f"{name}.{os.getpid()}.new"
        try:
            self._make()
            fresh.unlink(missing_ok=True)  # of a process of this number that was killed here
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
                fresh.replace(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _cannot("write", path, error) from None

    def remove(self, name: str) -> None:
        """Remove a file, or the link of that name, and what a shell that was killed left of writing it.

        Raises ``StorageError``.
        """
        try:
            (self.path / name).unlink(missing_ok=True)
            for left in self.path.glob(f"{name}.*.new"):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot("remove", self.path / name, error) from None

    def names(self, suffix: str) -> Iterator[str]:
        """Yield the names of the files that end with ``suffix``, in order. Raises ``StorageError``."""
        self._is_private()
        try:
            yield from sorted(each.name for each in self.path.iterdir() if each.suffix == suffix)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _cannot("read", self.path, error) from None

    @asynccontextmanager
    async def lock(self, name: str, *, of: str) -> AsyncIterator[None]:
        """Hold a lock that one process, and one task of it, has at a time. It ends with its process.

        Its own file goes with the file that it is ``of``. Raises ``StorageError``.
        """
        path = self.path / name
        descriptor = self._opened(path)
        try:
            with anyio.move_on_after(_PATIENCE) as waiting:
                while not (held := _locked(descriptor)) or not _is(path, descriptor):
                    if held:  # of a file that was removed meanwhile: who comes now would take another for the lock
                        fresh = self._opened(path)
                        os.close(descriptor)
                        descriptor = fresh
                    await anyio.sleep(0.02)  # another process has it, which sets no event
            if waiting.cancelled_caught:
                raise StorageError(
                    f"another shell has held `{path}` for {_PATIENCE:.0f} seconds", "end it, and try again"
                )
            try:
                yield
            finally:
                if not os.path.lexists(self.path / of):  # noqa: ASYNC240  # on this machine's own disk
                    with contextlib.suppress(OSError):  # a file without content, which harms nobody
                        path.unlink()
        finally:
            os.close(descriptor)  # and gives the lock up

    def _opened(self, path: Path) -> int:
        try:
            self._make()
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _cannot("lock", path, error) from None

    def _make(self) -> None:
        make_folder(self.path)
        self._is_private()

    def _is_private(self) -> bool:
        """Say whether the folder is there. Raises ``StorageError`` where others can look into it."""
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(found.st_mode):
            raise StorageError(
                f"`{self.path}` is no folder", "tokens are kept in a folder of their own; move this away"
            )
        _require_ours(self.path, found, "chmod 700")
        return True

    def _require_private_file(self, path: Path, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise StorageError(f"`{path}` is no plain file", "remove it, and sign in again")
        _require_ours(path, found, "chmod 600")


def _require_ours(path: Path, found: os.stat_result, mend: str) -> None:
    if found.st_uid != os.geteuid():
        raise StorageError(f"`{path}` belongs to somebody else", "tokens are kept in files of your own alone")
    if found.st_mode & _OTHERS:
        raise StorageError(
            f"others may read or write `{path}`, so that it is not used",
            f"sign out and in again if somebody may have looked; else `{mend} {path}`",
        )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is(path: Path, descriptor: int) -> bool:
    """Say whether a descriptor is of the file that stands at a path now."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _cannot(verb: str, path: Path, error: OSError) -> StorageError:
    if error.errno == errno.ELOOP:
        return StorageError(
            f"`{path}` is a link, and tokens are kept in plain files alone", "remove it, and sign in again"
        )
    return StorageError(f"cannot {verb} `{path}`: {theirs(error.strerror or type(error).__name__).lower()}")
