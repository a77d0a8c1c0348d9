"""How tables of the configuration are read: by a model, with every mistake kept until all of them are told.

Owns where in the file a mistake stands. Never knows which tables there are.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from guideway.dsl.lexer import is_name
from guideway.server import toml_places
from guideway.server.config_errors import Problem, dotted, either, explain, suggestion
from guideway.server.config_paths import absolute

_Model = TypeVar("_Model", bound=BaseModel)


class TableReader:
    """Reads one document, and gathers every mistake in it. ``folder`` is what its paths are relative to."""

    def __init__(self, path: Path, text: str, raw: dict[str, Any]) -> None:
        self.path = path
        self.folder = os.path.dirname(os.path.abspath(path))
        self.raw = raw
        self.text = text
        self.problems: list[tuple[toml_places.Path, str, str | None]] = []

    def check(
        self, model: type[_Model], table: dict[str, Any], path: toml_places.Path, also: Iterable[str] = ()
    ) -> _Model | None:
        """Return what a table says by a model, None where it has mistakes; ``also`` are keys that others read."""
        try:
            return model.model_validate(absolute(self.folder, model, table))
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                place = _existing(self.raw, (*path, *error["loc"]), missing=error["type"] == "missing")
                self.say(place, *explain(error, model, also))
        return None

    def require_name(self, path: toml_places.Path) -> None:
        """See that the last key of a path is a name."""
        if not is_name(str(path[-1])):
            self.say(
                path,
                "is not a name that a program can spell",
                "a name is at most 253 letters, digits and `. _ : @ -`, and starts with a letter or digit",
            )

    def choose(self, path: toml_places.Path, value: str, allowed: Iterable[str], what: str) -> None:
        """Note that a value is none of those that can be there."""
        self.say(path, f"{what}: `{value}`", suggestion(value, allowed))

    def say(self, path: toml_places.Path, message: str, mend: str | None = None) -> None:
        """Note a mistake."""
        self.problems.append((path, message, mend))

    def told(self) -> list[Problem]:
        """Return the problems in the order of the file, several about one key as one."""
        lines = toml_places.key_lines(self.text)
        merged: dict[toml_places.Path, tuple[list[str], str | None]] = {}
        for path, message, mend in self.problems:
            messages, _ = merged.setdefault(path, ([], mend))
            if message not in messages:
                messages.append(message)
        problems = [
            Problem(either(messages), toml_places.line_of(lines, path), dotted(path), mend)
            for path, (messages, mend) in merged.items()
        ]
        return sorted(problems, key=lambda problem: problem.line or 0)


def tables_of(value: Any) -> dict[str, dict[str, Any]]:
    """Return the tables of a table that may be anything; what else it holds has been told already."""
    return {name: table for name, table in value.items() if isinstance(table, dict)} if isinstance(value, dict) else {}


def without(table: dict[str, Any], paths: Collection[toml_places.Path]) -> dict[str, Any]:
    """Return a table without what stands at some paths in it."""
    kept = {}
    for key, value in table.items():
        inner = [path[1:] for path in paths if path[0] == key]
        if () not in inner:
            kept[key] = without(value, inner) if inner and isinstance(value, dict) else value
    return kept


def _existing(raw: Any, path: toml_places.Path, *, missing: bool) -> toml_places.Path:
    """Return the part of a path that the document has, and the missing key behind it: pydantic adds parts of its own,
    for the arms of a union.
    """
    for depth, key in enumerate(path):
        try:
            raw = raw[key]
        except (KeyError, IndexError, TypeError):
            return path[: depth + missing]
    return path
