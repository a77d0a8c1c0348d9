"""What is known of a program before it runs, held against oracles that know nothing of how it is computed."""

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TypeVar

from hypothesis import assume, given, settings

from guideway.dsl import Limits, analyze, parse
from guideway.dsl.ast import COMMANDS, Block, Command, IfRunning, Program, Restart, Statement, TryCatch
from guideway.dsl.lexer import END, NAME, WORD, scan
from guideway.dsl.scopes import Scope
from tests.dsl.corpus import DEADLINES
from tests.strategies import Script, programs, scripts

ROOMY = Limits(bytes=1_000_000)

# The worst case: every path of a program, enumerated with the words of the language's law.

Path = tuple[tuple[tuple[str, str], ...], bool]  # the commands that ran, and whether it ended ok


def paths_of_sequence(statements: tuple[Statement, ...]) -> set[Path]:
    """A sequence stops at its first failed statement and fails."""
    found: set[Path] = {((), True)}
    for statement in statements:
        step = paths(statement)
        found = {path for path in found if not path[1]} | {
            (before + ran, ok) for before, went_well in found if went_well for ran, ok in step
        }
        assume(len(found) < 3000)
    return found


def paths(statement: Statement) -> set[Path]:
    match statement:
        case Block(statements=statements):
            return paths_of_sequence(statements)
        case IfRunning(then=then, otherwise=otherwise):
            asked = ((statement.keyword, statement.target),)
            branches = paths_of_sequence(then.statements)
            branches |= paths_of_sequence(otherwise.statements) if otherwise else {((), True)}
            return {(asked, False)} | {(asked + ran, ok) for ran, ok in branches}
        case TryCatch(body=body, handler=handler):
            tried, handled = paths_of_sequence(body.statements), paths_of_sequence(handler.statements)
            return {path for path in tried if path[1]} | {
                (ran + more, ok) for ran, went_well in tried if not went_well for more, ok in handled
            }
        case _:
            command = ((statement.keyword, statement.target),)
            return {(command, True), (command, False)}


NAMES = ("a", "b")
_Key = TypeVar("_Key")


@given(programs(NAMES, size=16))
@settings(max_examples=400)
def test_the_worst_case_is_the_heaviest_of_all_paths(program: Program) -> None:
    found = analyze(program).worst_case(lambda command: DEADLINES[command.keyword])
    ran = [commands for commands, _ in paths_of_sequence(program.statements)]
    by_keyword = [Counter(keyword for keyword, _ in commands) for commands in ran]
    by_target = [Counter(commands) for commands in ran]
    assert found.commands == _most(by_keyword)
    assert found.targets == _most(by_target)
    assert found.seconds == max(sum(DEADLINES[keyword] for keyword, _ in commands) for commands in ran)
    assert list(found.commands) == [c.keyword for c in COMMANDS if c.keyword in found.commands]


def _most(counts: list[Counter[_Key]]) -> dict[_Key, int]:
    keys = set(itertools.chain.from_iterable(counts))
    return {key: max(count[key] for count in counts) for key in keys}


@given(programs(NAMES, size=16))
@settings(max_examples=100)
def test_the_deadline_may_depend_on_the_target(program: Program) -> None:
    def deadline(command: Command) -> float:
        return DEADLINES[command.keyword] * (1.5 if command.target == "a" else 1)

    ran = [commands for commands, _ in paths_of_sequence(program.statements)]
    assert analyze(program).worst_case(deadline).seconds == max(
        sum(DEADLINES[keyword] * (1.5 if target == "a" else 1) for keyword, target in commands) for commands in ran
    )


@given(programs(NAMES, size=16))
@settings(max_examples=100)
def test_nothing_runs_that_the_analysis_does_not_name(program: Program) -> None:
    found = analyze(program)
    touched = {(command.keyword, target) for command, target in found.targets}
    for commands, _ in paths_of_sequence(program.statements):
        assert {*commands} <= touched


# Scopes, targets and commands, from the tokens alone


@given(scripts())
def test_scopes_targets_and_commands_are_those_of_the_text(script: Script) -> None:
    words = {command.keyword: command for command in COMMANDS}
    tokens = list(scan(script.text))
    written = [
        (words[token[WORD]], name[NAME], token.start(WORD))
        for token, name in itertools.pairwise(tokens)
        if token[WORD] in words
    ]
    program = parse(script.text, limits=ROOMY)
    found = analyze(program)
    assert [(type(command), command.target, command.start) for command in found.commands] == written
    assert found.targets == {(command, name) for command, name, _ in written}
    assert found.scopes == {Scope.WRITE if command is Restart else Scope.READ for command, _, _ in written}
    assert found.program is program


# A warning stands where a program can be read in two ways: in the grammar that leaves open whose an ELSE is.


def readings(text: str) -> int:
    """Count the trees of a program without the rule that an ELSE belongs to the nearest IF_RUNNING."""
    tokens = [
        "NAME" if token.lastindex == NAME else token[token.lastindex or 0]
        for token in scan(text)
        if token.lastindex != END
    ]
    size = len(tokens)

    @cache
    def statement(at: int) -> tuple[tuple[int, int], ...]:
        """Return, for each place where a statement that starts here can end, in how many ways."""
        ends: Counter[int] = Counter()
        match tokens[at : at + 1]:
            case ["PING" | "GET_STATUS" | "RESTART"]:
                ends[at + 2] += 1
            case ["{"]:
                for end, ways in sequence(at + 1):
                    if tokens[end : end + 1] == ["}"]:
                        ends[end + 1] += ways
            case ["IF_RUNNING"]:
                for end, ways in statement(at + 3):
                    ends[end] += ways
                    if tokens[end : end + 1] == ["ELSE"]:
                        for last, more in statement(end + 1):
                            ends[last] += ways * more
            case ["TRY"]:
                for end, ways in statement(at + 1):
                    if tokens[end : end + 1] == ["CATCH"]:
                        for last, more in statement(end + 1):
                            ends[last] += ways * more
            case _:
                pass
        return tuple(ends.items())

    @cache
    def sequence(at: int) -> tuple[tuple[int, int], ...]:
        ends: Counter[int] = Counter({at: 1})
        for end, ways in statement(at):
            for last, more in sequence(end):
                ends[last] += ways * more
        return tuple(ends.items())

    return dict(sequence(0)).get(size, 0)


def _dangling(depth: int) -> Iterator[str]:
    """Yield bodies without braces, some of which leave an ELSE dangling."""
    yield 'PING "x"'
    yield "{ }"
    if depth:
        for inner in _dangling(depth - 1):
            yield f'IF_RUNNING "a" THEN {inner}'
            yield f"TRY {{ }} CATCH {inner}"
            yield f'{{ IF_RUNNING "a" THEN {inner} }}'
            for other in _dangling(depth - 2 if depth > 1 else 0):
                yield f'IF_RUNNING "a" THEN {inner} ELSE {other}'


def test_a_warning_stands_exactly_where_an_else_can_be_read_in_two_ways() -> None:
    ambiguous = 0
    checked = 0
    for text in _dangling(3):
        several = readings(text) > 1
        warnings = analyze(parse(text)).warnings
        assert bool(warnings) == several, text
        places = [warning.span for warning in warnings]
        assert len({*places}) == len(places), text
        for warning in warnings:
            assert text[slice(*warning.span)] == "ELSE"
        ambiguous += several
        checked += 1
    assert ambiguous > 100
    assert checked > 900


@given(scripts(NAMES))
def test_warnings_in_any_program(script: Script) -> None:
    found = analyze(parse(script.text, limits=ROOMY)).warnings
    assert bool(found) == (readings(script.text.removeprefix("\ufeff")) > 1)
    for warning in found:
        assert script.text[slice(*warning.span)] == "ELSE"
