"""What a terminal gets to see: every text cleaned, colour only where it is wanted.

Nothing is written to a terminal by any other way, so that no file, service or argument can steer one.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
CYAN: Final = "36"

#: Takes back the line that was written last and has no end yet.
BACK_AND_CLEAR: Final = "\r\x1b[K"

#: A stretch of text, or one with its colour.
Span = str | tuple[str, str]


def clean(text: str) -> str:
    """Return a text in one line: a tab or line end is a space, what else does not print is U+FFFD."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char in "\t\n\r" else "\ufffd" for char in text)


def is_lively(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether a stream is a terminal that understands control sequences."""
    return stream.isatty() and environment.get("TERM") != "dumb"


def wants_color(choice: str, stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether to colour a stream: ``always``, ``never``, or ``auto`` (see https://no-color.org)."""
    return choice == "always" or (
        choice == "auto" and not environment.get("NO_COLOR") and is_lively(stream, environment)
    )


class Console:
    """Writes lines to a stream. It looks the stream up each time, so that it can be replaced."""

    def __init__(self, choice: str = "auto", *, error: bool = False) -> None:
        self._name = "stderr" if error else "stdout"
        self.color = wants_color(choice, self.stream)

    @property
    def stream(self) -> TextIO:
        """Where it writes."""
        stream: TextIO = getattr(sys, self._name)
        return stream

    @property
    def is_unicode(self) -> bool:
        """Whether signs outside ASCII can be shown."""
        return (self.stream.encoding or "").lower().replace("-", "") == "utf8"

    def spans(self, *spans: Span) -> str:
        """Return a line as it will be written, without its end."""
        return "".join(self._span(span) for span in spans)

    def line(self, *spans: Span) -> None:
        """Write a line."""
        self.stream.write(self.spans(*spans) + "\n")

    def drawing(self, text: str, color: str) -> None:
        """Write a drawn diagnostic: its head and its carets in colour."""
        head, *rest = text.split("\n")
        self.line((head, f"{BOLD};{color}"))
        for line in rest:
            caret = line.lstrip(" |")
            self.line((line, color) if caret and not caret.strip("^") else line)

    def drop(self) -> None:
        """Let nothing more be written: nobody reads it, and the interpreter must not try once more when it ends."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def _span(self, span: Span) -> str:
        if isinstance(span, str):
            return clean(span)
        text, color = clean(span[0]), span[1]
        return f"\x1b[{color}m{text}\x1b[0m" if self.color and text else text


def write_json(value: object) -> None:
    """Write the machine form, one value, to standard output. It is ASCII, so that no encoding can spoil it."""
    import json  # noqa: PLC0415  # slow to load, and most calls do without

    sys.stdout.write(json.dumps(value, indent=2) + "\n")
