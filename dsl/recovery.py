"""What the parser does where a program is wrong: explain it, mend it, and go on.

Every method here is off the way of a well-formed program. Each reports one diagnostic and leaves the parser at a
token from which it can go on, so that a slip in one line hides none in the next. A mended program is never returned:
the parser raises what was reported.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.errors import Code, Diagnostic
from guideway.dsl.lexer import CLOSE, END, NAME, NAME_LENGTH, NAME_PATTERN, OPEN, OTHER, WORD, Token, scan
from guideway.dsl.source import Source, Span

MOST_DIAGNOSTICS: Final = 20

STARTS: Final = frozenset({*(command.keyword for command in COMMANDS), "TRY"})
_KEYWORDS: Final = STARTS | {"THEN", "ELSE", "CATCH"}
_BARE = re.compile(r'[^\s{}"#]+')
_NAME_KINDS: Final = {
    Target.HOST: "a host name in double quotes",
    Target.SERVICE: "a service name in double quotes",
    Target.RESTARTABLE: "a service name in double quotes",
}
_STAND_IN: Final = next(scan('"name"'))
_QUOTES: Final = dict(zip("'`\u2018\u201a\u201c\u201e\u00ab", "'`\u2019\u2019\u201d\u201d\u00bb", strict=True))


class Skip(Exception):  # noqa: N818  # control flow inside the parser, never seen outside
    """The statement cannot be mended: go on at the next one."""


class Stop(Exception):  # noqa: N818  # as above
    """Nothing more can be said about this program."""


class Recovery:
    """The token under the parser's eye, what was reported so far, and a mend for each kind of slip."""

    __slots__ = ("_advance", "_depth", "_diagnostics", "_owed_catches", "_source", "_text", "_token", "_vocabulary")

    def __init__(self, source: Source, vocabulary: Iterable[type[Command]]) -> None:
        self._source = source
        self._text = source.text
        self._diagnostics: list[Diagnostic] = []
        self._vocabulary = tuple(vocabulary)
        self._depth = 0  # how many blocks are open
        self._owed_catches = 0
        self._advance: Callable[[], Token] = scan(source.text).__next__
        self._token: Token = self._advance()

    # What can be said

    def _report(
        self,
        span: Span,
        message: str,
        *,
        expected: tuple[str, ...] = (),
        mend: str | None = None,
        code: Code = Code.SYNTAX,
    ) -> None:
        self._diagnostics.append(Diagnostic(code, message, span, expected, mend))
        if len(self._diagnostics) >= MOST_DIAGNOSTICS:
            raise Stop

    def _too_deep(self, token: Token, most: int) -> NoReturn:
        self._too_large(
            token, f"blocks are nested more than {most} deep", "move the inner part into a program of its own"
        )

    def _too_many_commands(self, token: Token, most: int) -> NoReturn:
        self._too_large(token, f"the program has more than {most} commands", "split it into several programs")

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
            last = len(self._text[: token.end()].rstrip())
            return Span(last, last)
        return Span(token.start(kind), token.end())

    def _seek(self, at: int) -> None:
        """Go on with the first token at or after an offset."""
        self._advance = scan(self._text, at).__next__
        self._token = self._advance()

    def _unread(self) -> None:
        """Let the token under the eye be the next one that is read."""
        self._advance = scan(self._text, self._token.start()).__next__

    def _skip_token(self) -> None:
        if self._token.lastindex != END:
            self._token = self._advance()

    def _synchronise(self) -> None:
        """Go to the next token at which a statement or the end of a block can stand."""
        while True:
            kind = self._token.lastindex
            if kind in (OPEN, CLOSE, END) or (kind == WORD and self._token[WORD] in STARTS):
                return
            self._token = self._advance()

    # Where a statement should stand

    def _mend_statement(self) -> str:
        """Explain a token that starts no statement; return the keyword that was meant, where that is clear."""
        token = self._token
        match token.lastindex:
            case 1:  # WORD
                return self._mend_word(token)
            case 2:  # NAME
                self._report(
                    self._span(token),
                    f"the name `{token[NAME]}` stands alone",
                    expected=self._statements_expected(),
                    mend="write a command before it",
                )
                self._skip_token()
            case 6:  # OTHER
                self._mend_other(token)
            case 4 if self._depth == 0:  # CLOSE
                self._report(
                    self._span(token), "this `}` closes nothing", mend="remove it, or write `{` where its block starts"
                )
                self._skip_token()
            case kind:
                where = "before `}`" if kind == CLOSE else "at the end of the program"
                self._report(
                    self._span(token),
                    f"a statement is missing {where}",
                    expected=self._statements_expected(),
                    mend="an empty body is written `{ }`",
                )
        raise Skip

    def _mend_word(self, token: Token) -> str:
        word, span = token[WORD], self._span(token)
        match word:
            case "ELSE":
                self._report(
                    span,
                    "this `ELSE` belongs to no `IF_RUNNING`",
                    mend="a body is one statement: put several into braces, `THEN { … } ELSE { … }`",
                )
                self._skip_token()
            case "CATCH":
                self._skip_token()
                if self._owed_catches:  # the same slip was reported where its TRY stands
                    self._owed_catches -= 1
                else:
                    self._report(span, "this `CATCH` belongs to no `TRY`", mend="write `TRY { … } CATCH { … }`")
            case "THEN":
                self._report(
                    span, "this `THEN` belongs to no `IF_RUNNING`", mend='write `IF_RUNNING "service" THEN { … }`'
                )
                self._skip_token()
            case _:
                return self._meant(word, span)
        raise Skip

    def _meant(self, word: str, span: Span) -> str:
        near = nearest(word.upper(), [*(command.keyword for command in self._vocabulary), "TRY"])
        if near is not None:
            why = "keywords are upper case" if near == word.upper() else f"did you mean `{near}`?"
            self._report(span, f"`{word}` is not a command", expected=(near,), mend=why)
            return near
        self._report(span, f"`{word}` is not a command", expected=self._statements_expected())
        self._skip_token()
        raise Skip

    # Characters

    def _mend_other(self, token: Token) -> None:
        """Explain a character that starts no token, and go on behind it or behind what it opens."""
        at = token.start(OTHER)
        char = token[OTHER]
        line_end = self._line_end(at)
        gap = self._text[token.start() : at].rpartition("\n")[2]
        if "#" in gap:
            self._report(Span(at, at + 1), f"{character(char)} cannot stand in a comment", mend="remove it")
            self._seek(line_end)
        elif char == '"':
            self._mend_string(at, line_end)
        elif char in _QUOTES:
            close = self._text.find(_QUOTES[char], at + 1, line_end)
            end = line_end if close < 0 else close + 1
            self._report(Span(at, end), f"names do not stand in {character(char)}", mend='use double quotes: `"name"`')
            self._seek(end)
        elif char == "\r":
            self._report(
                Span(at, at + 1), "a carriage return without a line feed is not a line end", mend="use LF or CRLF"
            )
            self._seek(at + 1)
        elif self._text.startswith(("//", "--", "/*"), at):
            self._report(Span(at, at + 2), "this does not start a comment", mend="comments start with `#`")
            self._seek(line_end)
        else:
            self._report(
                Span(at, at + 1), f"{character(char)} means nothing here", expected=self._statements_expected()
            )
            bare = _BARE.match(self._text, at)
            self._seek(bare.end() if bare else at + 1)

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _mend_string(self, at: int, line_end: int) -> None:
        """Explain double quotes that hold no name."""
        close = self._text.find('"', at + 1, line_end)
        if close < 0:
            self._report(
                Span(at, min(line_end, at + 1 + NAME_LENGTH)),
                "this string never closes",
                mend='write `"` behind the name',
            )
            self._seek(line_end)
            return
        name = self._text[at + 1 : close]
        span = Span(at, close + 1)
        if not name:
            self._report(span, "the name is empty")
        elif len(name) > NAME_LENGTH:
            self._report(span, f"the name has {len(name)} characters; at most {NAME_LENGTH} are allowed")
        else:
            allowed = re.compile(NAME_PATTERN, re.ASCII).match(name)
            bad = allowed.end() if allowed else 0
            self._report(
                Span(at + 1 + bad, at + 2 + bad),
                f"a name cannot {'hold' if bad else 'start with'} {character(name[bad])}",
                mend="a name is letters, digits and `. _ : @ -`, and starts with a letter or digit"
                + ("; names are inventory names, never addresses" if "/" in name else ""),
            )
        self._seek(close + 1)

    # Inside a statement

    def _mend_name(self, command: type[Command], token: Token) -> Token:
        """Explain what stands where a command's name should; return a stand-in, and go on behind it."""
        self._token = token
        expected = (_NAME_KINDS[command.names],)
        span = self._span(token)
        if token.lastindex == WORD and token[WORD] not in _KEYWORDS:
            bare = _BARE.match(self._text, span.start)
            end = bare.end() if bare else span.end
            name = self._text[span.start : end]
            self._report(
                Span(span.start, end), f"the name `{name}` has no quotes", expected=expected, mend=f'write `"{name}"`'
            )
            self._seek(end)
        elif token.lastindex == OTHER:
            self._mend_other(token)
        else:
            self._report(
                span, f"`{command.keyword}` needs a name", expected=expected, mend=f"for example `{command.example}`"
            )
        self._unread()
        return _STAND_IN

    def _mend_keyword(self, keyword: str, construct: str) -> None:
        """Explain that a keyword is missing inside a construct; go on as if it had been there."""
        token = self._token
        span = self._span(token)
        if token.lastindex == WORD and token[WORD] not in _KEYWORDS and nearest(token[WORD].upper(), [keyword]):
            why = "keywords are upper case" if token[WORD].upper() == keyword else f"did you mean `{keyword}`?"
            self._report(span, f"`{token[WORD]}` cannot stand here", expected=(keyword,), mend=why)
            self._skip_token()
        elif token.lastindex == OTHER:
            self._mend_other(token)
        else:
            several = keyword == "CATCH" and token.lastindex in (OPEN, WORD)
            self._report(
                span,
                f"`{construct}` needs `{keyword}`",
                expected=(keyword,),
                mend="a body is one statement: put several into braces, `TRY { … } CATCH { … }`" if several else None,
            )
            if keyword == "CATCH":
                self._owed_catches += 1
                raise Skip

    def _explain_open_block(self, opening: Token) -> NoReturn:
        self._report(self._span(opening), "this block never closes", expected=("}",), mend="write `}` where it ends")
        raise Stop

    def _explain_empty_program(self) -> None:
        self._report(
            self._span(self._token),
            "the program is empty",
            expected=self._statements_expected(),
            mend=f"for example `{self._vocabulary[0].example}`" if self._vocabulary else None,
        )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like a misspelled one, or None where none is near."""
    import difflib  # noqa: PLC0415  # only a misspelling pays for it

    candidates = list(known)
    if len(candidates) > 1_000:  # comparing is slow: of a large inventory, look where the first letter is right
        candidates = [name for name in candidates if name[0] == word[0]][:1_000]
    found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return found[0] if found else None


def character(char: str) -> str:
    """Return a character's name for a message, so that what cannot be seen can be found."""
    if char.isascii() and char.isprintable() and char != " ":
        return f"`{char}`"
    name = unicodedata.name(
        char, {"\0": "NUL", "\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN"}.get(char, "unnamed")
    )
    shown = f"`{char}` " if char.isprintable() and char != " " else ""
    return f"{shown}U+{ord(char):04X} ({name})"
