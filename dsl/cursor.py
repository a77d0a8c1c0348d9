"""Where the parser stands in a text, what it has reported so far, and what it says about stray characters.

A slip gives one diagnostic: of several at one place, the first is the cause and the others follow from it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from guideway.dsl.ast import Command
from guideway.dsl.errors import Code, Diagnostic, character
from guideway.dsl.lexer import END, NAME, NAME_LENGTH, NAME_PATTERN, OTHER, Token, scan
from guideway.dsl.source import Source, Span

MOST_DIAGNOSTICS: Final = 20

NAME_RULE: Final = "a name is letters, digits and `. _ : @ -`, and starts with a letter or digit"

_BARE = re.compile(r'[^\s{}"#]+')
_NAME_START = re.compile(NAME_PATTERN, re.ASCII)
_QUOTES: Final = {
    "'": ("'", "single quotes"),
    "`": ("`", "backticks"),
    "\u2018": ("\u2019", "curly quotes"),
    "\u201a": ("\u2019", "curly quotes"),
    "\u201c": ("\u201d", "curly quotes"),
    "\u201d": ("\u201d", "curly quotes"),
    "\u201e": ("\u201d", "curly quotes"),
    "\u00ab": ("\u00bb", "angle quotes"),
}
_OPERATORS: Final = {
    ";": "white space alone separates statements",
    ",": "white space alone separates statements, and a command takes one name",
    "&": "statements run in order, and the first that fails stops them",
    "|": "to go on where something fails, write `TRY { … } CATCH { … }`",
}


class Stop(Exception):  # noqa: N818  # control flow inside the parser, never seen outside
    """Nothing more can be said about this program."""


class Cursor:
    """The token under the parser's eye, and the diagnostics."""

    __slots__ = ("_advance", "_depth", "_diagnostics", "_fenced", "_owed", "_source", "_text", "_token", "_vocabulary")

    def __init__(self, source: Source, vocabulary: Iterable[type[Command]]) -> None:
        self._source = source
        self._text = source.text
        self._diagnostics: list[Diagnostic] = []
        self._vocabulary = tuple(vocabulary)
        self._fenced = False  # whether a code fence was reported
        self._owed: dict[str, int] = {}  # words that will turn up alone, because of a slip that was reported
        self._depth = 0  # how many blocks are open
        self._advance: Callable[[], Token] = scan(source.text).__next__
        self._token: Token = self._advance()

    # What can be said

    def _report(self, span: Span, message: str, *, expected: tuple[str, ...] = (), mend: str | None = None) -> None:
        if self._diagnostics and self._diagnostics[-1].span.start == span.start:
            return
        self._diagnostics.append(Diagnostic(Code.SYNTAX, message, span, expected, mend))
        if len(self._diagnostics) >= MOST_DIAGNOSTICS:
            raise Stop

    def _too_deep(self, token: Token, most: int) -> NoReturn:
        self._too_large(
            token, f"blocks are nested more than {most} deep", "move the inner part into a program of its own"
        )

    def _too_deep_to_read(self) -> None:
        """Report what only limits far above the default ones allow: Python's own stack ends first."""
        self._diagnostics.append(
            Diagnostic(Code.TOO_LARGE, "blocks are nested too deep to be read", self._span(self._token))
        )

    def _too_large(self, token: Token, message: str, mend: str) -> NoReturn:
        """Report a limit and read no further: beyond it nothing is bounded."""
        self._diagnostics.append(Diagnostic(Code.TOO_LARGE, message, self._span(token), help=mend))
        raise Stop

    def _statements_expected(self) -> tuple[str, ...]:
        words = [command.keyword for command in self._vocabulary]
        return (*words, "TRY", "{")

    # Places

    def _span(self, token: Token) -> Span:
        """Return the place of a token without the gap before it; a name's with its quotes."""
        kind = token.lastindex or END
        if kind == NAME:
            return Span(token.start(NAME) - 1, token.end())
        if kind == END:  # point behind the last token, not behind the white space that may follow it
            return Span(token.start(), token.start())
        return Span(token.start(kind), token.end())

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _follows(self, token: Token, *words: str) -> bool:
        """Say whether a token comes right behind one of these words."""
        return self._text.endswith(words, 0, token.start())

    def _peek(self) -> Token:
        """Return the token behind the one under the eye."""
        return next(scan(self._text, self._token.end()))

    def _seek(self, at: int) -> None:
        """Go on with the first token at or behind an offset."""
        self._advance = scan(self._text, at).__next__
        self._token = self._advance()

    def _skip_token(self) -> None:
        if self._token.lastindex != END:
            self._token = self._advance()

    # Characters

    def _mend_other(self, expected: tuple[str, ...]) -> None:
        """Explain a character that starts no token, and go on behind it or behind what it opens."""
        token = self._token
        at = token.start(OTHER)
        char = token[OTHER]
        line_end = self._line_end(at)
        one = Span(at, at + 1)
        if "#" in self._text[token.start() : at].rpartition("\n")[2]:
            self._report(one, f"{character(char)} cannot stand in a comment", mend="remove it")
            self._seek(line_end)
        elif self._text.startswith("```", at):
            if not self._fenced:
                self._fenced = True
                self._report(
                    Span(at, at + 3), "a code fence is no part of a program", mend="leave out the lines that hold it"
                )
            self._seek(line_end)
        elif char == '"':
            self._mend_string(at, line_end, expected)
        elif char in _QUOTES:
            closing, name = _QUOTES[char]
            close = self._text.find(closing, at + 1, line_end)
            bare = _BARE.match(self._text, at)
            end = close + 1 if close >= 0 else bare.end() if bare else at + 1
            self._report(Span(at, end), f"a name cannot stand in {name}", mend='use double quotes: `"name"`')
            self._seek(end)
        elif char == "\r":
            self._report(one, "a carriage return without a line feed is not a line end", mend="use LF or CRLF")
            self._seek(at + 1)
        elif self._text.startswith(("//", "--", "/*"), at):
            self._report(Span(at, at + 2), "this does not start a comment", mend="comments start with `#`")
            close = self._text.find("*/", at) if self._text.startswith("/*", at) else -1
            self._seek(close + 2 if close >= 0 else line_end)
        elif char in _OPERATORS:
            end = at + 1
            while self._text.startswith(char, end):
                end += 1
            self._report(Span(at, end), f"`{char * min(end - at, 2)}` means nothing here", mend=_OPERATORS[char])
            self._seek(end)
        else:
            space = unicodedata.category(char) == "Zs"
            self._report(
                one,
                f"{character(char)} means nothing here",
                expected=expected,
                mend="use a plain space" if space else None,
            )
            bare = _BARE.match(self._text, at)
            self._seek(bare.end() if bare else at + 1)

    def _mend_string(self, at: int, line_end: int, expected: tuple[str, ...]) -> None:
        """Explain double quotes that hold no name."""
        close = self._text.find('"', at + 1, line_end)
        name = self._text[at + 1 : close]
        swallowed = any(f" {word} " in name for word in self._statements_expected())  # … "a PING "b"
        if close < 0 or swallowed:
            bare = _BARE.match(self._text, at + 1)
            end = bare.end() if bare and swallowed else min(line_end, at + 1 + NAME_LENGTH)
            self._report(Span(at, end), "this string never closes", mend='write `"` behind the name')
            self._seek(end if swallowed else line_end)
            return
        span = Span(at, close + 1)
        if not name:
            self._report(span, "the name is empty", expected=expected)
        elif len(name) > NAME_LENGTH:
            self._report(span, f"the name has {len(name):,} characters; at most {NAME_LENGTH} are allowed")
        else:
            allowed = _NAME_START.match(name)
            bad = allowed.end() if allowed else 0
            self._report(
                Span(at + 1 + bad, at + 2 + bad),
                f"a name cannot {'hold' if bad else 'start with'} {character(name[bad])}",
                mend=name_rule(name),
            )
        self._seek(close + 1)


def too_many_commands(span: Span, most: int) -> Diagnostic:
    """Return what to say of the first command that is one too many."""
    return Diagnostic(
        Code.TOO_LARGE, f"the program has more than {most:,} commands", span, help="split it into several programs"
    )


def name_rule(name: str) -> str:
    """Return what a name is, for one that is none."""
    more = "; names are inventory names, never addresses" if "/" in name else ""
    return NAME_RULE + (more or ("; write one name that the pattern means" if "*" in name else ""))
