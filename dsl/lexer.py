"""Characters to tokens: one regular expression, which never backtracks and reads each character once.

A token is the match object itself: ``lastindex`` is its kind, the group of that number its text and place.
Nothing is decided here about which token may stand where, and no token is an error by itself: what fits
nowhere comes as ``OTHER``, one character, for the parser to explain.
"""

import re
from collections.abc import Iterator

from guideway.dsl.source import BYTE_ORDER_MARK

Token = re.Match[str]

WORD, NAME, OPEN, CLOSE, END, OTHER = range(1, 7)

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,252}"
NAME_LENGTH = 253

# Not in a comment: control characters, which could steer a terminal, a carriage return alone, which some viewers
# show as a line end, and what reorders or breaks a line on a screen (CVE-2021-42574, "Trojan Source").
_HIDDEN = "\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
COMMENT_PATTERN = f"#[^{_HIDDEN}]*"

_GAP = rf"[ \t\n]*+(?:(?:\r\n|{COMMENT_PATTERN})[ \t\n]*+)*+"
_TOKEN = re.compile(
    rf'{_GAP}(?:([A-Za-z_][A-Za-z0-9_]*)|"({NAME_PATTERN})"|(\{{)|(\}})|(\Z)|(.))', re.ASCII | re.DOTALL
)
_COMMENT = re.compile(rf'"[^"\n]*"|({COMMENT_PATTERN})')
_NAME = re.compile(NAME_PATTERN, re.ASCII)


def scan(text: str, at: int = 0) -> Iterator[Token]:
    """Yield the tokens of a text from an offset on; the last one is ``END``. White space and comments are skipped."""
    if at == 0 and text.startswith(BYTE_ORDER_MARK):
        at = len(BYTE_ORDER_MARK)
    return _TOKEN.finditer(text, at)


def is_name(text: str) -> bool:
    """Say whether a text is a name by the rules of the language."""
    return _NAME.fullmatch(text) is not None


def comments(text: str) -> Iterator[Token]:
    """Yield the comments of a program that parses, as matches of group 1."""
    return (match for match in _COMMENT.finditer(text) if match.lastindex)
