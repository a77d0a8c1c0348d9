"""The published grammar and each caller's copy of it, made once and kept.

There are few copies (one a set of program scopes and dialect), so none is ever dropped.
"""

import hashlib
from dataclasses import dataclass
from functools import cache

from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar.dialects import PRINTERS
from guideway.grammar.model import Grammar
from guideway.grammar.trim import trim


@dataclass(frozen=True, slots=True)
class GrammarCopy:
    """A caller's grammar as text.

    ``sha256`` is the hash of the text in UTF-8, in lower-case hexadecimal. ``scopes`` are those that the copy spells
    programs for: of the caller's, the ones that let a program run.
    """

    dialect: str
    text: str
    sha256: str
    scopes: frozenset[Scope]


@cache
def published_grammar() -> Grammar:
    """Return the grammar of the whole language. The first call reads the file, which loads Lark."""
    from guideway.grammar.loader import load_grammar  # noqa: PLC0415  # Lark is loaded when a grammar is asked for

    return load_grammar()


def copy_for(scopes: frozenset[Scope], dialect: str = "lark") -> GrammarCopy:
    """Return the grammar for a caller with these scopes, in one of ``DIALECTS``.

    Raises ``NoGrammar`` where the scopes allow no command, and ``ValueError`` for any other dialect.
    """
    return _copy(scopes & PROGRAM_SCOPES, dialect)


@cache
def _copy(scopes: frozenset[Scope], dialect: str) -> GrammarCopy:
    if dialect not in PRINTERS:
        raise ValueError(f"unknown dialect `{dialect}`; there are: {', '.join(PRINTERS)}")
    text = PRINTERS[dialect](trim(published_grammar(), scopes))
    return GrammarCopy(dialect, text, hashlib.sha256(text.encode()).hexdigest(), scopes)
