"""Options of an entry for a pattern of names: written once with placeholders, and made for each name that is meant.

``{name}`` stands for the whole name, ``{1}`` for what the first star of the pattern stands for in it. Owns which
options can have them (those whose type is marked ``FromName``), that they tell all names of the pattern apart, and that
what comes of them is checked like any options of the file, each time. Nothing else is ever filled in.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from guideway.dsl.patterns import STAR, STAR_LENGTH, NamePattern
from guideway.interpreter.drivers.base import FromName, Options
from guideway.server.config_errors import explain

_M = TypeVar("_M", bound=Options)

_STAR: Final = rf"([A-Za-z0-9_-]{{1,{STAR_LENGTH}}})"
_PLACEHOLDER: Final = re.compile(r"\{(name|[0-9]+)\}")
# No name of a host, and no star, has any of these; so they keep what stands before them apart from what stands behind.
_APART: Final = re.compile(r"[^A-Za-z0-9_{}-]")
_HOST_TEXT: Final = re.compile(r"[A-Za-z0-9._-]+")
# Scheme, authority, and the rest. A placeholder stands for a host or a part of one, or behind the authority.
_URL: Final = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.DOTALL)
_AUTHORITY: Final = re.compile(r"[^@:\[\]]+(:[0-9]+)?")


#: What stars stand for when an entry is tried: one that takes numbers alone is fine.
TRIED: Final = ("a", "1")


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with an option, or where ``key`` is None with all of them; and how to mend it."""

    key: str | None
    message: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class Template(Generic[_M]):
    """The options of one table for all names of a pattern. ``table`` holds no relative path."""

    model: type[_M]
    table: Mapping[str, Any]

    def fill(self, name: str, stars: tuple[str, ...]) -> _M:
        """Return the options for a name. Raises ``ValueError``, which says which option cannot be made of it."""
        try:
            return self.model.model_validate(self.filled(name, stars))
        except ValidationError as errors:
            first = errors.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
            message, _ = explain(first, self.model)
            raise ValueError(f"`{key}` {message}" if key else message) from None

    def filled(self, name: str, stars: tuple[str, ...]) -> dict[str, Any]:
        """Return the table for a name, not checked yet. Raises ``ValueError`` for what can be no host's name."""

        def put(key: str, value: Any) -> Any:
            if isinstance(value, list):
                return [put(key, part) for part in value]
            return self._put(key, value, name, stars) if isinstance(value, str) else value

        return {**self.table, **{key: put(key, self.table[key]) for key in _marks(self.model) if key in self.table}}

    def stars_of(self, pattern: NamePattern, options: Options) -> tuple[str, ...] | None:
        """Return what the stars stand for in the name that options could be made of, None where they are of none."""
        found: dict[int, str] = {}
        for key, text in self._texts():
            whole, stars = _reversed(text, pattern)
            value = getattr(options, key, None)  # none of a driver's is a list
            fits = re.fullmatch(whole, value) if isinstance(value, str) else None
            if fits is None:
                return None
            for star, put in zip(stars, fits.groups(), strict=True):
                if found.setdefault(star, put) != put:
                    return None
        return tuple(found[star] for star in range(pattern.stars)) if len(found) == pattern.stars else None

    def pattern_of(self, key: str, pattern: NamePattern) -> str | None:
        """Return what an option comes to for all names, with a star in the place of what differs; None: not given."""
        text = self.table.get(key)
        if not isinstance(text, str):
            return None
        return _PLACEHOLDER.sub(lambda found: pattern.text if found[1] == "name" else STAR, text)

    def mistakes(self, pattern: NamePattern) -> Iterator[Mistake]:
        """Yield what is wrong with the placeholders, whatever name is meant."""
        marks = _marks(self.model)
        able = ", ".join(f"`{key}`" for key in marks)
        known = ["{name}", *(f"{{{number}}}" for number in range(1, pattern.stars + 1))]
        for key, text in self.table.items():
            is_other = key in self.model.model_fields and key not in marks
            if is_other and any(_PLACEHOLDER.search(part) for part in _texts_in(text)):
                yield Mistake(key, "cannot be made of the name", f"what can: {able}" if able else None)
        for key, text in self._texts():
            for stray in re.findall(r"\{[^{}]*\}?|\}", text):
                if stray not in known:
                    yield Mistake(key, f"has `{stray}`, which stands for nothing", f"there are: {', '.join(known)}")
            if any(not _APART.search(between) for between in _PLACEHOLDER.split(text)[2:-1:2]):
                message = "has two placeholders that run into each other: two names could mean one thing"
                yield Mistake(key, message, "a `.`, `:` or `@` between them tells them apart")
            if marks[key].is_url and not _is_open(text):
                mend = "one stands for a host or a part of its name, or behind it: never for scheme, user or port"
                yield Mistake(key, "cannot have a placeholder there", mend)

    def confusion(self, pattern: NamePattern) -> Mistake | None:
        """Say what is wrong where two names would mean one thing: each star has to stand in some option."""
        used = {what for _, text in self._texts() for what in _PLACEHOLDER.findall(text)}
        missing = [f"`{{{number}}}`" for number in range(1, pattern.stars + 1) if str(number) not in used]
        if self.model.apart or "name" in used or not missing:
            return None
        able = ", ".join(f"`{key}`" for key in _marks(self.model))
        if not able:
            return Mistake(None, "is a pattern, and none of its options can be made of the name", "list each name")
        if used:
            message = f"is a pattern, and names that differ in {', '.join(missing)} alone would mean one thing"
            return Mistake(None, message, f"write {' and '.join(missing)} into {able}")
        mend = f"write `{{name}}`, or `{{1}}` for what the `*` stands for, into one of {able}"
        return Mistake(None, "is a pattern, and all its names would mean one thing", mend)

    def _texts(self) -> list[tuple[str, str]]:
        """Return the options that can be made of the name, and are texts or lists of them."""
        return [(key, text) for key in _marks(self.model) for text in _texts_in(self.table.get(key))]

    def _put(self, key: str, text: str, name: str, stars: tuple[str, ...]) -> str:
        is_host = _marks(self.model)[key].is_host
        is_argument = _marks(self.model)[key].is_argument

        def value(found: re.Match[str]) -> str:
            put = name if found[1] == "name" else stars[int(found[1]) - 1]
            if is_host and not _HOST_TEXT.fullmatch(put):
                raise ValueError(f"`{key}` cannot hold `{put}`: in a host's name is no `:` and no `@`")
            if is_host and any(star != star.lower() for star in stars):
                raise ValueError(f"`{key}` has a host's name, which knows no case: the name must be in small letters")
            if is_argument and found.start() == 0 and put.startswith("-"):
                raise ValueError(f"`{key}` cannot begin with `{put}`: it would be an option of the program")
            return put

        return _PLACEHOLDER.sub(value, text)


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts that an option is, or has in a list or as values of a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (part for part in value if isinstance(part, str))
    elif isinstance(value, dict):
        yield from (part for part in value.values() if isinstance(part, str))


def _reversed(text: str, pattern: NamePattern) -> tuple[str, list[int]]:
    """Return the expression for what comes of a text with placeholders, and which star each of its groups is."""
    whole = ""
    stars: list[int] = []
    for place, part in enumerate(_PLACEHOLDER.split(text)):
        if place % 2 == 0:
            whole += re.escape(part)
        elif part == "name":
            whole += _STAR.join(map(re.escape, pattern.text.split(STAR)))
            stars += range(pattern.stars)
        else:
            whole += _STAR
            stars.append(int(part) - 1)
    return whole, stars


def _is_open(url: str) -> bool:
    """Say whether placeholders stand in a URL where they may."""
    found = _URL.fullmatch(url)
    if found is None:
        return not _PLACEHOLDER.search(url)
    authority = found[2]
    return not _PLACEHOLDER.search(authority) or _AUTHORITY.fullmatch(authority) is not None


@cache
def _marks(model: type[Options]) -> dict[str, FromName]:
    return {
        key: mark for key, field in model.model_fields.items() for mark in field.metadata if isinstance(mark, FromName)
    }
