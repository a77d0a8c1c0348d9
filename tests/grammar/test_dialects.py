"""What each dialect's text says, read back by a reader that knows nothing of how it was printed: all of it, no more."""

import json
import random
import re
from itertools import product
from typing import NamedTuple
from xml.etree import ElementTree as ET

import jsonschema
import lark
import pytest
from tests.grammar.readers import normal, read_gbnf, read_llguidance, read_w3c, w3c_as_regex, without_header
from tests.grammar.recogniser import language
from tests.grammar.trees import Names

from guideway.dsl.ast import COMMANDS, Target
from guideway.dsl.parser import Limits
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.grammar import (
    DIALECTS,
    FINITE,
    GrammarCopy,
    Layout,
    Shape,
    TooLarge,
    Wrap,
    copy_for,
    published_grammar,
    trim,
)
from guideway.grammar.dialects import Spelled, dialect_of, w3c
from guideway.grammar.measure import NAME_RULES
from guideway.grammar.model import (
    START,
    WORD_END,
    Alternative,
    Grammar,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Terminal,
)
from guideway.grammar.spell import spell
from guideway.grammar.targets import fill, names_of
from guideway.grammar.wrap import ARGUMENT, wrapped

READ, WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})
SCOPE_SETS = (READ, WRITE, PROGRAM_SCOPES)
UNBOUNDED = Shape(64, None)

FEW: Names = {Target.HOST: ("h",), Target.SERVICE: ("s",), Target.RESTARTABLE: ("r",)}
#: Every punctuation mark, names that begin others, names that are keywords, and one as long as can be.
AWKWARD: Names = {
    Target.HOST: ("a", "a-", "a.", "a.b_c:d@e-f", "PING", "9" * 253),
    Target.SERVICE: ("ELSE", "else", "s", "s-1", "s-10"),
    Target.RESTARTABLE: ("s-1",),
}
TREE: Names = {kind: [f"x{mark}{n}" for mark in "._:@-0" for n in range(200)] for kind in Target}


class Case(NamedTuple):
    """Which copy."""

    scopes: frozenset[Scope]
    names: Names | None
    shape: Shape = FINITE
    layout: Layout = Layout.ONE_LINE
    wrap: Wrap = Wrap.NONE

    def copy(self, dialect: str) -> GrammarCopy:
        """Return it in a dialect."""
        names, shape, layout, wrap = self[1:]
        return copy_for(self.scopes, dialect, names=names, shape=shape, layout=layout, wrap=wrap)

    def model(self, dialect: str) -> Grammar:
        """Return the grammar that it should be."""
        shape = self.copy(dialect).shape
        assert shape is not None
        grammar = trim(published_grammar(), self.scopes)
        names = {kind.value: found for kind, found in names_of(grammar, self.names).items()}
        return wrapped(spell(grammar, names, shape, self.layout), self.wrap)


EVERY_NAME: tuple[Names | None, ...] = (FEW, AWKWARD, TREE, None)
CASES = [
    *(Case(scopes, names, Shape(4, None), Layout.LINES) for scopes in SCOPE_SETS for names in EVERY_NAME),
    *(Case(PROGRAM_SCOPES, AWKWARD, FINITE, layout, wrap) for layout, wrap in product(Layout, Wrap)),
    Case(PROGRAM_SCOPES, FEW, UNBOUNDED),
]


@pytest.mark.parametrize("case", CASES)
def test_gbnf(case: Case) -> None:
    text = case.copy("gbnf").text
    assert text.isascii()
    expected = case.model("gbnf")
    kebab = {rule: "root" if rule == START else rule.replace("_", "-") for rule in expected.rules}
    assert len(set(kebab.values())) == len(kebab)
    assert normal(without_header(read_gbnf(text)), {}) == normal(expected, kebab)


@pytest.mark.parametrize("case", CASES)
def test_ebnf_is_what_gbnf_and_xgrammar_have_in_common(case: Case) -> None:
    assert case.copy("ebnf").text == case.copy("gbnf").text


@pytest.mark.parametrize("case", CASES)
def test_llguidance(case: Case) -> None:
    """Rules as they are, and names as terminals: one regular expression each, for just those names."""
    text = case.copy("llguidance").text
    assert text.isascii()
    expected, read = case.model("llguidance"), without_header(read_llguidance(text))
    upper = {rule: rule.upper() for rule in NAME_RULES}
    for theirs, ours in zip(read.paragraphs, normal(expected, upper).paragraphs, strict=True):
        assert theirs.comment == ours.comment
        for mine, printed in zip(ours.definitions, theirs.definitions, strict=True):
            assert printed.name == mine.name
            if printed.name not in upper.values():
                assert printed == mine
    for target, terminal in read.terminals.items():
        pattern = regex_of(read, terminal)
        names = AWKWARD[Target.HOST] if case.names is None else case.names[Target(target)]
        quote = '"' if case.wrap is Wrap.NONE else '\\"'
        for name in names:
            assert re.fullmatch(pattern, f"{quote}{name}{quote}")
            for near in (name[1:], f"{name}_", f"{name[:-1]}!", name.swapcase(), name.replace(".", "x")):
                expects = case.names is None and near[:1].isalnum() and "!" not in near and len(near) <= 253
                assert bool(re.fullmatch(pattern, f"{quote}{near}{quote}")) == (near in names or expects)


def regex_of(grammar: Grammar, terminal: Terminal) -> str:
    match terminal.alternatives:
        case (Alternative((Pattern(pattern),)),):
            return pattern
        case (Alternative((Reference(other),)),):
            return regex_of(grammar, grammar.terminals[other])
        case _:
            raise AssertionError(terminal)


# The language itself, where it can be written down whole

SHAPES = (Shape(1, 1), Shape(0, 2))
SMALL = [Case(*given) for given in product(SCOPE_SETS, [FEW], SHAPES, Layout)]
EDITS = '"\\\n {}hsrPx-_'


def neighbours(texts: frozenset[str], count: int) -> list[str]:
    """Return texts that are nearly in a language, or in it by chance."""
    choose = random.Random(7)  # noqa: S311  # nothing secret
    known = sorted(texts)
    found = []
    for _ in range(count):
        text = choose.choice(known)
        at = choose.randrange(len(text) + 1)
        match choose.randrange(4):
            case 0:
                found.append(text[:at] + text[at + 1 :])
            case 1:
                found.append(text[:at] + choose.choice(EDITS) + text[at:])
            case 2:
                found.append(text[:at] + choose.choice(known)[at:])
            case _:
                found.append(text[:at] + choose.choice(EDITS) + text[at + 1 :])
    return found


@pytest.mark.parametrize("case", SMALL)
def test_lark_reads_the_dialect_of_llguidance(case: Case) -> None:
    """As LALR, which finds any conflict; the literals are such that its own lexer can tell them apart."""
    reader = lark.Lark(case.copy("llguidance").text, parser="lalr", lexer="contextual", strict=False)
    texts = language(case.model("llguidance"))
    for text in (*texts, *neighbours(texts, 300)):
        try:
            reader.parse(text)
        except lark.UnexpectedInput:
            assert text not in texts
        else:
            assert text in texts


@pytest.mark.parametrize("case", SMALL)
def test_regex_and_json_schema(case: Case) -> None:
    """Whole texts, as Python reads them: no line end behind, and no anchors needed."""
    pattern = re.compile(case.copy("regex").text)
    schema = json.loads(case.copy("json-schema").text)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    texts = language(case.model("regex"))
    for text in (*texts, *neighbours(texts, 300)):
        assert bool(pattern.fullmatch(text)) == (text in texts)
        # Python's `$` also stands before a line feed at the end; ECMA's, by which schemas go, does not.
        assert validator.is_valid({ARGUMENT: text}) == (text.removesuffix("\n") in texts)
        assert not validator.is_valid({ARGUMENT: f"x{text}"})
    for other in ({}, {ARGUMENT: 1}, {ARGUMENT: min(texts), "more": 1}, min(texts)):
        assert not validator.is_valid(other)


def test_a_regex_of_every_shape_that_fits() -> None:
    """Where none is asked for, the deepest; one that is asked for and does not fit is refused with one that does."""
    copy = copy_for(PROGRAM_SCOPES, "regex", names=AWKWARD)
    assert copy.shape is not None
    assert copy.shape.nesting == 2 < FINITE.nesting
    assert copy_for(PROGRAM_SCOPES, "json-schema", names=AWKWARD).shape == copy.shape
    assert copy_for(PROGRAM_SCOPES, "regex", names=FEW).shape == FINITE
    with pytest.raises(TooLarge, match=r"more than 32,768 characters; there is room for a nesting of 2$"):
        copy_for(PROGRAM_SCOPES, "regex", names=AWKWARD, shape=FINITE)
    many = {kind: [f"{kind}-{'x' * 200}-{n}" for n in range(60)] for kind in Target}
    with pytest.raises(TooLarge, match="even without nesting: there are too many names"):
        copy_for(PROGRAM_SCOPES, "regex", names=many)


@pytest.mark.parametrize(
    ("limits", "nesting"),
    [
        (Limits(nesting=2), 2),
        (Limits(nesting=1), 1),
        (Limits(commands=1), 0),
        (Limits(commands=5), 1),
        (Limits(bytes=300), 2),
    ],
)
def test_limits_that_are_tighter_than_the_usual_shape_leave_a_copy(limits: Limits, nesting: int) -> None:
    copy = copy_for(PROGRAM_SCOPES, "gbnf", names=FEW, limits=limits)
    assert copy.shape is not None
    assert copy.shape.nesting == nesting
    assert copy.longest_bytes is not None
    assert copy.longest_bytes <= limits.bytes
    with pytest.raises(TooLarge, match=f"there is room for a nesting of {nesting}$"):
        copy_for(PROGRAM_SCOPES, "gbnf", names=FEW, limits=limits, shape=FINITE)


@pytest.mark.parametrize("dialect", ["structural-tag", "json-schema", "lark", "w3c", "svg"])
@pytest.mark.parametrize("wrap", Wrap)
def test_a_wrap_that_a_dialect_cannot_have_is_refused(dialect: str, wrap: Wrap) -> None:
    """A structural tag is of a whole call, and those that describe the program or the arguments hold no call."""
    if wrap in ({*Wrap} - {Wrap.NONE, Wrap.JSON} if dialect == "structural-tag" else {Wrap.NONE}):
        assert copy_for(PROGRAM_SCOPES, dialect, names=FEW, wrap=wrap).text
    else:
        with pytest.raises(ValueError, match="wrap"):
            copy_for(PROGRAM_SCOPES, dialect, names=FEW, wrap=wrap)


# For people


@pytest.mark.parametrize("names", [FEW, AWKWARD, TREE, None])
@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_w3c(scopes: frozenset[Scope], names: Names | None) -> None:
    """The rules are the published ones; the terminals match what they match, but that lengths are not bounded."""
    trimmed = trim(published_grammar(), scopes)
    published = fill(trimmed, names_of(trimmed, names))
    read = read_w3c(copy_for(scopes, "w3c", names=names).text)
    assert read.rules == published.rules
    assert set(read.terminals) == set(published.terminals) - {WORD_END}
    said = [line for paragraph in read.paragraphs for line in paragraph.comment]
    assert [line for paragraph in published.paragraphs for line in paragraph.comment if line not in said] == []
    assert {f"{name} is ignored." for name in published.ignored} <= set(said)
    for name, terminal in read.terminals.items():
        original = published.terminals[name]
        if terminal.alternatives == original.alternatives:
            continue
        if original.keyword is not None:
            assert terminal.alternatives == (Alternative((Literal(original.keyword),)),)
            continue
        (pattern,) = (item.regex for item in original.alternatives[0].items if isinstance(item, Pattern))
        theirs = re.compile(w3c_as_regex(terminal.alternatives))
        samples = [
            *map(chr, range(0x3000)),
            "\ufeff",
            "\ud800",
            "\r\n",
            " \n",
            "#a",
            "#\x00",
            '"a"',
            '"x.1"',
            '"x-199"',
        ]
        samples += ['"x-200"', '"-a"', '"a_b:c"', '""', '"x01"', '"x00"', "# \u202e", "#\u00e9"]
        for sample in samples:
            assert bool(theirs.fullmatch(sample)) == bool(re.fullmatch(pattern, sample)), (name, sample)


@pytest.mark.parametrize("pattern", ["a.b", "(a)", "a{2}?", r"\d", r"\bx", "^a", "a$", "(?=a)", "[a", "a)", "a|(?:b"])
def test_what_the_notation_cannot_say_is_refused(pattern: str) -> None:
    grammar = Grammar((Paragraph((), (Terminal("A", (Alternative((Pattern(pattern),)),)),)),))
    with pytest.raises(ValueError, match="this notation cannot say"):
        w3c.print_grammar(grammar)


@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_svg(scopes: frozenset[Scope]) -> None:
    """One diagram a rule, with its name, its comment and the words in it; well formed, and drawn inside the page."""
    page = ET.fromstring(copy_for(scopes, "svg").text)  # noqa: S314  # our own text
    svg = "{http://www.w3.org/2000/svg}"
    titles = [found.text for found in page.findall(f"{svg}text") if found.get("class") == "rule"]
    assert titles == list(trim(published_grammar(), scopes).rules)
    diagrams = page.findall(f"{svg}svg")
    assert len(diagrams) == len(titles)
    height, width = float(page.attrib["height"]), float(page.attrib["width"])
    assert all(float(d.attrib["y"]) + float(d.attrib["height"]) <= height for d in diagrams)
    assert all(float(d.attrib["width"]) <= width for d in diagrams)
    words = {found.text for found in page.iter(f"{svg}text")}
    for command in COMMANDS:
        assert (command.keyword in words) == (command.scope in scopes)
    assert {"{", "}", "TRY", "CATCH", "statement"} <= words


# All of them


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if isinstance(dialect_of(name), Spelled)])
def test_the_header_says_whose_it_is_and_how_far_it_goes(dialect: str) -> None:
    wrap = Wrap.HERMES if dialect == "structural-tag" else Wrap.NONE
    copy = copy_for(READ, dialect, names=FEW, layout=Layout.LINES, shape=Shape(1, 4), wrap=wrap)
    assert (copy.layout, copy.shape, copy.wrap) == (Layout.LINES, Shape(1, 4), wrap)
    if dialect == "regex":  # has no comments
        return
    said = re.sub(r"\\n(# |// )", " ", copy.text)
    for fact in (
        f"scopes {scope_list(READ)}",
        f"Layout lines, wrap {wrap}; bodies nest at most 1 deep.",
        "At most 4 statements stand in a row",
        f"The longest text has {copy.longest_bytes:,} bytes",
        f"From any place in a text, at most {copy.way_out_bytes:,} bytes complete it.",
        "cut off at a token limit is no program",
    ):
        assert fact in said


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_not_in_a_copy_is_nowhere_in_it(dialect: str) -> None:
    """Not in a rule, not in a comment: a reader's copy does not tell of restarts, nor of another's names."""
    wrap = Wrap.HERMES if dialect == "structural-tag" else Wrap.NONE
    text = copy_for(READ, dialect, names={**FEW, Target.RESTARTABLE: ("secret",)}, wrap=wrap).text
    assert "secret" not in text
    assert "restart" not in text.lower()
