"""A copy holds what its caller's scopes allow and nothing else, in text that Lark loads; no scope, no copy."""

import hashlib
import subprocess
import sys
from collections.abc import Callable

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.dsl import analyze, parse
from guideway.dsl.ast import COMMANDS, Command
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import DIALECTS, NoGrammar, copy_for, published_grammar, trim
from guideway.grammar.dialects.lark import print_grammar
from guideway.grammar.loader import read_grammar
from guideway.grammar.trim import restrict, rule_name

Load = Callable[[str], lark.Lark]
Tokens = tuple[str, ...]

READ, WRITE, APPROVE = frozenset({Scope.READ}), frozenset({Scope.WRITE}), frozenset({Scope.APPROVE})
SCOPE_SETS = (READ, WRITE, PROGRAM_SCOPES)
PUBLISHED = copy_for(PROGRAM_SCOPES).text


@pytest.fixture(scope="module")
def readers(load: Load) -> dict[frozenset[Scope], lark.Lark]:
    return {scopes: load(copy_for(scopes).text) for scopes in SCOPE_SETS}


def accepts(reader: lark.Lark, text: str) -> bool:
    try:
        reader.parse(text)
    except lark.UnexpectedInput:
        return False
    return True


@pytest.mark.parametrize("scopes", SCOPE_SETS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_copy_spells_exactly_the_programs_of_its_scopes(
    readers: dict[frozenset[Scope], lark.Lark],
    programs: st.SearchStrategy[Tokens],
    scopes: frozenset[Scope],
    data: st.DataObject,
) -> None:
    text = " ".join(data.draw(programs))
    assert accepts(readers[scopes], text) == (analyze(parse(text)).scopes <= scopes)


@pytest.mark.parametrize("scopes", SCOPE_SETS)
@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_in_the_copies_that_hold_their_scope(
    readers: dict[frozenset[Scope], lark.Lark], command: type[Command], scopes: frozenset[Scope]
) -> None:
    assert accepts(readers[scopes], command.example) == (command.scope in scopes)


@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_a_copy_names_no_command_that_it_does_not_hold(scopes: frozenset[Scope]) -> None:
    """Not in a rule, not in a terminal, not in a comment."""
    text = copy_for(scopes).text
    for command in COMMANDS:
        for word in (command.keyword, f"{rule_name(command)}:", command.summary[1:]):
            assert (word in text) == (command.scope in scopes)
        assert (command.names in text) == any(c.names is command.names and c.scope in scopes for c in COMMANDS)


@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_a_copy_holds_nothing_idle(scopes: frozenset[Scope]) -> None:
    copy = trim(published_grammar(), scopes)
    assert trim(copy, scopes) == copy
    assert set(copy.rules) <= set(published_grammar().rules)
    assert ("ELSE" in copy.terminals) == (Scope.READ in scopes)


def test_approving_adds_nothing() -> None:
    assert copy_for(READ | APPROVE) is copy_for(READ)
    assert copy_for(READ | APPROVE).scopes == READ


@pytest.mark.parametrize("scopes", [frozenset(), APPROVE])
def test_no_program_scope_no_grammar(scopes: frozenset[Scope]) -> None:
    for refused in (lambda: copy_for(scopes), lambda: trim(published_grammar(), scopes)):
        with pytest.raises(NoGrammar, match=r"takes `mcp:diag:read` or `mcp:diag:write`$"):
            refused()


def test_unknown_dialects_are_refused() -> None:
    assert DIALECTS[0] == "lark"
    with pytest.raises(ValueError, match="unknown dialect `EBNF`; there are: lark, "):
        copy_for(READ, "EBNF")


def test_importing_the_package_loads_no_lark() -> None:
    code = "import guideway.grammar, sys; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_a_copy_is_read_back_as_the_same_model(scopes: frozenset[Scope]) -> None:
    assert read_grammar(copy_for(scopes).text) == trim(published_grammar(), scopes)


def test_a_copy_is_known_by_its_hash() -> None:
    for scopes in SCOPE_SETS:
        copy = copy_for(scopes)
        assert copy.sha256 == hashlib.sha256(copy.text.encode("ascii")).hexdigest()
    assert len({copy_for(scopes).sha256 for scopes in SCOPE_SETS}) == len(SCOPE_SETS)


def test_restricting_leaves_nothing_idle() -> None:
    """What derives nothing goes, inside groups too; so does what only leads back to itself, or is not reached."""
    text = (
        "start: a (B | c)? c?\n    | loop\n    | (c | a B)+ D*\n    | c+\n"
        'a: A\nc: C\nloop: "(" loop ")"\nA: "a"\nB: "b"\nC: "c"\nD: "d"\nE: "e"\nS: E\nW: " "\n%ignore W\n'
    )
    left = restrict(read_grammar(text), lambda rule, _: rule.name != "c")
    assert print_grammar(left) == ('start: a (B)?\n    | (a B)+ D*\na: A\nA: "a"\nB: "b"\nD: "d"\nW: " "\n%ignore W\n')


# Failing closed: each of these adds a way to a command that its holder must not have, or that nobody knows


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    | block\n", "    | block\n    | reboot\n"),
        ("    | block\n", "    | block\n    | REBOOT HOST\n"),
        ("    | block\n", '    | block\n    | "REBOOT" HOST\n'),
        ("    | block\n", "    | block\n    | /REBOOT/ HOST\n"),
        ("    | block\n", "    | block\n    | (REBOOT HOST)?\n"),
        ("start: statement+\n", "start: statement+\n    | REBOOT\n"),
        ('block: "{" statement* "}"\n', 'block: "{" statement* "}"\n    | "{" REBOOT "}"\n'),
        ("try_catch: TRY statement CATCH statement\n", "try_catch: TRY statement CATCH statement\n    | TRY REBOOT\n"),
        ("ping: PING HOST\n", "ping: PING HOST\n    | REBOOT HOST\n"),
        ("ping: PING HOST\n", 'ping: PING HOST\n    | "REBOOT" HOST\n'),
        ("ping: PING HOST\n", "ping: PING HOST\n    | reboot\n"),
        ("restart: RESTART RESTARTABLE\n", "restart: RESTART RESTARTABLE\n    | REBOOT RESTARTABLE\n"),
    ],
)
@pytest.mark.parametrize("scopes", SCOPE_SETS)
def test_an_unknown_command_is_in_nobodys_copy(scopes: frozenset[Scope], old: str, new: str) -> None:
    added = '\nreboot: REBOOT HOST\nREBOOT: "REBOOT" WORD_END\n'
    assert PUBLISHED.count(old) == 1
    grammar = read_grammar(PUBLISHED.replace(old, new) + added)
    assert print_grammar(trim(grammar, scopes)) == copy_for(scopes).text


@pytest.mark.parametrize("borrowed", ["RESTART RESTARTABLE", "restart", "(RESTART RESTARTABLE | restart)"])
def test_a_rule_cannot_lend_another_command_its_scope(borrowed: str) -> None:
    for old in ("ping: PING HOST\n", "    | block\n"):
        grammar = read_grammar(PUBLISHED.replace(old, f"{old}    | {borrowed}\n"))
        assert print_grammar(trim(grammar, READ)) == copy_for(READ).text


def test_a_grammar_without_the_callers_commands_is_refused() -> None:
    for keyword in ('PING: "PING"', 'GET_STATUS: "GET_STATUS"', 'IF_RUNNING: "IF_RUNNING"'):
        assert keyword in PUBLISHED
    renamed = PUBLISHED.replace('"PING"', '"P"').replace('"GET_STATUS"', '"G"').replace('"IF_RUNNING"', '"I"')
    with pytest.raises(NoGrammar):
        trim(read_grammar(renamed), READ)
