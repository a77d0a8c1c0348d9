"""How mistakes in the configuration are told: with file, line and key, what is allowed, and what was meant.

Rules for messages as for programs: lower case, no full stop, what the file says in backticks.
"""

import bisect
import re
import tomllib
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from guideway.dsl.errors import printable
from guideway.dsl.recovery import nearest
from guideway.server import toml_places

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TYPES: Final = {
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "frozen_set_type": "must be an array",
    "list_type": "must be an array",
    "path_type": "must be a path, as a string",
    "tuple_type": "must be an array",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "model_type": "must be a table",
    "string_too_short": "must not be empty",
    "string_type": "must be a string",
    "too_short": "must not be empty",
    "missing": "is missing",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}
_MUST_BE: Final = "must be "
UNKNOWN_KEY: Final = "is not known"
_NO_QUOTE: Final = 'Expected "\'"'
_UNCLOSED: Final = {  # what ``tomllib`` says of a string that does not end, and what it ends with
    "Illegal character '\\n'": 'end it with `"` on its line',
    "Unterminated string": 'end it with what it begins with: `"` or three of them',
    "Found invalid character '\\n'": "end it with `'` on its line",
    _NO_QUOTE: "end it with `'` on its line",
    "Expected \"'''\"": "end it with the three `'` that it begins with",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. ``key`` is the dotted key as TOML writes it; ``line`` counts from 1."""

    message: str
    line: int | None = None
    key: str | None = None
    help: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {"message": self.message, "line": self.line, "key": self.key, "help": self.help}


class ConfigError(Exception):
    """The configuration cannot be used, and every reason that was found. At least one problem."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__("\n".join(self._line(problem) for problem in self.problems))

    def _line(self, problem: Problem) -> str:
        file = printable(str(self.file))
        where = f"{file}:{problem.line}" if problem.line else file
        key = f"`{problem.key}` " if problem.key else ""
        return f"{where}: {key}{problem.message}" + (f"; {problem.help}" if problem.help else "")


def syntax_problem(error: tomllib.TOMLDecodeError, text: str) -> Problem:
    """Return what ``tomllib`` says, with the line taken out of its words (it has no other place for it in 3.11)."""
    what, _, where = str(error).rpartition(" (at ")
    found = re.match(r"line (\d+)", where)
    line = int(found[1]) if found else text.rstrip("\n").count("\n") + 1
    if what == _NO_QUOTE:  # found missing at the end of the document, and it is missing on one line
        line = bisect.bisect_left(range(line), True, key=lambda more: _lacks_a_quote(text, more + 1)) + 1
    if what in _UNCLOSED:
        return Problem("is not TOML: a string never closes", line, help=_UNCLOSED[what])
    return Problem(f"is not TOML: {what[:1].lower()}{what[1:]}", line)


def _lacks_a_quote(text: str, lines: int) -> bool:
    """Say whether the first lines of a text leave a string in single quotes open."""
    try:
        tomllib.loads("\n".join(text.split("\n", lines)[:lines]))
    except tomllib.TOMLDecodeError as error:
        return str(error).startswith(_NO_QUOTE)
    return False


def explain(error: ErrorDetails, model: type[BaseModel], also: Iterable[str] = ()) -> tuple[str, str | None]:
    """Return message and help for one of pydantic's errors about ``model``; ``also`` are keys that others read."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        return UNKNOWN_KEY, suggestion(key, [*_keys_at(model, error["loc"][:-1]), *also])
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", context["expected"])
        return f"cannot be `{error['input']}`", suggestion(str(error["input"]), allowed)
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{words} {context[bound]:,}".removesuffix(".0"), None
    if kind == "value_error":
        return str(context["error"]), None
    words = error["msg"]
    return _TYPES.get(kind, words[:1].lower() + words[1:]), None


def either(messages: list[str]) -> str:
    """Return as one what was said of a value that may be of several types: the arms of a union each say their own.

    Where the value is of one of the types, what is said of another counts for nothing.
    """
    kinds = [message for message in messages if message in _TYPES.values() and message.startswith(_MUST_BE)]
    kinds = kinds if len(kinds) == len(messages) else []
    if kinds:
        return _MUST_BE + " or ".join(message.removeprefix(_MUST_BE) for message in kinds)
    others = [message for message in messages if message not in _TYPES.values() or not message.startswith(_MUST_BE)]
    return " or ".join(others or messages)


def suggestion(word: str, allowed: Iterable[str]) -> str | None:
    """Return the word that was meant, else all that is allowed."""
    allowed = sorted(allowed)
    near = nearest(word, allowed)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"allowed: {', '.join(f'`{one}`' for one in allowed)}" if allowed else None


def dotted(path: toml_places.Path) -> str:
    """Return a path as TOML writes a key; elements of arrays are left out."""
    keys = (key for key in path if isinstance(key, str))
    return ".".join(key if _BARE_KEY.fullmatch(key) else '"' + key.replace('"', '\\"') + '"' for key in keys)


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> Iterable[str]:
    """Return the keys that a table inside ``model`` may have."""
    inner: Any = model
    for key in path:
        fields = getattr(inner, "model_fields", {})
        annotation = fields[key].annotation if key in fields else (typing.get_args(inner) or (None,))[-1]
        inner = annotation
    return [field.alias or key for key, field in getattr(inner, "model_fields", {}).items()]
