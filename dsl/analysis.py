"""Facts about a tree: the scopes it needs and for which node, what it can touch, and the most it can do.

The most a program can do is exact for each question by itself: no path does more, and some path does that much.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from guideway.dsl.ast import COMMANDS, Block, Command, IfRunning, Program, Statement, TryCatch, walk
from guideway.dsl.errors import Code, Diagnostic
from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope


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
        """Return the most that the program can do; ``deadline`` gives the seconds that a command may take."""

        def weigh(command: Command) -> dict[object, float]:
            keyword = command.keyword
            return {keyword: 1, (keyword, command.target): 1, _SECONDS: deadline(command)}

        most = _most(_sequence(self.program.statements, weigh))
        return WorstCase(
            commands={c.keyword: int(most[c.keyword]) for c in COMMANDS if c.keyword in most},
            targets={key: int(count) for key, count in most.items() if isinstance(key, tuple)},
            seconds=most.get(_SECONDS, 0),
        )


def analyze(program: Program) -> Analysis:
    """Return the facts about a tree."""
    commands = tuple(node for node in walk(program) if isinstance(node, Command))
    return Analysis(
        commands=commands,
        scopes=frozenset(command.scope for command in commands),
        targets=frozenset((type(command), command.target) for command in commands),
        warnings=tuple(_dangling_elses(program)),
        program=program,
    )


def _dangling_elses(program: Program) -> Iterator[Diagnostic]:
    """Warn where an ELSE could be read as another IF_RUNNING's: inside a body without braces of an outer one."""
    text = program.source.text
    for node in walk(program):
        if not isinstance(node, IfRunning) or text.startswith("{", node.then.start):
            continue
        inner = node.then.statements[0]
        while isinstance(inner, IfRunning | TryCatch):
            last = (inner.otherwise or inner.then) if isinstance(inner, IfRunning) else inner.handler
            if isinstance(inner, IfRunning) and inner.otherwise is not None:
                yield Diagnostic(
                    Code.DANGLING_ELSE,
                    f'this ELSE belongs to `IF_RUNNING "{inner.target}"`',
                    inner.otherwise.span,
                    help=f'write braces around the body of `IF_RUNNING "{node.target}"`',
                )
                break
            if text.startswith("{", last.start):
                break
            inner = last.statements[0]


# The most that a statement does, told apart by how it ends. Each kind of weight is added along a path and maximised
# over paths; None stands for "cannot end so". A CATCH runs only after a path on which its TRY failed.

_SECONDS: Final = "seconds"
_Weights = dict[object, float]
_Ends = tuple[_Weights | None, _Weights | None]


def _sequence(statements: tuple[Statement, ...], weigh: Callable[[Command], _Weights]) -> _Ends:
    ok: _Weights | None = {}
    failed: _Weights | None = None
    for statement in statements:
        its_ok, its_failed = _ends(statement, weigh)
        failed = _either(failed, _then(ok, its_failed))
        ok = _then(ok, its_ok)
    return ok, failed


def _ends(statement: Statement, weigh: Callable[[Command], _Weights]) -> _Ends:
    match statement:
        case Block(statements=statements):
            return _sequence(statements, weigh)
        case TryCatch(body=body, handler=handler):
            ok, failed = _sequence(body.statements, weigh)
            handled, lost = _sequence(handler.statements, weigh)
            return _either(ok, _then(failed, handled)), _then(failed, lost)
        case IfRunning(then=then, otherwise=otherwise):
            itself = weigh(statement)
            yes, yes_failed = _sequence(then.statements, weigh)
            no, no_failed = _sequence(otherwise.statements, weigh) if otherwise is not None else ({}, None)
            ok = _then(itself, _either(yes, no))
            return ok, _either(itself, _then(itself, _either(yes_failed, no_failed)))
        case _:
            itself = weigh(statement)
            return itself, itself


def _then(first: _Weights | None, second: _Weights | None) -> _Weights | None:
    if first is None or second is None:
        return None
    if not first or not second:
        return first or second
    total = dict(first)
    for key, weight in second.items():
        total[key] = total.get(key, 0) + weight
    return total


def _either(one: _Weights | None, other: _Weights | None) -> _Weights | None:
    if one is None or other is None:
        return other if one is None else one
    most = dict(one)
    for key, weight in other.items():
        if weight > most.get(key, 0):
            most[key] = weight
    return most


def _most(ends: _Ends) -> _Weights:
    return _either(*ends) or {}
