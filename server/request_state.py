"""The sealed state that a question leaves with its client, and the keys that seal it.

The SDK seals: with AES-256-GCM, and bound to the tool, the arguments, the caller and an end. What is owned here is
where its keys are: with the state, so that a restart and the other processes of this machine know them, or in a
secret that all replicas are given.
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateBoundary, RequestStateSecurity

from guideway.interpreter.secret import read_secret
from guideway.server.config import Config
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import FILE_NAME
from guideway.server.sign_in.folder import PrivateFolder
from guideway.server.state import NoStateError, state_folder
from guideway.server.stores import is_shared, store_folder

SPARE_SECONDS: Final = 600.0
"""Seconds that a state lives on after its ticket: who answers late is told what became of the ticket."""

Keys = Callable[[], Sequence[str]]
"""Gives the keys, when a state is first sealed or opened. The first one seals; every one opens."""

_FOLDER: Final = "request-state"
_FILE: Final = "keys"
_LEAST: Final = 32  # characters of a key, as the SDK asks


class KeysError(Exception):
    """The keys cannot be had; the message says why, and holds no part of one."""


def boundary(keys: Keys, *, lifetime: float) -> RequestStateBoundary:
    """Return what seals states on their way out and opens them on their way in.

    ``lifetime`` is a ticket's, in seconds.
    """
    security = RequestStateSecurity(codec=_Codec(keys), ttl=lifetime + SPARE_SECONDS)
    return RequestStateBoundary(security, default_audience="guideway")


def own_keys() -> Keys:
    """Return a key that this process alone has: for one that keeps nothing."""
    key = secrets.token_hex(32)
    return lambda: [key]


def kept_keys(folder: Path) -> Keys:
    """Return the keys in a folder of state: one is made where there is none. Reading them raises ``StorageError``."""

    def read() -> list[str]:
        private = PrivateFolder(folder / _FOLDER)
        kept = private.read(_FILE)
        if kept is None:
            _make(private)
            kept = private.read(_FILE)
        return keys_in((kept or b"").decode("utf-8", "replace"), str(private.path / _FILE))

    return read


def configured_keys(config: Config, environment: Mapping[str, str] = os.environ) -> Keys:
    """Return the keys that a configuration names, else those in the store's folder, or the person's state.

    Raises ``ConfigError`` where what it names holds none.
    """
    approvals = config.approvals
    if approvals.state_keys_file is not None or approvals.state_keys_env is not None:
        key = "state_keys_file" if approvals.state_keys_file is not None else "state_keys_env"
        try:
            named = keys_in(read_secret(approvals.state_keys_file, approvals.state_keys_env), "what it names")
        except (ValueError, KeysError) as error:
            words = f"[approvals] `{key}`: {error}"
            raise ConfigError(config.path or Path(FILE_NAME), [Problem(words)]) from None
        return lambda: named
    try:
        folder = state_folder(environment) if is_shared(config) else store_folder(config, environment)
    except NoStateError:
        return own_keys()  # nothing is kept at all: no ticket either
    return kept_keys(folder)


def keys_note(config: Config) -> str | None:
    """Say that replicas will not know each other's questions, None where they will, or where there is but one."""
    if not is_shared(config) or config.approvals.state_keys_file or config.approvals.state_keys_env:
        return None
    return "[approvals] names no `state_keys_file` or `state_keys_env`: no replica takes answers to another's questions"


def keys_in(text: str, source: str) -> list[str]:
    """Return the keys in a secret, spaces between them. Raises ``KeysError``, which names the ``source``."""
    keys = text.split()
    if not keys:
        raise KeysError(f"{source} holds no key: `openssl rand -hex 32` makes one")
    short = next((number for number, key in enumerate(keys, 1) if len(key.encode()) < _LEAST), None)
    if short is not None:
        raise KeysError(f"key {short} of {source} is shorter than {_LEAST} bytes: `openssl rand -hex 32` makes one")
    if len(set(keys)) < len(keys):
        raise KeysError(f"{source} holds one key twice")
    return keys


class _Codec:
    """The SDK's own codec, made when it is first needed: a server that asks nobody needs no key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    @cached_property
    def _codec(self) -> AESGCMRequestStateCodec:
        return AESGCMRequestStateCodec(self._keys())

    def seal(self, payload: bytes) -> str:
        """Seal; raises where there is no key, which the boundary answers as an internal error."""
        return self._codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        """Open; raises where there is no key, which the boundary answers as a state that is not good."""
        return self._codec.unseal(token)


def _make(private: PrivateFolder) -> None:
    """Write a key whole, and never over another: two starts at the same instant agree on one."""
    draft = f"{_FILE}.{secrets.token_hex(8)}"
    private.write(draft, f"{secrets.token_hex(32)}\n".encode())
    try:
        os.link(private.path / draft, private.path / _FILE)
    except FileExistsError:
        pass  # the other one was quicker, and its key is the one
    finally:
        private.remove(draft)
