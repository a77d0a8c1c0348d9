"""What the parser does where a program is wrong: explain it, mend it, and go on.

Every method here is off the way of a well-formed program. Each reports one diagnostic and leaves the parser at a
token from which it can go on, so that a slip in one line hides none in the next. A mended program is never returned:
the parser raises what was reported.
"""

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.cursor import MOST_DIAGNOSTICS, Cursor, Stop, name_rule
from guideway.dsl.errors import quoted
from guideway.dsl.lexer import CLOSE, END, NAME, NAME_PATTERN, OPEN, OTHER, WORD, Token, is_name, scan
from guideway.dsl.source import Span

__all__ = ["KEYWORDS", "MOST_DIAGNOSTICS", "STARTS", "Recovery", "Skip", "Stop", "Unclosed", "nearest"]

STARTS: Final = frozenset({*(command.keyword for command in COMMANDS), "TRY"})
KEYWORDS: Final = STARTS | {"THEN", "ELSE", "CATCH"}

_NAME_KINDS: Final = {
    Target.HOST: "a host name in double quotes",
    Target.SERVICE: "a service name in double quotes",
    Target.RESTARTABLE: "a service name in double quotes",
}
_STAND_IN: Final = next(scan('"name"'))
_BARE_NAME = re.compile(r'[^\s{}"#;,()]+')
_IN_PARENTHESES = re.compile(rf'\([ \t]*"({NAME_PATTERN})"[ \t]*\)', re.ASCII)
_TWO_WORDS = re.compile(r"([A-Za-z]+)[ \t-]+([A-Za-z]+)")
_ELSE_IF: Final = frozenset({"ELIF", "ELSEIF", "ELSIF", "ELSE_IF"})
_OPENS_BODY: Final = {"ELSE": "THEN", "CATCH": "TRY"}  # what stands before the body that a word ends
_EMPTY_BODY: Final = "an empty body is written `{ }`"
_WHERE_IT_BELONGS: Final = {
    "THEN": ("IF_RUNNING", 'write `IF_RUNNING "service" THEN { … }`'),
    "ELSE": (
        "IF_RUNNING",
        'write `IF_RUNNING "service" THEN { … } ELSE { … }`: several statements in a body need the braces',
    ),
    "CATCH": ("TRY", "write `TRY { … } CATCH { … }`: several statements in a body need the braces"),
}


class Skip(Exception):  # noqa: N818  # control flow inside the parser, never seen outside
    """The statement cannot be mended: go on at the next one."""


class Unclosed(Skip):
    """The block that is being read has no closing brace: it ends here."""


class Recovery(Cursor):
    """A mend for each kind of slip."""

    __slots__ = ()

    def _owe(self, word: str) -> None:
        self._owed[word] = self._owed.get(word, 0) + 1

    def _settle(self, word: str) -> bool:
        """Say whether a word that stands alone was owed."""
        owed = self._owed.get(word, 0)
        self._owed[word] = max(0, owed - 1)
        return owed > 0

    def _synchronise(self) -> None:
        """Go to the next token at which a statement or the end of a block can stand, or a CATCH that ends one.

        What may have been meant as a statement counts, and a character that a line begins with: each is a slip of
        its own.
        """
        looked = False
        while True:
            kind = self._token.lastindex
            if kind in (OPEN, CLOSE, END):
                return
            if kind == WORD:
                word = self._token[WORD]
                if word in STARTS or (word not in KEYWORDS and self._may_be_statement(word)):
                    return
                if not self._settle(word) and word == "CATCH" and not looked:
                    if self._open_brace("TRY") is not None:
                        return
                    looked = True  # looking reads the whole text
            elif kind == OTHER and self._begins():
                return
            self._token = self._advance()

    def _begins(self) -> bool:
        """Say whether a statement would begin here: in a new line (no list goes on in it), or behind an operator."""
        token = self._token
        if self._follows(token, ","):
            return False
        return self._follows(token, ";", "&", "|") or "\n" in self._text[token.start() : self._span(token).start]

    def _may_be_statement(self, word: str) -> bool:
        """Say whether a word that is no keyword was meant to start a statement, and is no part of what is passed over.

        It stands where a statement begins, has a name behind it, looks like a command: two of these must hold, so that
        prose and lists stay one slip.
        """
        begins = self._begins()
        named = self._peek().lastindex == NAME
        if begins and named:
            return True
        return (begins or named) and self._looks_like_command(word)

    def _looks_like_command(self, word: str) -> bool:
        """Say whether a word is written as commands are, or is one in lower case: comparing letters would be slow."""
        if word.isupper() and len(word) > 1:
            return True
        two = _TWO_WORDS.match(self._text, self._token.start(WORD))
        meant = {word.upper(), f"{two[1]}_{two[2]}".upper() if two else ""}
        return not STARTS.isdisjoint(meant)

    # Where a statement should stand

    def _mend_statement(self) -> str:
        """Explain a token that starts no statement; return the keyword, or `{`, as which reading can go on."""
        token = self._token
        span = self._span(token)
        match token.lastindex:
            case 1:  # WORD
                meant = self._mend_word(token[WORD], span)
                if meant is not None:
                    return meant
            case 2:  # NAME
                self._report(
                    span,
                    f"the name {quoted(token[NAME])} stands alone",
                    expected=self._statements_expected(),
                    mend="write a command before it: each takes one name",
                )
                self._skip_token()
            case 6:  # OTHER
                self._mend_other(self._statements_expected())
            case 4 if self._depth == 0:  # CLOSE
                self._report(span, "this `}` closes nothing", mend="remove it, or write `{` where its block starts")
                self._skip_token()
            case kind:
                where = "before `}`" if kind == CLOSE else "at the end of the program"
                self._report_missing(span, where)
                raise Skip
        if self._token.lastindex == OPEN:
            return "{"
        if self._token[WORD] in STARTS:
            return self._token[WORD]
        raise Skip

    def _report_missing(self, span: Span, where: str) -> None:
        self._report(span, f"a statement is missing {where}", expected=self._statements_expected(), mend=_EMPTY_BODY)

    def _mend_word(self, word: str, span: Span) -> str | None:
        """Explain a word that starts no statement, and return what was meant; or go on behind it."""
        if word not in _WHERE_IT_BELONGS:
            return self._mend_command(word, span)
        if not self._settle(word):
            construct, mend = _WHERE_IT_BELONGS[word]
            opening = self._open_brace(_OPENS_BODY.get(word))
            if opening is not None:
                line = self._source.position(span.start).line
                self._report(
                    self._span(opening),
                    "this block never closes",
                    expected=("}",),
                    mend=f"write `}}` before the `{word}` in line {line}",
                )
                raise Unclosed
            if word != "THEN" and self._follows(self._token, _OPENS_BODY[word]):
                self._report_missing(span, f"before `{word}`")
                raise Skip
            self._report(span, f"this `{word}` belongs to no `{construct}`", mend=mend)
        self._skip_token()
        return None

    def _open_brace(self, word: str | None) -> Token | None:
        """Return the innermost brace that is open here, where it or one around it is of a body behind ``word``."""
        if word is None or self._depth == 0 or self._follows(self._token, word):
            return None
        braces: list[Token] = []
        for token in scan(self._text):
            if token.start() >= self._token.start():
                break
            if token.lastindex == OPEN:
                braces.append(token)
            elif token.lastindex == CLOSE and braces:
                braces.pop()
        return braces[-1] if any(self._follows(brace, word) for brace in braces) else None

    def _mend_command(self, word: str, span: Span) -> str | None:
        known = [command.keyword for command in self._vocabulary]
        two = _TWO_WORDS.match(self._text, span.start)
        if two and (joined := f"{two[1]}_{two[2]}".upper()) in known:
            self._report_meant(Span(*two.span()), "command", joined)
            self._advance = scan(self._text, two.end()).__next__
            return joined
        after = self._peek()
        named = after.lastindex == NAME
        if word.upper() in _ELSE_IF and "IF_RUNNING" in known:
            self._report(
                span, f"`{word}` is not a keyword", expected=("ELSE",), mend='write `ELSE IF_RUNNING "service"`'
            )
            return "IF_RUNNING"
        if "NOT" in word.upper() and nearest(word.upper(), known) == "IF_RUNNING":
            mend = 'write `IF_RUNNING "service" THEN { } ELSE { … }`'
            self._report(span, f"{quoted(word)} is not a command", expected=("IF_RUNNING",), mend=mend)
            return "IF_RUNNING"
        if word.upper() == "IF" and "IF_RUNNING" in known:
            self._report_meant(span, "command", "IF_RUNNING")
            return "IF_RUNNING"
        near = nearest(word.upper(), known if named else [*known, *KEYWORDS.difference(STARTS), "TRY"])
        if near is not None:
            self._report_meant(span, "command" if near in known else "keyword", near)
            if near in STARTS:
                return near
            self._skip_token()
            return None
        self._report(span, f"{quoted(word)} is not a command", expected=self._statements_expected())
        if named:  # read on as what it looks like
            return "IF_RUNNING" if next(scan(self._text, after.end()))[WORD] == "THEN" else "PING"
        self._skip_token()
        return None

    def _report_meant(self, span: Span, kind: str, meant: str) -> None:
        word = self._text[span.start : span.end]
        why = "keywords are upper case" if word.upper() == meant else f"did you mean `{meant}`?"
        self._report(span, f"{quoted(word)} is not a {kind}", expected=(meant,), mend=why)

    # Inside a statement

    def _mend_name(self, command: type[Command], token: Token) -> Token:
        """Explain what stands where a command's name should; return the name or a stand-in, and go on behind it."""
        self._token = token
        expected = (_NAME_KINDS[command.names],)
        span = self._span(token)
        char = token[OTHER] or ""
        bare = _BARE_NAME.match(self._text, span.start)
        inside = _IN_PARENTHESES.match(self._text, span.start)
        if bare and ((token.lastindex == WORD and token[WORD] not in KEYWORDS) or (char.isascii() and char.isalnum())):
            name = bare[0]
            self._report(
                Span(*bare.span()),
                f"the name {quoted(name)} has no quotes",
                expected=expected,
                mend=f'write `"{name}"`' if is_name(name) else name_rule(name),
            )
            self._seek(bare.end())
        elif inside:
            self._report(
                Span(*inside.span()),
                "a name cannot stand in parentheses",
                expected=expected,
                mend=f'write `{command.keyword} "{inside[1]}"`',
            )
            self._seek(inside.end())
        elif char:
            self._mend_other(expected)
            if self._to_name_on_line():
                return self._token
        else:
            self._report(
                span, f"`{command.keyword}` needs a name", expected=expected, mend=f"for example `{command.example}`"
            )
        self._advance = scan(self._text, self._token.start()).__next__  # the parser reads this token next
        return _STAND_IN

    def _to_name_on_line(self) -> bool:
        """Go on to a name, past what else stands before it on the line; say whether there is one."""
        while "\n" not in self._text[self._token.start() : self._span(self._token).start]:
            match self._token.lastindex:
                case 2:  # NAME
                    return True
                case 6:  # OTHER
                    pass
                case 1 if self._token[WORD] not in KEYWORDS:  # WORD
                    pass
                case _:
                    return False
            self._token = self._advance()
        return False

    def _mend_keyword(self, keyword: str, construct: str) -> None:
        """Explain that a keyword is missing inside a construct; go on as if it had been there."""
        token = self._token
        span = self._span(token)
        word = token[WORD]
        after = self._peek()
        if word is not None and word not in KEYWORDS and after.lastindex != NAME:
            near = nearest(word.upper(), [keyword])
            if near or after.lastindex == OPEN or after[WORD] in STARTS:
                why = "keywords are upper case" if word.upper() == keyword else f"did you mean `{keyword}`?"
                self._report(span, f"{quoted(word)} cannot stand here", expected=(keyword,), mend=why)
                self._skip_token()
                return
        if token.lastindex == OTHER:
            self._mend_other((keyword,))
            if self._token[WORD] == keyword:
                self._skip_token()
            return
        if after[WORD] == keyword and token.lastindex != END and self._depth == 0:
            self._report(
                span,
                f"{quoted(self._text[span.start : span.end])} cannot stand here",
                expected=(keyword,),
                mend="remove it",
            )
            self._seek(after.end())
            return
        self._report(span, f"`{construct}` needs `{keyword}`", expected=(keyword,), mend=self._why_needed(keyword))
        if keyword == "CATCH":
            raise Skip

    def _why_needed(self, keyword: str) -> str:
        token = self._token
        if keyword == "THEN":
            body = token.lastindex == OPEN or token[WORD] in STARTS
            return "write `THEN` before the body" if body else "write `THEN { … }` behind the name"
        if token.lastindex in (OPEN, WORD) and not self._follows(token, "}"):
            self._owe("CATCH")
            return _WHERE_IT_BELONGS["CATCH"][1]
        return "write `CATCH { … }` behind the body of `TRY`"

    def _mend_else(self, word: str) -> bool:
        """Say whether a word behind the body of THEN is a misspelled ELSE, and explain it."""
        if self._peek().lastindex == NAME or nearest(word.upper(), ["ELSE"]) is None:
            return False
        self._report_meant(self._span(self._token), "keyword", "ELSE")
        return True

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
    if len(candidates) > 1_000:  # comparing is slow: in a large inventory, look where the first letter is right
        candidates = [name for name in candidates if name[:1] == word[:1]][:1_000]
    found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return found[0] if found else None
