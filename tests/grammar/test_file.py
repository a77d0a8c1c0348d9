"""The published file: fit for Lark, joined to the command classes, and read into the model without loss."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import lark
import pytest
from lark.exceptions import GrammarError as LarkGrammarError

import guideway.grammar
from guideway.dsl import DEFAULT_LIMITS
from guideway.dsl.ast import COMMANDS
from guideway.dsl.lexer import COMMENT_PATTERN, NAME_PATTERN
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import copy_for, published_grammar
from guideway.grammar.dialects.lark import print_grammar
from guideway.grammar.loader import GrammarError, read_grammar
from guideway.grammar.model import Alternative, Group, Literal, Pattern, Reference, Repeat, Rule
from guideway.grammar.trim import STRUCTURE, rule_name

Load = Callable[[str], lark.Lark]

FILE = Path(guideway.grammar.__file__).with_name("diagnostic.lark").read_text(encoding="utf-8")


def test_the_file_is_printed_back_byte_for_byte() -> None:
    assert print_grammar(published_grammar()) == FILE
    assert copy_for(PROGRAM_SCOPES).text == FILE
    assert FILE.isascii()


# The file and the command classes


def test_every_rule_is_a_commands_or_structure() -> None:
    """A command of the file without a class would be in nobody's copy, and a class without a rule in none either."""
    assert set(published_grammar().rules) == {rule_name(command) for command in COMMANDS} | set(STRUCTURE)


def test_every_command_is_spelt_and_explained_as_its_class_says() -> None:
    grammar = published_grammar()
    explained = {d.name: p.comment for p in grammar.paragraphs for d in p.definitions if isinstance(d, Rule)}
    keywords = {terminal.keyword: name for name, terminal in grammar.terminals.items() if terminal.keyword}
    for command in COMMANDS:
        rule = grammar.rules[rule_name(command)]
        assert rule.alternatives[0].items[:2] == (
            Reference(keywords[command.keyword]),
            Reference(command.names.value),
        )
        assert explained[rule.name][0] == f"{command.summary[0].upper()}{command.summary[1:]}."


def test_the_file_and_the_lexer_have_the_same_character_classes() -> None:
    terminals = published_grammar().terminals
    assert terminals["NAME"].alternatives == (Alternative((Pattern(f'"{NAME_PATTERN}"'),)),)
    assert terminals["COMMENT"].alternatives == (Alternative((Pattern(COMMENT_PATTERN),)),)


def test_the_limits_that_only_the_parser_has_are_stated() -> None:
    said = " ".join(published_grammar().paragraphs[0].comment)
    for limit in DEFAULT_LIMITS:
        assert f"{limit:,} " in said


# Lark


@pytest.mark.parametrize("scopes", [PROGRAM_SCOPES, {Scope.READ}])
def test_the_only_conflict_is_the_dangling_else(scopes: set[Scope], caplog: pytest.LogCaptureFixture) -> None:
    """Lark resolves it as a shift: an ELSE belongs to the nearest IF_RUNNING."""
    text = copy_for(frozenset(scopes)).text
    with pytest.raises(LarkGrammarError, match="Shift/Reduce conflict for terminal ELSE"):
        lark.Lark(text, parser="lalr", strict=True)
    assert conflicts(text, caplog) == ["Shift/Reduce conflict for terminal ELSE: (resolving as shift)"]


def test_without_else_there_is_no_conflict(caplog: pytest.LogCaptureFixture) -> None:
    assert conflicts(copy_for(frozenset({Scope.WRITE})).text, caplog) == []
    assert conflicts(FILE.replace("THEN statement (ELSE statement)?", "THEN block (ELSE statement)?"), caplog) == []


def conflicts(text: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.Lark(text, parser="lalr", lexer="contextual", debug=True)
    return [record.getMessage() for record in caplog.records if "conflict" in record.getMessage().lower()]


def test_no_two_terminals_collide(load: Load) -> None:
    """Wherever the parser stands, at most one terminal that it may read there matches: no order of trial decides."""
    reader = load(FILE)
    patterns = {terminal.name: terminal.pattern for terminal in reader.terminals}
    lexemes = [*(command.keyword for command in COMMANDS), "THEN", "ELSE", "TRY", "CATCH"]
    lexemes += ['"a"', "{", "}", "#", "\n", "\r\n", " ", "\t", "\ufeff"]
    names = {"HOST", "SERVICE", "RESTARTABLE"}
    for lexeme in lexemes:
        matching = {name for name, pattern in patterns.items() if re.match(pattern.to_regexp(), lexeme)}
        assert len(matching) == 1 or matching == names
    for accepts in reader.parser.lexer.lexers.values():
        assert len(names & {terminal.name for terminal in accepts.terminals}) <= 1


# What the model holds


def test_the_model_says_what_printers_need() -> None:
    grammar = published_grammar()
    assert [t.keyword for t in grammar.terminals.values() if t.keyword] == [
        "PING",
        "GET_STATUS",
        "RESTART",
        "IF_RUNNING",
        "THEN",
        "ELSE",
        "TRY",
        "CATCH",
    ]
    assert grammar.ignored == ("WHITE_SPACE", "COMMENT", "BYTE_ORDER_MARK")
    assert grammar.rules["block"].alternatives == (
        Alternative((Literal("{"), Repeat(Reference("statement"), 0, None), Literal("}"))),
    )
    *_, last = grammar.rules["if_running"].alternatives[0].items
    assert last == Repeat(Group((Alternative((Reference("ELSE"), Reference("statement"))),)), 0, 1)


def test_every_shape_of_item_is_read_and_printed() -> None:
    text = 'start: (A | "\\"" B)+ A? A*\n    |\n\nA: "\\\\" | /a\\/b/\nB: "\\n"\n%ignore A\n'
    grammar = read_grammar(text)
    assert grammar.terminals["A"].alternatives == (Alternative((Literal("\\"),)), Alternative((Pattern("a\\/b"),)))
    assert print_grammar(grammar) == text.replace(" | /a", "\n    | /a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: [A]\nA: /a/\n", "cannot hold"),
        ("!start: A\nA: /a/\n", "cannot hold"),
        ("_start: A\nA: /a/\n", "cannot hold"),
        ("start: A -> alias\nA: /a/\n", "cannot hold"),
        ("start.2: A\nA: /a/\n", "cannot hold"),
        ("?start: A\nA: /a/\n", "cannot hold"),
        ('start: "a"i\n', "cannot hold"),
        ("start: /a/i\n", "cannot hold"),
        ('start: "a".."z"\n', "cannot hold"),
        ("start: A~2\nA: /a/\n", "cannot hold"),
        ("start: A\n%import common.INT -> A\n", "cannot hold"),
        ("start: A\n%declare A\n", "cannot hold"),
        ("start: A\nA: /a/\n%ignore /b/\n", "cannot hold"),
        ("start: list{A}\nlist{x}: x\nA: /a/\n", "cannot hold"),
        ("start: A\n", "`A` is not defined"),
        ("start: /a/\n%ignore A\n", "`A` is not defined"),
        ("start: /a/\nstart: /b/\n", "`start` is defined twice"),
        ("start: /a/ // a\n", "a line of its own"),
        ("start: /a/\n# a\n", "comments start with `//`"),
        ("start: /a/\n// a\nB: /b/\n", "above the definitions"),
        ("start /a/\n", "not a Lark grammar"),
    ],
)
def test_what_the_model_cannot_hold_is_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        read_grammar(text)
