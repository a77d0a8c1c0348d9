"""Programs from files and standard input: read bounded, decoded strictly, refused with their place."""

import codecs
import os
import stat
import sys
from typing import BinaryIO

from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.dsl.source import Source, Span
from guideway.server.cli.command import Complaint
from guideway.server.cli.console import Console, clean

STDIN = "-"


def read_program(path: str, *, most: int = DEFAULT_LIMITS.bytes, name: str | None = None) -> Source:
    """Return the text of a file, or of standard input for ``-``; never more than ``most`` bytes of it are read.

    Raises ``Complaint`` where it cannot be read, and ``Refusal`` where it is too large or not UTF-8.
    """
    name = clean(name or path)
    try:
        if path == STDIN:
            if sys.stdin.isatty():
                Console(error=True).line("reading a program from the terminal; Ctrl-D on an empty line ends it")
                sys.stderr.flush()
            content = sys.stdin.buffer.read(most + 1)
            size = None
        else:
            with open(path, "rb") as file:
                content = file.read(most + 1)
                size = _size(file)
    except OSError as error:
        raise Complaint(f"cannot read `{name}`: {_reason(error)}", code="file", file=name) from None
    except ValueError:  # a NUL in the path
        raise Complaint(f"cannot read `{name}`: no such file can be", code="file", file=name) from None
    too_large = len(content) > most
    try:
        text, _ = codecs.utf_8_decode(content, "strict", not too_large)
    except UnicodeDecodeError as error:
        at = len(content[: error.start].decode("utf-8"))
        found = Diagnostic(
            Code.SYNTAX,
            f"byte 0x{content[error.start]:02X} is not UTF-8",
            Span(at, at + 1),
            help="save the file as UTF-8; a program is plain text",
        )
        raise Refusal([found], Source(content.decode("utf-8", "replace"), name)) from None
    if too_large:
        has = f"{size:,} bytes" if size is not None and size > most else f"more than {most:,} bytes"
        found = Diagnostic(
            Code.TOO_LARGE,
            f"the program has {has}; at most {most:,} are read",
            Span(0, 0),
            help="split it into several programs",
        )
        raise Refusal([found], Source(text[:200], name))
    return Source(text, name)


def _size(file: BinaryIO) -> int | None:
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
