"""What the launcher is asked to do and what it reports, as JSON between the two ends of a pipe."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from guideway.interpreter.children.bounds import Bounds

#: What every child has of an environment, beside what its entry states.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/nonexistent",
}
#: How long a launcher may take to kill what it started.
END_SECONDS = 2.0


class Means(StrEnum):
    """What a system may have to hold a tree of processes. Limits by setrlimit(2) are everywhere."""

    NAMESPACES = "namespaces"
    CGROUP = "cgroup"
    SUBREAPER = "subreaper"
    NO_NEW_PRIVS = "no_new_privs"


class How(StrEnum):
    """How a child ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True)
class Order:
    """A program to run: an absolute path, an argument list, and all of its environment.

    ``user`` is whom it runs as where this process is root. ``checked``: a file that others could replace is not run.
    ``stdin`` is what it reads, None where that is closed. ``group`` is the folder of a control group to make.
    ``means`` are those that may be used. ``until`` is when it is ended, in the seconds of ``time.monotonic``, which are
    the same in every process of a machine.
    """

    program: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    checked: bool = True
    stdin: bytes | None = None
    bounds: Bounds = field(default_factory=Bounds)
    group: str | None = None
    means: tuple[Means, ...] = tuple(Means)
    until: float = 0.0

    def to_line(self) -> bytes:
        """Return the machine form, one line."""
        said = asdict(self) | {"environment": dict(self.environment), "stdin": _text(self.stdin)}
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "Order":
        """Return what a line says, which ``to_line`` has made."""
        said = json.loads(line)
        return cls(
            **said
            | {
                "arguments": tuple(said["arguments"]),
                "stdin": _bytes(said["stdin"]),
                "bounds": Bounds(**said["bounds"]),
                "means": tuple(map(Means, said["means"])),
            }
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a program. ``number`` is its exit status, or the signal that ended it; 0 where there is neither.

    ``why`` says why it did not start. ``out`` and ``err`` are the ends of what it wrote, ``cut`` says how many bytes of
    each are missing in front. ``missing`` says of each means why it did not hold; ``left`` are processes that could not
    be ended.
    """

    how: How
    number: int = 0
    why: str = ""
    out: bytes = b""
    err: bytes = b""
    cut: tuple[int, int] = (0, 0)
    out_of_memory: bool = False
    missing: Mapping[Means, str] = field(default_factory=dict)
    left: tuple[int, ...] = ()

    def to_line(self) -> bytes:
        """Return the machine form, one line."""
        said: dict[str, Any] = {**asdict(self), "out": _text(self.out), "err": _text(self.err)}
        return json.dumps(said).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "Ended":
        """Return what a line says, which ``to_line`` has made."""
        said = json.loads(line)
        return cls(
            **said
            | {
                "how": How(said["how"]),
                "out": _bytes(said["out"]) or b"",
                "err": _bytes(said["err"]) or b"",
                "cut": (said["cut"][0], said["cut"][1]),
                "missing": {Means(key): why for key, why in said["missing"].items()},
                "left": tuple(said["left"]),
            }
        )


def _text(some: bytes | None) -> str | None:
    return None if some is None else base64.b64encode(some).decode("ascii")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
