"""What several dialects write alike: literals, classes, repetitions, and comments above paragraphs."""

import re
from collections.abc import Callable
from typing import Final

from guideway.grammar.model import Definition, Grammar

MARKS: Final[dict[tuple[int, int | None], str]] = {(0, 1): "?", (0, None): "*", (1, None): "+"}
"""The repetitions that are a mark everywhere."""

ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""In literals; engines agree on no others."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:@-]", re.ASCII)


def quoted(text: str) -> str:
    """Return a literal."""
    return '"' + "".join(ESCAPES.get(char, char) for char in text) + '"'


def class_body(ranges: tuple[tuple[str, str], ...]) -> str:
    """Return what stands between the brackets of a class.

    A hyphen stands last, where all engines take it for itself; in a range, or between two characters, some read
    another range. Raises ``ValueError`` for what would need an escape, on which they do not agree.
    """
    for ends in ranges:
        if not all(map(_PLAIN.fullmatch, ends)) or ("-" in ends and ends != ("-", "-")):
            raise ValueError(f"a class cannot hold {ends!r}")
    plain = [first if first == last else f"{first}-{last}" for first, last in ranges if first != "-"]
    return "".join(plain) + "-" * (len(plain) < len(ranges))


def paragraphs(grammar: Grammar, comment: str, write: Callable[[Definition], str]) -> str:
    """Return a grammar's paragraphs, a blank line between them; ``comment`` is the mark before each line of one."""
    return "\n".join(
        "".join(f"{comment} {line}".rstrip() + "\n" for line in paragraph.comment)
        + "".join(f"{write(definition)}\n" for definition in paragraph.definitions)
        for paragraph in grammar.paragraphs
    )
