"""The files that hold copies as they are meant to look. ``python -m tests.grammar.golden`` writes them anew.

A change in them is a change in what is published: read it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from guideway.dsl.ast import Target
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import Layout, Shape, Wrap, copy_for

ROOT: Final = Path(__file__).parents[2]
_NAMES: Final = {
    Target.HOST: ("api.internal", "db-1", "db-2"),
    Target.SERVICE: ("cache", "database"),
    Target.RESTARTABLE: ("database",),
}
_SMALL: Final = Shape(1, 4)


def golden() -> Iterator[tuple[Path, str]]:
    """Yield each file and what it should hold."""
    folder = ROOT / "tests" / "golden" / "grammar"
    for name, dialect, layout, wrap in (
        ("copy.gbnf", "gbnf", Layout.LINES, Wrap.NONE),
        ("copy.ebnf", "ebnf", Layout.ONE_LINE, Wrap.NONE),
        ("copy-hermes.gbnf", "gbnf", Layout.LINES, Wrap.HERMES),
        ("copy.llguidance.lark", "llguidance", Layout.ONE_LINE, Wrap.NONE),
        ("copy.structural-tag.json", "structural-tag", Layout.ONE_LINE, Wrap.HERMES),
        ("copy.regex", "regex", Layout.ONE_LINE, Wrap.NONE),
        ("copy.schema.json", "json-schema", Layout.ONE_LINE, Wrap.NONE),
    ):
        copy = copy_for(PROGRAM_SCOPES, dialect, names=_NAMES, layout=layout, shape=_SMALL, wrap=wrap)
        yield folder / name, copy.text
    for name, dialect in (("reader.lark", "lark"), ("reader.w3c.ebnf", "w3c")):
        yield folder / name, copy_for(frozenset({Scope.READ}), dialect, names=_NAMES).text
    many = {kind: [f"{kind.lower()}-{number:04}" for number in range(10_000)] for kind in Target}
    yield folder / "ten-thousand-names.lark", copy_for(PROGRAM_SCOPES, "lark", names=many).text
    yield ROOT / "docs" / "language.svg", copy_for(PROGRAM_SCOPES, "svg").text


def main() -> None:
    """Write the files."""
    for path, text in golden():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
