"""Where the keys of a TOML document stand. ``tomllib`` gives values without their lines, and people mend lines.

Only for documents that ``tomllib`` has accepted: nothing is checked here. Keys are read by ``tomllib`` itself, so that
quotes, dots and escapes mean here what they mean there.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

#: From the top of a document to a key or an element: keys and indices.
Path = tuple[str | int, ...]

_PART: Final = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*"{3,5}'  # up to two quotes belong to the text and stand before the closing three
    r"|'''(?:(?!''').)*'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|(?P<skip>\#[^\n]*|[ \t\r]+)"
    r"|[\[\]{},=\n]"
    r"|[^\[\]{},=\n\"'\# \t\r][^\[\]{},=\n\"'\#]*",
    re.DOTALL,
)


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, counted from 1, on which each key, table and array element of a document first stands."""
    return _Scan(text).lines


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """Return the line of what stands at a path, or of the nearest thing that it would stand in."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._line = 1
        self._tables: dict[Path, int] = {}  # how many elements an array of tables has so far
        self._parts = self._scan(text)
        table: Path = ()
        for part in self._parts:
            if part == "\n":
                continue
            if part == "[":
                table = self._header()
            else:
                self._entry(table, part)

    def _scan(self, text: str) -> Iterator[str]:
        for match in _PART.finditer(text):
            if not match["skip"]:
                yield match[0]
                self._line += match[0].count("\n")

    def _header(self) -> Path:
        line = self._line
        header = "["
        for part in self._parts:
            if part == "\n":
                break
            header += part
        keys, is_element = _keys(tomllib.loads(header))
        path: Path = ()
        for number, key in enumerate(keys, start=1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if is_element and number == len(keys):
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:  # the table is in the newest element
                path = (*path, self._tables[path] - 1)
                self.lines.setdefault(path, line)
        return path

    def _entry(self, table: Path, first: str) -> None:
        """Read a key that starts with ``first``, and its value."""
        line = self._line
        key = first
        for part in self._parts:
            if part == "=":
                break
            key += part
        keys, _ = _keys(tomllib.loads(f"{key}=0"))
        for end in range(1, len(keys) + 1):
            self.lines.setdefault((*table, *keys[:end]), line)
        self._value((*table, *keys), next(self._parts))

    def _value(self, path: Path, first: str) -> None:
        if first == "[":
            index = 0
            for part in self._parts:
                if part == "]":
                    return
                if part == ",":
                    index += 1
                elif part != "\n":
                    self.lines.setdefault((*path, index), self._line)
                    self._value((*path, index), part)
        elif first == "{":
            for part in self._parts:
                if part == "}":
                    return
                if part not in (",", "\n"):
                    self._entry(path, part)


def _keys(document: dict[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Return the keys that lead down a document that has one way down, and whether it ends in an array of tables."""
    keys: list[str] = []
    below: Any = document
    while isinstance(below, dict) and below:
        ((key, below),) = below.items()
        keys.append(key)
    return tuple(keys), isinstance(below, list)
