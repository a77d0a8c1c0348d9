"""Tokens to a typed tree, by recursive descent: one method a construct.

A well-formed program takes the short way through these methods. What is wrong is explained and mended in
``recovery``, which lets the parser go on where that is safe, so that one go reports every error.
"""

from collections.abc import Iterable
from typing import Final

from guideway.dsl.ast import (
    COMMANDS,
    Block,
    Command,
    GetStatus,
    IfRunning,
    Ping,
    Program,
    Restart,
    Statement,
    TryCatch,
    walk,
)
from guideway.dsl.cursor import too_many_commands
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.lexer import CLOSE, END, NAME, OPEN, WORD, Token
from guideway.dsl.record import Record
from guideway.dsl.recovery import KEYWORDS, STARTS, Recovery, Skip, Stop, Unclosed
from guideway.dsl.source import Source, Span

_node = tuple.__new__  # a record is a tuple: one call in C, where its class would take four times as long


class Limits(Record):
    """The largest program that is read: bytes of UTF-8, bodies and blocks around a statement, and commands.

    Trees are read and walked by recursion: leave ``nesting`` below 100, so that Python's stack holds them anywhere.
    """

    bytes: int = 65_536
    nesting: int = 64
    commands: int = 1_024


DEFAULT_LIMITS: Final = Limits()
_SIMPLE: Final[dict[str, type[Ping] | type[GetStatus] | type[Restart]]] = {
    command.keyword: command for command in (Ping, GetStatus, Restart)
}


def parse(
    text: str,
    *,
    name: str = "program",
    limits: Limits = DEFAULT_LIMITS,
    vocabulary: Iterable[type[Command]] = COMMANDS,
) -> Program:
    """Return the tree of a program.

    ``name`` is what diagnostics call the text. ``vocabulary`` is what may be suggested to this reader (the commands
    of the caller's own copy of the grammar); it does not change what is accepted.

    Raises ``Refusal`` with every diagnostic: ``syntax``, or ``too_large`` where a limit is passed.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.bytes:
        found = Diagnostic(
            Code.TOO_LARGE,
            f"the program has {size:,} bytes; at most {limits.bytes:,} are read",
            Span(0, 0),
            help="split it into several programs",
        )
        raise Refusal([found], Source(text[:200], name))  # what is shown of it must not be large either
    return _Parser(_node(Source, (text, name)), vocabulary).program(limits)


class _Parser(Recovery):
    __slots__ = ("_most_depth",)

    def program(self, limits: Limits) -> Program:
        self._most_depth = limits.nesting
        statements: list[Statement] = []
        try:
            if self._token.lastindex == END:
                self._explain_empty_program()
            while self._token.lastindex != END:
                try:
                    statements.append(self._statement())
                except Skip:
                    self._depth = 0
                    self._synchronise()
        except Stop:
            pass  # what was found is reported below
        except RecursionError:
            self._too_deep_to_read()
        if self._diagnostics:
            raise Refusal(sorted(self._diagnostics, key=lambda found: found.span.start), self._source)
        program = _node(Program, (0, self._token.end(), self._source, tuple(statements)))
        if self._text.count('"') > 2 * limits.commands:  # each has a name in quotes; so may comments have
            self._count_commands(program, limits.commands)
        return program

    def _count_commands(self, program: Program, most: int) -> None:
        commands = [node for node in walk(program) if isinstance(node, Command)]
        if len(commands) > most:
            raise Refusal([too_many_commands(commands[most].head_span, most)], self._source)

    def _statement(self) -> Statement:
        token = self._token
        if token.lastindex == OPEN:
            return self._block()
        word = token[WORD]
        if word not in STARTS:
            word = self._mend_statement()
            if word == "{":
                return self._block()
        if word == "IF_RUNNING":
            return self._if_running(token)
        if word == "TRY":
            return self._try_catch(token)
        command = _SIMPLE[word]
        name = self._advance()
        if name.lastindex != NAME:
            name = self._mend_name(command, name)
        self._token = self._advance()
        head = name.end()
        return _node(command, (token.start(WORD), head, head, name[NAME]))

    def _if_running(self, token: Token) -> IfRunning:
        name = self._advance()
        if name.lastindex != NAME:
            name = self._mend_name(IfRunning, name)
        self._token = self._advance()
        if self._token[WORD] == "THEN":
            self._token = self._advance()
        else:
            self._mend_keyword("THEN", "IF_RUNNING")
        try:
            then = self._block()
        except Skip:
            self._owe("ELSE")
            raise
        word = self._token[WORD]
        if word == "ELSE" or (word is not None and word not in KEYWORDS and self._mend_else(word)):
            self._token = self._advance()
            otherwise = self._block()
            return _node(IfRunning, (token.start(WORD), otherwise.end, name.end(), name[NAME], then, otherwise))
        return _node(IfRunning, (token.start(WORD), then.end, name.end(), name[NAME], then, None))

    def _try_catch(self, token: Token) -> TryCatch:
        self._token = self._advance()
        try:
            body = self._block()
        except Skip:
            self._owe("CATCH")
            raise
        if self._token[WORD] == "CATCH":
            self._token = self._advance()
        else:
            self._mend_keyword("CATCH", "TRY")
        handler = self._block()
        return _node(TryCatch, (token.start(WORD), handler.end, body, handler))

    def _block(self) -> Block:
        """Read a block, or a statement without braces as the block that it stands for."""
        opening = self._token
        self._depth = depth = self._depth + 1
        if depth > self._most_depth:
            self._too_deep(opening, self._most_depth)
        if opening.lastindex != OPEN:
            statement = self._statement()
            self._depth = depth - 1
            return _node(Block, (statement.start, statement.end, (statement,)))
        self._token = self._advance()
        statements: list[Statement] = []
        while (kind := self._token.lastindex) != CLOSE:
            if kind == END:
                self._explain_open_block(opening)
            try:
                statements.append(self._statement())
            except Unclosed:
                self._depth = depth - 1
                return _node(Block, (opening.start(OPEN), self._token.start(), tuple(statements)))
            except Skip:
                self._depth = depth
                self._synchronise()
        end = self._token.end()
        self._token = self._advance()
        self._depth = depth - 1
        return _node(Block, (opening.start(OPEN), end, tuple(statements)))
