"""Small, strict readers of the dialects that copies are printed in, written from the engines' rules and not from ours.

Each refuses whatever some engine refuses or reads differently from another, and gives what it read as the model.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.grammar.recogniser import first, is_nullable, nullable

from guideway.grammar.model import (
    Alternative,
    Atom,
    Characters,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
    Rule,
    Terminal,
)

_TIMES = {"?": (0, 1), "*": (0, None), "+": (1, None)}


class ReadError(ValueError):
    """Something that an engine refuses, or reads as something else."""


@dataclass(frozen=True)
class _Syntax:
    """What tells one dialect from another."""

    token: re.Pattern[str]
    literal: Callable[[str], str]
    times: Callable[[str], tuple[int, int | None]]
    regex: Callable[[str], str] = lambda text: text[1:-1]


class _Reader:
    """Reads alternatives from tokens; a group's name says what a token is."""

    def __init__(self, text: str, syntax: _Syntax) -> None:
        self._syntax = syntax
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = syntax.token.match(text, at)
            if match is None or match.lastgroup is None:
                raise ReadError(f"cannot read {text[at : at + 20]!r}")
            if match.lastgroup != "space":
                self._tokens.append((match.lastgroup, match.group()))
            at = match.end()
        self._at = 0

    def whole(self) -> tuple[Alternative, ...]:
        found = self._alternatives()
        if self._at < len(self._tokens):
            raise ReadError(f"what is {self._tokens[self._at][1]!r} for?")
        return found

    def _alternatives(self) -> tuple[Alternative, ...]:
        found = [self._alternative()]
        while self._peek() == ("mark", "|"):
            self._at += 1
            found.append(self._alternative())
        return tuple(found)

    def _alternative(self) -> Alternative:
        items: list[Item] = []
        while (token := self._peek()) is not None and token not in {("mark", "|"), ("mark", ")")}:
            self._at += 1
            atom = self._atom(*token)
            times = self._peek()
            if times is not None and times[0] == "times":
                self._at += 1
                items.append(Repeat(atom, *self._syntax.times(times[1])))
            else:
                items.append(atom)
        if not items:
            raise ReadError("an empty alternative: XGrammar refuses it")
        return Alternative(tuple(items))

    def _atom(self, kind: str, text: str) -> Atom:
        match kind:
            case "literal":
                return Literal(self._syntax.literal(text[1:-1]))
            case "class":
                return read_class(text[1:-1])
            case "regex":
                return Pattern(self._syntax.regex(text))
            case "name":
                return Reference(text)
            case "mark" if text == "(":
                inner = self._alternatives()
                if self._peek() != ("mark", ")"):
                    raise ReadError("an open parenthesis")
                self._at += 1
                return Group(inner)
            case _:
                raise ReadError(f"{text!r} stands nowhere")

    def _peek(self) -> tuple[str, str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def read_class(body: str) -> Characters:
    """Read what stands between the brackets of a class, where no character needs an escape and a hyphen is last."""
    ranges: list[tuple[str, str]] = []
    hyphen = body.endswith("-")
    rest = body[: len(body) - hyphen]
    while rest:
        match = re.match(r"([A-Za-z0-9._:@])(?:-([A-Za-z0-9._:@]))?", rest)
        if match is None or match[1] > (match[2] or match[1]):
            raise ReadError(f"the class [{body}]")
        ranges.append((match[1], match[2] or match[1]))
        rest = rest[match.end() :]
    return Characters((*ranges, *([("-", "-")] if hyphen else [])))


def _unescaped(escapes: dict[str, str]) -> Callable[[str], str]:
    def unescape(text: str) -> str:
        if not text:
            raise ReadError("an empty literal")
        if not (text.isascii() and text.isprintable()):
            raise ReadError(f"{text!r} is not printable ASCII")

        def char(match: re.Match[str]) -> str:
            if match[1] not in escapes:
                raise ReadError(f"the escape \\{match[1]}")
            return escapes[match[1]]

        return re.sub(r"\\(.)", char, text)

    return unescape


def _counted(text: str) -> tuple[int, int | None]:
    if text in _TIMES:
        return _TIMES[text]
    match = re.fullmatch(r"\{(\d+),(\d+)\}", text)
    if match is None or not int(match[1]) < int(match[2]) <= 2000:  # llama.cpp reads more than 2000 as any number
        raise ReadError(f"the repetition {text}")
    return int(match[1]), int(match[2])


_GBNF = _Syntax(
    re.compile(
        r"""(?P<space>[ ]+) | (?P<literal>"(?:[^"\\\n]|\\.)*") | (?P<class>\[[^\]\n]*\])
        | (?P<times>[?*+]|\{[^}\n]*\}) | (?P<name>[a-z][a-z0-9-]*) | (?P<mark>[|()])""",
        re.VERBOSE,
    ),
    _unescaped({"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}),
    _counted,
)


def read_gbnf(text: str) -> Grammar:
    """Read GBNF as all of llama.cpp, XGrammar and their kin do. Raises ``ReadError``."""
    grammar = _lines(text, "#", _gbnf_rule)
    _sane(grammar, "root")
    return grammar


def _gbnf_rule(line: str) -> Rule:
    match = re.fullmatch(r"([a-z][a-z0-9-]*) ::= (.+)", line)
    if match is None:
        raise ReadError(f"not a rule on one line: {line!r}")
    return Rule(match[1], _Reader(match[2], _GBNF).whole())


def _lines(text: str, mark: str, read: Callable[[str], Rule | Terminal]) -> Grammar:
    """Read paragraphs of comments and definitions, one a line."""
    if not text.endswith("\n"):
        raise ReadError("the last line has no end")
    paragraphs = []
    for part in text[:-1].split("\n\n"):
        lines = part.split("\n")
        comment = tuple(line.removeprefix(mark).removeprefix(" ") for line in lines if line.startswith(mark))
        paragraphs.append(Paragraph(comment, tuple(read(line) for line in lines if not line.startswith(mark))))
    return Grammar(tuple(paragraphs))


def _sane(grammar: Grammar, root: str) -> None:
    """Refuse what makes an engine refuse, hang, or read another grammar."""
    names = [definition.name for definition in grammar.definitions()]
    if len(names) != len(set(names)):
        raise ReadError("a rule twice: llama.cpp takes the last one and says nothing")
    if root not in names:
        raise ReadError(f"there is no `{root}`")
    rules = grammar.rules
    empty = nullable(grammar)
    edges = {}
    for name, rule in rules.items():
        for repeat in _repeats(rule.alternatives):
            if is_nullable(repeat.item, empty):
                raise ReadError(f"`{name}` repeats what can be empty: llama.cpp hangs")
        edges[name] = {other for other in first(grammar, rule) if other in rules}
    if unknown := {name for rule in rules.values() for name in _names(rule.alternatives)} - set(names):
        raise ReadError(f"undefined: {unknown}")
    done: set[str] = set()
    while more := {name for name, ahead in edges.items() if name not in done and ahead <= done}:
        done |= more
    if len(done) < len(edges):
        raise ReadError("left recursion: llama.cpp refuses it")


def _repeats(alternatives: tuple[Alternative, ...]) -> Iterator[Repeat]:
    for alternative in alternatives:
        for item in alternative.items:
            if isinstance(item, Repeat):
                yield item
            inner = item.item if isinstance(item, Repeat) else item
            if isinstance(inner, Group):
                yield from _repeats(inner.alternatives)


def _names(alternatives: tuple[Alternative, ...]) -> Iterator[str]:
    for alternative in alternatives:
        for item in alternative.items:
            inner = item.item if isinstance(item, Repeat) else item
            if isinstance(inner, Group):
                yield from _names(inner.alternatives)
            elif isinstance(inner, Reference):
                yield inner.name


def _counted_lark(text: str) -> tuple[int, int | None]:
    if text in _TIMES:
        return _TIMES[text]
    match = re.fullmatch(r"~(\d+)\.\.(\d+)", text)
    if match is None or not int(match[1]) < int(match[2]):
        raise ReadError(f"the repetition {text}")
    return int(match[1]), int(match[2])


_LARK = _Syntax(
    re.compile(
        r"""(?P<space>[ ]+) | (?P<literal>"(?:[^"\\\n]|\\.)*") | (?P<regex>/(?:[^/\\\n]|\\.)+/)
        | (?P<times>[?*+]|~\d+\.\.\d+) | (?P<name>[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*) | (?P<mark>[|()])""",
        re.VERBOSE,
    ),
    _unescaped({"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}),
    _counted_lark,
)


def read_llguidance(text: str) -> Grammar:
    """Read Lark as llguidance does: rules of literals and terminals, nothing ignored. Raises ``ReadError``."""
    grammar = _lines(re.sub(r"\n    \| ", " | ", text), "//", _lark_definition)
    _sane(grammar, "start")
    return grammar


def _lark_definition(line: str) -> Rule | Terminal:
    match = re.fullmatch(r"([a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*): (.+)", line)
    if match is None:
        raise ReadError(f"not a definition: {line!r}")
    alternatives = _Reader(match[2], _LARK).whole()
    return (Terminal if match[1].isupper() else Rule)(match[1], alternatives)


def _quoted(text: str) -> str:
    if not text:
        raise ReadError("an empty literal")
    return text


def _w3c_class(text: str) -> str:
    """Return a class, or a character by its number, as Python writes it."""
    return re.sub(r"#x([0-9A-F]+)", lambda match: f"\\u{int(match[1], 16):04x}", text)


_W3C = _Syntax(
    re.compile(
        r"""(?P<space>[ \n]+) | (?P<literal>"[^"\n]*"|'[^'\n]*') | (?P<regex>\[[^\]\n]*\]|\#x[0-9A-F]+)
        | (?P<times>[?*+]) | (?P<name>[A-Za-z][A-Za-z_]*) | (?P<mark>[|()])""",
        re.VERBOSE,
    ),
    _quoted,
    _TIMES.__getitem__,
    _w3c_class,
)


def read_w3c(text: str) -> Grammar:
    """Read the notation of XML 1.0, section 6, with comments on lines of their own; classes are read as patterns."""
    paragraphs = []
    for part in text.split("\n\n"):
        comment = tuple(re.findall(r"^/\* (.*) \*/$", part, re.MULTILINE))
        rest = re.sub(r"^/\* .* \*/$", "", part, flags=re.MULTILINE).strip()
        found: list[Rule | Terminal] = []
        for definition in re.split(r"\n(?=[A-Za-z])", rest) if rest else []:
            name, said = re.fullmatch(r"(\w+) ::= (.+)", definition, re.DOTALL).groups()  # type: ignore[union-attr]
            alternatives = _Reader(said, _W3C).whole()
            found.append((Terminal if name.isupper() else Rule)(name, alternatives))
        paragraphs.append(Paragraph(comment, tuple(found)))
    return Grammar(tuple(paragraphs))


def w3c_as_regex(alternatives: tuple[Alternative, ...]) -> str:
    """Return what a terminal of that notation matches, as a regular expression of Python's."""

    def of(item: Item) -> str:
        match item:
            case Literal(text):
                return f"(?:{re.escape(text)})"
            case Pattern(text):
                return text
            case Group(inner):
                return f"(?:{w3c_as_regex(inner)})"
            case Repeat(inner, least, most):
                return of(inner) + {(0, 1): "?", (0, None): "*", (1, None): "+"}[least, most]
            case _:
                raise AssertionError(item)

    return "|".join("".join(map(of, alternative.items)) for alternative in alternatives)


def without_header(grammar: Grammar) -> Grammar:
    """Return a copy as it was read, without the comment at its head."""
    first, *rest = grammar.paragraphs
    assert not first.definitions
    return Grammar(tuple(rest))


def normal(grammar: Grammar, name: dict[str, str]) -> Grammar:
    """Return a grammar under other names, with the ranges of classes in one order."""

    def atom(one: Atom) -> Atom:
        match one:
            case Reference(old):
                return Reference(name.get(old, old))
            case Characters(ranges):
                return Characters(tuple(sorted(ranges)))
            case Group(alternatives):
                return Group(tuple(map(alternative, alternatives)))
            case _:
                return one

    def item(one: Item) -> Item:
        return Repeat(atom(one.item), one.least, one.most) if isinstance(one, Repeat) else atom(one)

    def alternative(old: Alternative) -> Alternative:
        return Alternative(tuple(map(item, old.items)))

    def definition(old: Rule | Terminal | Ignore) -> Rule | Terminal:
        assert not isinstance(old, Ignore)
        return type(old)(name.get(old.name, old.name), tuple(map(alternative, old.alternatives)))

    return Grammar(tuple(Paragraph(p.comment, tuple(map(definition, p.definitions))) for p in grammar.paragraphs))
