"""Services that are programs of a supervisord, over its XML-RPC interface; here what the configuration says of them."""

import re
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict, model_validator

from guideway.interpreter.drivers.base import FromName, SocketPath, key_of, real_path
from guideway.interpreter.drivers.http import place_at
from guideway.interpreter.drivers.supervisord.driver import SupervisordDriver
from guideway.interpreter.drivers.supervisord.rpc import Credentials, Server
from guideway.interpreter.drivers.ways import SocketOptions, Way

_Text = Annotated[str, Field(min_length=1, max_length=1024)]

_ELSEWHERE: Final = "give them as `username` and `password_file` or `password_env`"


def _loopback(text: str) -> str:
    parts = urlsplit(text)
    plain = parts.scheme == "http" and parts.port and parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.username is not None:
        raise ValueError(f"cannot hold a user and a password; {_ELSEWHERE}")
    if not plain or parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        raise ValueError("must be http://127.0.0.1:PORT: supervisord's protocol is not encrypted")
    return text.rstrip("/")


def _one_program(name: str) -> str:
    # `group:*` is a whole group to supervisord; white space and a second colon are in no name that it allows.
    if not re.fullmatch(r"[^\s:*/\x00-\x1f]+(:[^\s:*/\x00-\x1f]+)?", name):
        raise ValueError("must be a program's name, or `group:program`")
    return name


def _user(name: str) -> str:
    if ":" in name or not name.isprintable():
        raise ValueError("cannot hold `:` or control characters")  # RFC 7617, section 2
    return name


class SupervisordOptions(SocketOptions):
    """A program of a supervisord: ``socket`` or ``url`` says where that is.

    Where that asks for a password, the file or the environment variable has it that a key names.
    """

    shown = ("program",)

    program: Annotated[str, FromName(), AfterValidator(_one_program)]
    socket: SocketPath | None = None
    url: Annotated[str, AfterValidator(_loopback)] | None = None
    username: Annotated[_Text, AfterValidator(_user)] | None = None
    password_file: Annotated[Path, Strict(False)] | None = None
    password_env: _Text | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.socket is None) == (self.url is None):
            raise ValueError("needs one of `socket` and `url`")
        if self.ssh is not None and self.socket is None:
            raise ValueError("needs `socket` and no `url`: over SSH only sockets are reached")
        passwords = (self.password_file is not None) + (self.password_env is not None)
        if passwords != (self.username is not None):
            raise ValueError("needs `username` and one of `password_file` and `password_env`, or none of them")
        return self

    def unit_key(self, machine: str | None = None) -> str:
        """Return the program, with the machine and where its supervisord listens there."""
        port = urlsplit(self.url or "").port  # every host that can be given is this machine
        place = real_path(self.socket, machine) if self.socket is not None else f"port {port}"
        group, _, program = self.program.rpartition(":")
        return key_of("supervisord", machine or "", place, group or program, program)

    def listens_at(self) -> Path | None:
        """Return its socket, None where it is at a URL."""
        return self.socket

    def build_over(self, way: Way) -> SupervisordDriver:
        """Make the driver."""
        credentials = self.username and Credentials(self.username, self.password_file, self.password_env)
        place = place_at(self.socket, way) if self.socket is not None else place_at(_host_and_port(self.url or ""))
        return SupervisordDriver(self.program, Server(place, credentials or None))


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0
