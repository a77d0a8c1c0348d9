"""The tests of the copies would catch each fault that copies of other programs are known to have had.

Each fault is put into a printer or a grammar, and what the tests read from the copy is then refused, or differs.
"""

import re
from collections.abc import Callable

import lark
import pytest
from tests.grammar.readers import ReadError, normal, read_gbnf, read_llguidance, without_header
from tests.grammar.recogniser import language
from tests.grammar.trees import Names, every_program, laid_out

from guideway.dsl.ast import Target
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import Layout, Shape, Wrap, copy_for, published_grammar
from guideway.grammar.copies import _copy
from guideway.grammar.dialects import gbnf, regex, spelling
from guideway.grammar.loader import read_grammar
from guideway.grammar.model import Alternative, Grammar, Group, Literal, Paragraph, Reference, Repeat, Rule
from guideway.grammar.names import exactly
from guideway.grammar.spell import spell

Load = Callable[[str], lark.Lark]

NAMES: Names = {
    Target.HOST: ("a.b", "x-", "x.", "x0", "x9"),
    Target.SERVICE: ("s",),
    Target.RESTARTABLE: ("r",),
}
#: So many that they are a pattern.
MANY: Names = {**NAMES, Target.HOST: ("a.b", "c.d", *(f"x{number}" for number in range(100)))}


@pytest.fixture(autouse=True)
def afresh() -> None:
    """A copy that was made before the fault is not the faulty one."""
    _copy.cache_clear()


def text(dialect: str = "gbnf", wrap: Wrap = Wrap.NONE, names: Names = NAMES) -> str:
    """Return the text of a copy: in lines where it can be, so that line ends are in it too."""
    return copy_for(PROGRAM_SCOPES, dialect, names=names, layout=Layout.LINES, shape=Shape(1, 2), wrap=wrap).text


def rules(*given: Rule) -> Grammar:
    return Grammar((Paragraph((), given),))


def test_without_a_fault_everything_is_read() -> None:
    for wrap in Wrap:
        read_gbnf(text(wrap=wrap))
        read_llguidance(text("llguidance", wrap))


def test_an_underscore_in_a_rule_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gbnf, "_name", lambda name: "root" if name == "start" else name)
    with pytest.raises(ReadError, match="cannot read '_0"):
        read_gbnf(text())


@pytest.mark.parametrize("char", ['"', "\\", "\n"])
@pytest.mark.parametrize(("dialect", "read"), [("gbnf", read_gbnf), ("llguidance", read_llguidance)])
def test_an_unescaped_character(
    monkeypatch: pytest.MonkeyPatch, dialect: str, read: Callable[[str], Grammar], char: str
) -> None:
    right = read(text(dialect, Wrap.HERMES))
    monkeypatch.delitem(spelling.ESCAPES, char)
    _copy.cache_clear()
    try:
        wrong = read(text(dialect, Wrap.HERMES))
    except ReadError:
        return
    assert wrong != right


@pytest.mark.parametrize("bad", ['a"', "a\\", 'a" | "b', "a\n"])
def test_a_quote_or_a_backslash_in_a_name(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    """Stopped where names come in; were it not, each would still be read back as itself and not as grammar."""
    monkeypatch.setattr("guideway.grammar.names.is_name", lambda _: True)
    for wrap in (Wrap.NONE, Wrap.JSON):
        read = read_gbnf(text(wrap=wrap, names={**NAMES, Target.HOST: ("a", bad)}))
        assert len(read.rules["host"].alternatives) == 2
        expected = bad if wrap is Wrap.NONE else bad.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        quote = '"' if wrap is Wrap.NONE else '\\"'
        assert Alternative((Literal(f"{quote}{expected}{quote}"),)) in read.rules["host"].alternatives


def test_a_point_of_a_name_in_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unescaped, it would stand for any character: for a host of somebody else."""
    for dialect in ("regex", "llguidance", "lark"):
        assert r"a\.b" in text(dialect, names=MANY)
    assert not re.fullmatch(text("regex"), 'PING "aXb"')
    escapes = {char: escape for char, escape in regex._ESCAPES.items() if char != "."}
    monkeypatch.setattr(regex, "_ESCAPES", escapes)
    _copy.cache_clear()
    assert re.fullmatch(text("regex"), 'PING "aXb"'), "a fault that nothing would show"


def test_a_class_range_with_a_hyphen_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(ranges: tuple[tuple[str, str], ...]) -> str:
        return "".join(low if low == high else f"{low}-{high}" for low, high in ranges)

    names = {**NAMES, Target.HOST: [f"x{mark}{n}" for mark in "-.0" for n in range(100)]}
    read_gbnf(text(names=names))
    monkeypatch.setattr(gbnf, "class_body", body)
    _copy.cache_clear()
    assert "[-.0]" in text(names=names)
    with pytest.raises(ReadError, match="the class"):
        read_gbnf(text(names=names))


@pytest.mark.parametrize("ends", ["-.", ",-", " a", "]]", "^^", "\\\\", "[[", "é"])
def test_a_class_that_needs_an_escape_is_not_printed(ends: str) -> None:
    with pytest.raises(ValueError, match="a class cannot hold"):
        spelling.class_body(((ends[0], ends[-1]),))


def test_an_empty_alternative_under_a_star() -> None:
    empty = Group((Alternative((Literal("a"),)), Alternative(())))
    hidden = Group((Alternative((Repeat(Literal("a"), 0, None),)),))
    for inner in (empty, hidden, Reference("may_be_empty")):
        grammar = rules(
            Rule("start", (Alternative((Literal("("), Repeat(inner, 0, None))),)),
            Rule("may_be_empty", (Alternative((Repeat(Literal("a"), 0, 1),)),)),
        )
        with pytest.raises(ReadError, match=r"empty"):
            read_gbnf(gbnf.print_grammar(grammar))


def test_hidden_left_recursion() -> None:
    grammar = rules(
        Rule(
            "start", (Alternative((Reference("space"), Reference("start"), Literal("a"))), Alternative((Literal("x"),)))
        ),
        Rule("space", (Alternative((Repeat(Literal(" "), 0, 1),)),)),
    )
    with pytest.raises(ReadError, match="left recursion"):
        read_gbnf(gbnf.print_grammar(grammar))


def test_a_missing_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gbnf, "ROOT", "start")
    with pytest.raises(ReadError, match="no `root`"):
        read_gbnf(text())


def test_a_rule_twice() -> None:
    rule = Rule("start", (Alternative((Literal("a"),)),))
    with pytest.raises(ReadError, match="twice"):
        read_gbnf(gbnf.print_grammar(rules(rule, rule)))


@pytest.mark.parametrize("times", [1, 2001])
def test_a_repetition_that_an_engine_reads_otherwise(times: int) -> None:
    grammar = rules(Rule("start", (Alternative((Repeat(Literal("a"), 1, times),)),)))
    with pytest.raises(ReadError, match="the repetition"):
        read_gbnf(gbnf.print_grammar(grammar))


def test_a_character_that_is_not_printable_ascii() -> None:
    with pytest.raises(ReadError, match="not printable ASCII"):
        read_gbnf(gbnf.print_grammar(rules(Rule("start", (Alternative((Literal("\u00e9"),)),)))))


# A keyword that is a prefix of another


def renamed(old: str, new: str) -> str:
    """Return the published file with another spelling of a keyword."""
    file = copy_for(PROGRAM_SCOPES).text
    assert file.count(f'"{old}" WORD_END') == 1
    return file.replace(f'"{old}" WORD_END', f'"{new}" WORD_END')


def reads(reader: lark.Lark, text: str) -> bool:
    try:
        reader.parse(text)
    except lark.UnexpectedInput:
        return False
    return True


def test_a_keyword_that_is_a_prefix_of_another_in_the_published_copy(load: Load) -> None:
    """The end of a keyword keeps them apart; without it, one would be read out of the other."""
    file = renamed("RESTART", "GET")
    reader = load(file)
    assert reads(reader, 'GET "a" GET_STATUS "a"')
    assert not reads(reader, 'GET_STATUSGET "a"')
    assert not reads(reader, 'TRYGET "a" CATCH {}')
    assert reads(load(file.replace(" WORD_END\n", "\n")), 'TRYGET "a" CATCH {}'), "a fault that nothing would show"


def test_a_keyword_that_is_a_prefix_of_another_in_a_spelled_copy() -> None:
    grammar = read_grammar(renamed("RESTART", "GET"))
    names = {kind.value: exactly(NAMES[kind]) for kind in Target}
    texts = language(spell(grammar, names, Shape(0, 1), Layout.ONE_LINE))
    assert {'GET "r"', 'GET_STATUS "s"'} < texts
    assert not any(one != other and other.startswith(one) for one in texts for other in texts)


# White space that is demanded where none is left, or where there may be some


@pytest.mark.parametrize(
    ("opening", "before", "behind", "closing"),
    [
        ("{ ", "", " ", " }"),  # an empty block would have two spaces
        ("{", " ", " ", " }"),  # so would the end of one with a statement
        ("{", " ", "", "}"),  # none before the brace
        ("{ ", " ", "", " }"),
    ],
)
def test_white_space_at_the_wrong_place(opening: str, before: str, behind: str, closing: str) -> None:
    few: Names = {Target.HOST: ("h",), Target.SERVICE: ("s",), Target.RESTARTABLE: ("r",)}
    shape = Shape(1, 1)
    names = {kind.value: exactly(few[kind]) for kind in Target}
    right = spell(published_grammar(), names, shape, Layout.ONE_LINE)
    inner = Group((Alternative((Literal(before), Reference("statement_1"), Literal(behind))),))
    body = Alternative((Literal(opening), Repeat(inner, 0, 1), Literal(closing)))
    faulty = Rule("block_0", (body,))
    wrong = rules(*(faulty if rule.name == faulty.name else rule for rule in right.rules.values()))
    programs = {laid_out(tree, Layout.ONE_LINE) for tree in every_program(PROGRAM_SCOPES, few, shape)}
    assert language(right) == programs
    assert language(wrong) != programs


def test_two_copies_that_differ_are_told_apart() -> None:
    """What the comparison of a dialect with the grammar rests on."""
    one, other = (without_header(read_gbnf(text(names={**NAMES, Target.SERVICE: (name,)}))) for name in ("s", "t"))
    assert normal(one, {}) != normal(other, {})
