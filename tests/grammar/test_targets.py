"""A caller's copy names what that caller may use with each command, and nothing else."""

import random
from collections.abc import Callable

import lark
import pytest
from tests.grammar.trees import Names

from guideway.dsl.ast import COMMANDS, Target
from guideway.dsl.lexer import NAME_PATTERN
from guideway.dsl.parser import Limits
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import DIALECTS, FINITE, Form, NoGrammar, Shape, TooLarge, Wrap, copy_for, published_grammar
from guideway.grammar.copies import KEPT, _copy
from guideway.grammar.loader import read_grammar
from guideway.grammar.names import IN_TREE, LISTED
from guideway.grammar.trim import rule_name

Load = Callable[[str], lark.Lark]

READ, WRITE = frozenset({Scope.READ}), frozenset({Scope.WRITE})
SOME: Names = {
    Target.HOST: ("h", "h-1", "h.1"),
    Target.SERVICE: ("s", "a", "h"),
    Target.RESTARTABLE: ("a",),
}


def counted(count: int) -> list[str]:
    return [f"web-{number:05}.example" for number in range(count)]


def at_random(count: int) -> list[str]:
    choose = random.Random(count)  # noqa: S311  # nothing secret
    return ["".join(choose.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=12)) for _ in range(count)]


def accepts(reader: lark.Lark, text: str) -> bool:
    try:
        reader.parse(text)
    except lark.UnexpectedInput:
        return False
    return True


FORMS = [
    (("one",), Form.LIST),
    (counted(LISTED), Form.LIST),
    (counted(LISTED + 1), Form.TREE),
    (counted(10_000), Form.TREE),
    ([f"x{mark}{n}" for mark in "._:@-" for n in range(50)], Form.TREE),
    (at_random(IN_TREE), Form.PATTERN),
]


@pytest.mark.parametrize(("names", "form"), FORMS)
def test_the_published_copy_takes_each_name_and_no_other(load: Load, names: list[str], form: Form) -> None:
    """Listed, as one regular expression, and at last by the pattern of all names so long, which the copy says."""
    copy = copy_for(PROGRAM_SCOPES, names=dict.fromkeys(Target, names))
    assert set(copy.names.values()) == {form}
    reader = load(copy.text)
    longest = max(map(len, names))
    choose = random.Random(1)  # noqa: S311  # nothing secret
    for name in {*choose.sample(list(names), min(50, len(names))), names[0], names[-1]}:
        for near in (name, name[:-1] + "!", f"{name}x", name[1:] or "-", name.upper(), name.replace(".", "-")):
            known = near in names or (form is Form.PATTERN and near.isalnum() and len(near) <= longest)
            for command in ("PING", "GET_STATUS", "RESTART"):
                assert accepts(reader, f'{command}"{near}"#') == known
    if form is Form.PATTERN:
        assert copy.notes == tuple(
            f"{kind}: any name, since there are {len(names):,}, too many to list. One that does not exist is refused."
            for kind in Target
        )
        assert all(f"// {note}\n" in copy.text for note in copy.notes)
    else:
        assert copy.notes == ()
    assert NAME_PATTERN not in copy.text


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.keyword != "IF_RUNNING"])
def test_each_command_takes_the_names_of_its_own_kind(load: Load, command: type) -> None:
    reader = load(copy_for(PROGRAM_SCOPES, names=SOME).text)
    for name in {name for names in SOME.values() for name in names}:
        assert accepts(reader, f'{command.keyword} "{name}"') == (name in SOME[command.names])  # type: ignore[attr-defined]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pattern_is_noted_where_comments_can_be(dialect: str) -> None:
    wrap = Wrap.HERMES if dialect == "structural-tag" else Wrap.NONE
    copy = copy_for(READ, dialect, names={Target.HOST: at_random(IN_TREE), Target.SERVICE: ("s",)}, wrap=wrap)
    assert dict(copy.names) == {Target.HOST: Form.PATTERN, Target.SERVICE: Form.LIST}
    (note,) = copy.notes
    assert note.startswith("HOST: any name, since there are 4,096,")
    assert (note in copy.text) == (dialect not in {"regex", "json-schema", "svg"})


def test_no_names_given_is_any_name_and_says_nothing() -> None:
    copy = copy_for(READ)
    assert dict(copy.names) == {Target.HOST: Form.PATTERN, Target.SERVICE: Form.PATTERN}
    assert copy.notes == ()
    assert copy.text == copy_for(READ, names=None).text


@pytest.mark.parametrize("missing", Target)
@pytest.mark.parametrize("dialect", ["lark", "gbnf", "llguidance", "w3c"])
def test_a_kind_without_names_has_no_command(missing: Target, dialect: str) -> None:
    """Whether it is empty or not mentioned; and what only those commands led to is gone too."""
    names = {kind: named for kind, named in SOME.items() if kind is not missing}
    copy = copy_for(PROGRAM_SCOPES, dialect, names=names)
    assert copy.text == copy_for(PROGRAM_SCOPES, dialect, names={**names, missing: ()}).text
    assert set(copy.names) == set(names)
    for command in COMMANDS:
        assert (f'"{command.keyword}' in copy.text) == (command.names is not missing)
        assert (command.summary[1:] in copy.text) == (command.names is not missing)
    assert missing.value.lower() not in (word.lower() for word in copy.text.replace(":", " ").split())
    assert ("ELSE" in copy.text) == (missing is not Target.SERVICE)


def test_who_may_restart_nothing_has_no_restart() -> None:
    copy = copy_for(PROGRAM_SCOPES, names={**SOME, Target.RESTARTABLE: ()})
    assert "RESTART" not in copy.text
    assert rule_name(COMMANDS[2]) not in read_grammar(copy.text).rules
    assert copy.scopes == PROGRAM_SCOPES


@pytest.mark.parametrize(
    ("scopes", "names"),
    [
        (PROGRAM_SCOPES, {}),
        (READ, {Target.RESTARTABLE: ("a",)}),
        (WRITE, {Target.HOST: ("a",), Target.SERVICE: ("a",)}),
        (WRITE, {Target.RESTARTABLE: ()}),
    ],
)
def test_nothing_to_name_no_grammar(scopes: frozenset[Scope], names: Names) -> None:
    with pytest.raises(NoGrammar, match=r"has nothing to name$"):
        copy_for(scopes, names=names)


def test_no_scope_is_told_before_no_names() -> None:
    with pytest.raises(NoGrammar, match="it takes `mcp:diag:read`"):
        copy_for(frozenset(), names={})


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "structural-tag"])
def test_what_is_no_name_is_in_no_copy(dialect: str) -> None:
    for bad in ('a"', "a\\", "a\nb", "a]", "", "-a", "a b"):
        with pytest.raises(ValueError, match="is not a name that a program can spell"):
            copy_for(READ, dialect, names={Target.HOST: ("good", bad), Target.SERVICE: ("s",)})


def test_the_order_of_names_changes_nothing() -> None:
    for dialect in ("lark", "gbnf", "llguidance"):
        turned = {kind: tuple(reversed(names)) for kind, names in SOME.items()}
        assert copy_for(READ, dialect, names=SOME).sha256 == copy_for(READ, dialect, names=turned).sha256


@pytest.mark.parametrize("scopes", [READ, WRITE, PROGRAM_SCOPES])
def test_the_published_copy_is_read_back_with_the_callers_names(scopes: frozenset[Scope]) -> None:
    copy = copy_for(scopes, names=SOME)
    terminals = read_grammar(copy.text).terminals
    for kind in copy.names:
        assert [a.items[0].text for a in terminals[kind].alternatives] == sorted(f'"{n}"' for n in SOME[kind])  # type: ignore[union-attr]
    assert ("NAME" in terminals) is False


def test_equal_names_stand_in_the_copy_once() -> None:
    copy = copy_for(PROGRAM_SCOPES, names=dict.fromkeys(Target, ("only",)))
    assert copy.text.count("only") == 1
    assert "SERVICE: HOST\n" in copy.text
    assert "RESTARTABLE: HOST\n" in copy.text


# Limits and keeping


def test_a_shape_stays_within_the_servers_limits() -> None:
    for limits in (Limits(bytes=1_000), Limits(commands=20), Limits(nesting=3)):
        copy = copy_for(READ, "gbnf", names=SOME, limits=limits)
        assert copy.shape is not None
        assert copy.shape.nesting == FINITE.nesting
        assert copy.longest_bytes is not None
        assert copy.longest_bytes <= limits.bytes
    for nesting, statements in ((-1, 1), (1, 0)):
        with pytest.raises(ValueError, match="nests 0 deep or more, and has at least one statement"):
            Shape(nesting, statements)
    with pytest.raises(
        TooLarge, match="the limits let programs nest 64 deep, not 65; there is room for a nesting of 64"
    ):
        copy_for(READ, "gbnf", names=SOME, shape=Shape(65, None))
    with pytest.raises(TooLarge, match="even without nesting"):
        copy_for(READ, "gbnf", names=SOME, limits=Limits(bytes=3))
    assert copy_for(READ, "gbnf", names=SOME, shape=Shape(64, None)).longest_bytes is None


def test_a_copy_is_made_once() -> None:
    def again(**other: object) -> bool:
        names = {kind: tuple(names) for kind, names in SOME.items()}
        return copy_for(READ, "gbnf", **{"names": names, **other}) is copy_for(READ, "gbnf", names=SOME)  # type: ignore[arg-type]

    assert again()
    assert not again(names=None)
    assert not again(names={**SOME, Target.HOST: ("h",)})
    assert not again(wrap=Wrap.JSON)
    assert not again(shape=Shape(1, 1))
    assert not again(limits=Limits(bytes=30_000))
    assert copy_for(READ | {Scope.APPROVE}, "gbnf", names=SOME) is copy_for(READ, "gbnf", names=SOME)


def test_what_is_kept_is_bounded() -> None:
    before = _copy.cache_info()
    assert before.maxsize == KEPT
    for number in range(KEPT + 10):
        copy_for(READ, "lark", names={Target.HOST: (f"h{number}",)})
    assert _copy.cache_info().currsize == KEPT


def test_the_published_grammar_is_never_changed() -> None:
    before = published_grammar()
    copy_for(READ, names=SOME)
    assert published_grammar() is before
    assert copy_for(PROGRAM_SCOPES).text.count("NAME") == 4
