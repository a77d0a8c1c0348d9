"""Where keys stand in a TOML document, for tricky ones and for any."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.server.toml_places import Path as Place
from guideway.server.toml_places import key_lines, line_of

PLACES: list[tuple[str, dict[Place, int]]] = [
    ('a = 1\n\n# b = 2\nc = "# d = 3"', {("a",): 1, ("c",): 4}),
    ('"a.b" = 1\n\'c d\' = 2\n"\\u0065" = 3', {("a.b",): 1, ("c d",): 2, ("e",): 3}),
    ('a . "b.c" . d = 1\na.e = 2', {("a",): 1, ("a", "b.c"): 1, ("a", "b.c", "d"): 1, ("a", "e"): 2}),
    ('[ a . "b]" ] # [c]\nd = 1', {("a",): 1, ("a", "b]"): 1, ("a", "b]", "d"): 2}),
    ('a = """\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 4}),
    ('a = """\n\\"""\n"b""""\nc = 1', {("a",): 1, ("c",): 4}),
    ("a = '''\n[b]\n'c''''\nd = 1", {("a",): 1, ("d",): 4}),
    (
        "a = [ # [\n  1,\n  [2,\n   3], # ]\n  '],',\n]\nb = 1",
        {("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, 0): 3, ("a", 1, 1): 4, ("a", 2): 5, ("b",): 7},
    ),
    (
        'a = { b = "}", "c.d" = { e = [1, {f = 2}] }, g.h = 1 }\ni = 1',
        {
            ("a",): 1,
            ("a", "b"): 1,
            ("a", "c.d"): 1,
            ("a", "c.d", "e"): 1,
            ("a", "c.d", "e", 0): 1,
            ("a", "c.d", "e", 1): 1,
            ("a", "c.d", "e", 1, "f"): 1,
            ("a", "g"): 1,
            ("a", "g", "h"): 1,
            ("i",): 2,
        },
    ),
    ("a = 1979-05-27 07:32:00\nb = 1", {("a",): 1, ("b",): 2}),
    (
        "[[a]]\nb = 1\n[a.c]\nd = 1\n[[a]]\nb = 1\n[[a.e]]\nf = 1",
        {
            ("a",): 1,
            ("a", 0): 1,
            ("a", 0, "b"): 2,
            ("a", 0, "c"): 3,
            ("a", 0, "c", "d"): 4,
            ("a", 1): 5,
            ("a", 1, "b"): 6,
            ("a", 1, "e"): 7,
            ("a", 1, "e", 0): 7,
            ("a", 1, "e", 0, "f"): 8,
        },
    ),
    ("", {}),
]


@pytest.mark.parametrize(("text", "lines"), PLACES, ids=[text for text, _ in PLACES])
def test_each_key_stands_where_it_is_found(text: str, lines: dict[Place, int]) -> None:
    assert set(paths(tomllib.loads(text))) == set(lines)
    assert key_lines(text) == lines


def test_what_is_missing_stands_where_it_would() -> None:
    lines = key_lines("\n[a]\nb = 1")
    assert line_of(lines, ("a", "c")) == 2
    assert line_of(lines, ("z",)) is None


def paths(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the path of everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*path, key)
        yield from paths(below, (*path, key))


KEYS = st.text(min_size=1, max_size=6) | st.sampled_from(["a", "a-b", "1", "a.b", '"', "'", "# x", "=", "[", "]"])
SCALARS = st.sampled_from(["1", "true", '"#"', "'='", '"\\""', '"""\n[x]\n"""', "'''\ny = 1'''", "07:32:00", "-inf"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[" + "".join(f"\n {part}, # ]\n" for part in parts) + "]")
        | st.dictionaries(KEYS, inner, max_size=3).map(
            lambda parts: "{" + ", ".join(f"{quoted(key)} = {part}" for key, part in parts.items()) + "}"
        )
    ),
    max_leaves=6,
)


def quoted(key: str) -> str:
    """Return a key in double quotes; JSON's escapes are TOML's, but for surrogate pairs and DEL."""
    return json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=4))
def test_every_key_of_any_document_is_found_on_its_own_line(tables: dict[str, dict[str, str]]) -> None:
    text = ""
    expected: dict[Place, int] = {}
    for name, table in tables.items():
        expected[(name,)] = text.count("\n") + 1
        text += f"[ {quoted(name)} ] # {name!a}\n"
        for key, value in table.items():
            expected[name, key] = text.count("\n") + 1
            text += f"\t{quoted(key)}={value}\n"
    lines = key_lines(text)
    assert set(lines) == set(paths(tomllib.loads(text)))
    assert {path: line for path, line in lines.items() if path in expected} == expected
