"""A grammar of tokens as railroad diagrams, one below the other, for the documentation.

Drawn by the package ``railroad-diagrams``, which nothing else needs; it is loaded when one is drawn.
"""

from collections.abc import Iterator
from html import escape
from io import StringIO
from itertools import chain
from types import ModuleType
from typing import Any, Final, assert_never

from guideway.grammar.model import (
    Alternative,
    Characters,
    Grammar,
    Group,
    Item,
    Literal,
    Pattern,
    Reference,
    Repeat,
    Rule,
)

_STYLE: Final = """
.page { background-color: #fff; }
.page > text { font: 14px sans-serif; }
.page > text.rule { font: bold 16px sans-serif; }
.railroad-diagram path { stroke: #333; stroke-width: 2; fill: none; }
.railroad-diagram text { font: bold 14px monospace; text-anchor: middle; }
.railroad-diagram rect { stroke: #333; stroke-width: 2; fill: #eef4fb; }
.railroad-diagram g.terminal rect { fill: #e9f5e4; }
"""
_MARGIN: Final = 20
_LINE: Final = 20


def print_grammar(grammar: Grammar) -> str:
    """Return the rules of a grammar of tokens as one SVG. Raises ``ValueError`` where the package is not there."""
    draw = _Drawer(grammar)
    parts: list[str] = []
    width, y = 0, _MARGIN
    for comment, rule in _rules(grammar):
        for style, line in (("rule", rule.name), *(("comment", line) for line in comment)):
            y += _LINE
            parts.append(f'<text class="{style}" x="{_MARGIN}" y="{y}">{escape(line, quote=False)}</text>')
        drawn, wide, high = draw.rule(rule, y)
        parts.append(drawn)
        width, y = max(width, wide), y + high + _LINE
    size = f'width="{width}" height="{y}" viewBox="0 0 {width} {y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="page" {size}>\n<style>{_STYLE}</style>\n'
    return head + "\n".join(parts) + "\n</svg>\n"


def _rules(grammar: Grammar) -> Iterator[tuple[tuple[str, ...], Rule]]:
    """Yield the rules in order; the first of a paragraph with its comment."""
    for paragraph in grammar.paragraphs:
        rules = [definition for definition in paragraph.definitions if isinstance(definition, Rule)]
        yield from zip(chain([paragraph.comment], iter(tuple, None)), rules, strict=False)


class _Drawer:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._railroad = _package()

    def rule(self, rule: Rule, y: int) -> tuple[str, int, int]:
        """Return the drawing of a rule that stands at a height, with its width and its own height, in pixels."""
        diagram = self._railroad.Diagram(self._alternatives(rule.alternatives)).format(_MARGIN)
        diagram.attrs["y"] = str(y)
        written = StringIO()
        diagram.writeSvg(written.write)
        return written.getvalue().rstrip(), round(float(diagram.attrs["width"])), round(float(diagram.attrs["height"]))

    def _alternatives(self, alternatives: tuple[Alternative, ...]) -> Any:
        drawn = [self._sequence(alternative) for alternative in alternatives]
        return drawn[0] if len(drawn) == 1 else self._railroad.Choice(0, *drawn)

    def _sequence(self, alternative: Alternative) -> Any:
        items = [self._item(item) for item in alternative.items]
        return items[0] if len(items) == 1 else self._railroad.Sequence(*items) if items else self._railroad.Skip()

    def _item(self, item: Item) -> Any:
        match item:
            case Literal(text) | Pattern(text):
                return self._railroad.Terminal(text)
            case Characters(ranges):
                return self._railroad.Terminal(" ".join(f"{first}-{last}" for first, last in ranges))
            case Reference(name):
                keyword = self._grammar.terminals[name].keyword if item.is_terminal else None
                return self._railroad.NonTerminal(name) if keyword is None else self._railroad.Terminal(keyword)
            case Group(alternatives):
                return self._alternatives(alternatives)
            case Repeat(inner, 0, 1):
                return self._railroad.Optional(self._item(inner))
            case Repeat(inner, 0):
                return self._railroad.ZeroOrMore(self._item(inner))
            case Repeat(inner):
                return self._railroad.OneOrMore(self._item(inner))
            case _:
                assert_never(item)


def _package() -> ModuleType:
    try:
        import railroad  # noqa: PLC0415  # only here, and only when something is drawn
    except ImportError as missing:
        raise ValueError("the dialect `svg` needs the package `railroad-diagrams`") from missing
    package: ModuleType = railroad
    return package
