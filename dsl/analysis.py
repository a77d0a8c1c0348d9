"""Facts about a tree: the scopes it needs and for which node, what it can touch, and the most it can do.

The most a program can do is exact for each question by itself: no path does more, and some path does that much.
"""

from collections.abc import Callable, Mapping
from typing import Final

from guideway.dsl.ast import COMMANDS, Block, Command, IfRunning, Program, Statement, TryCatch
from guideway.dsl.errors import Code, Diagnostic
from guideway.dsl.lexer import WORD, scan
from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Span


class WorstCase(Record):
    """The most that any path of a program does.

    ``commands`` counts by keyword; ``targets`` counts by keyword and name. ``seconds`` adds up deadlines.
    Each number is the largest for itself: one path need not reach all of them.
    """

    commands: Mapping[str, int]
    targets: Mapping[tuple[str, str], int]
    seconds: float


class Analysis(Record):
    """What a program needs and touches. ``commands`` are its command nodes, in the order of the text."""

    commands: tuple[Command, ...]
    scopes: frozenset[Scope]
    targets: frozenset[tuple[type[Command], str]]
    warnings: tuple[Diagnostic, ...]
    program: Program

    def worst_case(self, deadline: Callable[[Command], float]) -> WorstCase:
        """Return the most that the program can do.

        ``deadline`` gives the seconds that a command may take; they are not negative.
        """
        most, _ = _sequence(self.program.statements, deadline)
        return WorstCase(
            {keyword: int(most[keyword]) for keyword in _KEYWORDS if keyword in most},
            {key: int(count) for key, count in most.items() if isinstance(key, tuple)},
            most.get(_SECONDS, 0.0),
        )


def analyze(program: Program) -> Analysis:
    """Return the facts about a tree."""
    commands: list[Command] = []
    warnings: list[Diagnostic] = []
    _survey(program.statements, program.source.text, commands, warnings)
    return Analysis(
        tuple(commands),
        frozenset([command.scope for command in commands]),
        frozenset([(type(command), command.target) for command in commands]),
        tuple(warnings),
        program,
    )


def _survey(statements: tuple[Statement, ...], text: str, commands: list[Command], warnings: list[Diagnostic]) -> None:
    """Collect commands and warnings, in the order of the text."""
    for statement in statements:
        match statement:
            case IfRunning(then=then, otherwise=otherwise):
                commands.append(statement)
                if otherwise is None:
                    if not text.startswith("{", then.start):
                        _dangling_else(statement, text, warnings)
                    _survey(then.statements, text, commands, warnings)
                else:
                    _survey(then.statements, text, commands, warnings)
                    _survey(otherwise.statements, text, commands, warnings)
            case TryCatch(body=body, handler=handler):
                _survey(body.statements, text, commands, warnings)
                _survey(handler.statements, text, commands, warnings)
            case Block(statements=inner):
                _survey(inner, text, commands, warnings)
            case _:
                commands.append(statement)


def _dangling_else(outer: IfRunning, text: str, warnings: list[Diagnostic]) -> None:
    """Warn where an ELSE inside a body without braces could also be read as the outer IF_RUNNING's, which has none."""
    last = outer.then
    while not text.startswith("{", last.start):
        match last.statements:
            case (IfRunning(target=target, then=then, otherwise=Block()),):
                keyword = next(scan(text, then.end))
                warnings.append(
                    Diagnostic(
                        Code.DANGLING_ELSE,
                        f'this `ELSE` belongs to `IF_RUNNING "{target}"`',
                        Span(keyword.start(WORD), keyword.end()),
                        help=f'write braces around the body of `IF_RUNNING "{outer.target}"`',
                    )
                )
                return
            case (TryCatch(handler=handler),):
                last = handler
            case _:  # it ends no IF_RUNNING, or one that has no ELSE either and warns by itself
                return


# Each kind of weight is added along a path and maximised over paths. Two facts about the language keep this short.
# Whatever fails does so at a last command, which could have ended ok instead, with the rest still to come: so no
# failing path outweighs the heaviest one that ends ok, and where several statements of a sequence can fail, a failure
# of the last of them weighs most. How a body ends well and how it ends failed is found in one go: each by itself would
# look into the bodies within it again, and at each depth twice as often as above.

_KEYWORDS: Final = tuple(command.keyword for command in COMMANDS)
_SECONDS: Final = "seconds"
_Weights = dict[object, float]
_Deadline = Callable[[Command], float]
_Ends = tuple[_Weights, _Weights | None]


def _sequence(statements: tuple[Statement, ...], deadline: _Deadline) -> _Ends:
    """Return the most that a sequence does on paths that end ok, and on those that end failed; None where it cannot."""
    well: _Weights = {}  # before the last statement that can fail
    since: _Weights = {}  # from there on
    failed: _Weights | None = None
    for statement in statements:
        ok, lost = _statement(statement, deadline)
        if lost is None:
            _add(ok, since)
        else:
            _add(since, well)
            since, failed = ok, lost
    if failed is not None:
        _add(well, failed)
    return _add(since, well), failed


def _statement(statement: Statement, deadline: _Deadline) -> _Ends:
    match statement:
        case IfRunning(then=then, otherwise=otherwise):
            well, failed = _sequence(then.statements, deadline)
            other, lost = ({}, None) if otherwise is None else _sequence(otherwise.statements, deadline)
            well, failed = _raise(well, other), _raise(failed or {}, lost or {})
            return _count(statement, deadline, well), _count(statement, deadline, failed)
        case TryCatch(body=body, handler=handler):
            well, failed = _sequence(body.statements, deadline)
            if failed is None:
                return well, None
            mended, lost = _sequence(handler.statements, deadline)
            return _raise(well, _add(failed, mended)), lost and _add(failed, lost)
        case Block(statements=inner):
            return _sequence(inner, deadline)
        case _:
            return _count(statement, deadline, {}), _count(statement, deadline, {})


def _count(command: Command, deadline: _Deadline, weights: _Weights) -> _Weights:
    keyword = command.keyword
    name = (keyword, command.target)
    weights[keyword] = weights.get(keyword, 0) + 1
    weights[name] = weights.get(name, 0) + 1
    weights[_SECONDS] = weights.get(_SECONDS, 0) + deadline(command)
    return weights


def _add(more: _Weights, weights: _Weights) -> _Weights:
    for key, weight in more.items():
        weights[key] = weights.get(key, 0) + weight
    return weights


def _raise(weights: _Weights, other: _Weights) -> _Weights:
    for key, weight in other.items():
        if weight > weights.get(key, 0):
            weights[key] = weight
    return weights
