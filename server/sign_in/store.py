"""Where sign-ins are kept: one entry a server, its secrets in the system's keyring or in the entry's own file.

The file is there in both cases, so that entries can be listed and locked. ``GUIDEWAY_TOKENS`` set to ``file`` or
``keyring`` says where; unset, it is the keyring where the package is installed and the system really has one.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from guideway.dsl.record import Record
from guideway.interpreter.extras import install
from guideway.server.sign_in.entry import Entry, Secrets
from guideway.server.sign_in.errors import StorageError, theirs
from guideway.server.sign_in.folder import PrivateFolder
from guideway.server.state import NoStateError, state_folder

VARIABLE: Final = "GUIDEWAY_TOKENS"
_SERVICE: Final = "guideway"
_TRIAL: Final = "trial"  # the name of what is kept only to see that something can be


class Unreadable(Record):
    """A file that should hold a sign-in: its name and its path, and why it cannot be read."""

    name: str
    path: Path
    why: StorageError


class TokenStore:
    """The sign-ins of one person on one machine. ``uses_keyring`` says where new secrets go."""

    def __init__(self, folder: Path, *, uses_keyring: bool) -> None:
        self._folder = PrivateFolder(folder)
        self.uses_keyring = uses_keyring

    def read(self, server: str) -> Entry | None:
        """Return what is kept for a server. Raises ``StorageError``."""
        content = self._folder.read(_name(server))
        if content is None:
            return None
        entry = self._entry(content, _name(server))
        if entry.server != server:
            raise StorageError(f"`{self._folder.path / _name(server)}` is the sign-in of another server", "remove it")
        if entry.secrets is not None:
            return entry
        secrets = _from_keyring(server)
        return None if secrets is None else entry.model_copy(update={"secrets": secrets})

    def write(self, entry: Entry) -> None:
        """Keep an entry in the place of what was kept for its server. Raises ``StorageError``."""
        if self.uses_keyring:
            _to_keyring(entry)
            entry = entry.model_copy(update={"secrets": None})
        self._folder.write(_name(entry.server), entry.model_dump_json(exclude_none=True).encode())

    def remove(self, server: str) -> None:
        """Keep nothing for a server. Raises ``StorageError``, and then has still removed all that it could."""
        try:
            content = self._folder.read(_name(server))
            in_keyring = content is not None and self._entry(content, _name(server)).secrets is None
        except StorageError:  # nothing that could be believed: all that is wanted of it is to be gone
            in_keyring = False
        try:
            if in_keyring:
                _remove_from_keyring(server)
        finally:
            self._folder.remove(_name(server))

    def kept(self) -> Iterator[str | Unreadable]:
        """Yield each server that something is kept for, and each file that cannot be read.

        Raises ``StorageError`` where the folder cannot be.
        """
        for name in self._folder.names(".json"):
            try:
                content = self._folder.read(name)
                if content is not None:
                    yield self._entry(content, name).server
            except StorageError as why:
                yield Unreadable(name, self._folder.path / name, why)

    def discard(self, unreadable: Unreadable) -> None:
        """Remove a file that cannot be read. Raises ``StorageError``."""
        self._folder.remove(unreadable.name)

    async def tidy(self) -> None:
        """Remove the locks of what is kept no more. Raises ``StorageError``."""
        for name in list(self._folder.names(".lock")):
            async with self._folder.lock(name, of=name.replace(".lock", ".json")):
                pass

    def try_out(self) -> None:
        """See that a sign-in can be kept, before anybody makes one. Raises ``StorageError``."""
        if self.uses_keyring:
            _try_keyring()
        name = f"{_TRIAL}.{os.getpid()}"
        try:
            self._folder.write(name, b"")
        finally:
            self._folder.remove(name)

    def lock(self, server: str) -> AbstractAsyncContextManager[None]:
        """Hold a server's entry while it is renewed: an issuer that sees a refresh token twice revokes them all."""
        name = _name(server)
        return self._folder.lock(name.replace(".json", ".lock"), of=name)

    def where(self, server: str) -> str:
        """Say where a server's secrets go, for a person."""
        return "the system's keyring" if self.uses_keyring else str(self._folder.path / _name(server))

    def _entry(self, content: bytes, name: str) -> Entry:
        try:
            return Entry.model_validate_json(content)
        except ValidationError:  # whose text would quote the file
            raise StorageError(
                f"`{self._folder.path / name}` does not hold a sign-in of this version", "remove it, and sign in again"
            ) from None


def standard_store(environment: Mapping[str, str] = os.environ) -> TokenStore:
    """Return the store of whoever runs this. Raises ``StorageError``."""
    try:
        folder = state_folder(environment) / "tokens"
    except NoStateError as error:
        raise StorageError(str(error), error.help) from None
    match environment.get(VARIABLE, ""):
        case "file":
            uses_keyring = False
        case "keyring":
            uses_keyring = True
        case "":
            uses_keyring = _has_keyring()
        case other:
            raise StorageError(f"{VARIABLE} is `{theirs(other)}`", "it takes `file` or `keyring`")
    return TokenStore(folder, uses_keyring=uses_keyring)


def _name(server: str) -> str:
    return f"{hashlib.sha256(server.encode()).hexdigest()[:32]}.json"


def _has_keyring() -> bool:
    """Say whether the system has a keyring that keeps secrets: what only plays one has a priority below 1."""
    try:
        import keyring  # noqa: PLC0415  # an extra, and slow to load
    except ImportError:
        return False
    return bool(keyring.get_keyring().priority >= 1)


def _keyring() -> Any:
    try:
        import keyring  # noqa: PLC0415
    except ImportError:
        raise StorageError(
            "the package `keyring` is not installed", f"{install('keyring')}, or {VARIABLE}=file"
        ) from None
    return keyring


def _try_keyring() -> None:
    keyring = _keyring()
    try:
        keyring.set_password(_SERVICE, _TRIAL, _TRIAL)
        keyring.delete_password(_SERVICE, _TRIAL)
    except keyring.errors.KeyringError as error:
        raise _keyring_fault(error) from None


def _to_keyring(entry: Entry) -> None:
    keyring = _keyring()
    try:
        keyring.set_password(_SERVICE, entry.server, entry.held.model_dump_json(exclude_none=True))
    except keyring.errors.KeyringError as error:
        raise _keyring_fault(error) from None


def _from_keyring(server: str) -> Secrets | None:
    keyring = _keyring()
    try:
        kept = keyring.get_password(_SERVICE, server)
    except keyring.errors.KeyringError as error:
        raise _keyring_fault(error) from None
    try:
        return None if kept is None else Secrets.model_validate_json(kept)
    except ValidationError:
        raise StorageError(f"the keyring's entry for `{server}` is not a sign-in", "sign out, and in again") from None


def _remove_from_keyring(server: str) -> None:
    keyring = _keyring()
    try:
        keyring.delete_password(_SERVICE, server)
    except keyring.errors.PasswordDeleteError:  # it is not there
        return
    except keyring.errors.KeyringError as error:
        raise _keyring_fault(error) from None


def _keyring_fault(error: Exception) -> StorageError:
    return StorageError(
        f"the system's keyring does not answer: {theirs(str(error) or type(error).__name__)}",
        f"unlock it, or set {VARIABLE}=file to keep tokens in a file of mode 0600",
    )
