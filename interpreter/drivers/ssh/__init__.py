"""Machines that are reached over SSH; here what the configuration says of them.

The SSH library is loaded when the first of them is asked: a configuration without one does not need it.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Strict, model_validator

from guideway.interpreter.drivers.base import Address, FromName, Options, Port
from guideway.interpreter.drivers.ways import Way
from guideway.interpreter.extras import install

_Path = Annotated[Path, Strict(False)]


def _name(user: str) -> str:
    if not (user.isprintable() and user.isascii() and 0 < len(user) <= 64) or " " in user:
        raise ValueError("must be the name of a user there")
    return user


@cache
def _library_is_there() -> bool:
    return find_spec("asyncssh") is not None


class SshOptions(Options):
    """A machine by its SSH server: as whom, with which key, and where its own key is known from.

    The key is in ``key_file``, or with ``agent`` in the agent that SSH_AUTH_SOCK names. ``known_hosts`` None is the
    file of that name in the user's ``~/.ssh``. Nothing else of ``~/.ssh`` is read.
    """

    host: Annotated[Address, FromName(is_host=True)]
    port: Port = 22
    user: Annotated[str, AfterValidator(_name)]
    key_file: _Path | None = None
    agent: bool = False
    known_hosts: _Path | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if not _library_is_there():
            raise ValueError(f"needs the package `asyncssh`: {install('ssh')}")
        if (self.key_file is not None) == self.agent:
            raise ValueError("needs one of `key_file` and `agent = true`")
        return self

    def build(self) -> Way:
        """Make the way. Reaches nothing."""
        from guideway.interpreter.drivers.ssh.host import SshHost  # noqa: PLC0415  # 0.3 s, for who needs it

        return SshHost(self)
