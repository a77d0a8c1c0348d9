"""The published grammar and each caller's copy of it, made once and kept for a while."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from guideway.dsl.ast import Target
from guideway.dsl.parser import DEFAULT_LIMITS, Limits
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.grammar.dialects import dialect_of
from guideway.grammar.measure import longest, most_commands
from guideway.grammar.model import Grammar, Paragraph
from guideway.grammar.names import Form, Names
from guideway.grammar.spell import FINITE, Layout, Shape, spell
from guideway.grammar.targets import fill, names_of, note, with_notes
from guideway.grammar.trim import trim
from guideway.grammar.wrap import Wrap, wrapped

KEPT: Final = 256
"""How many copies are kept; the one that was not asked for the longest is dropped first."""


@dataclass(frozen=True, slots=True)
class GrammarCopy:
    """A caller's grammar as text, and what it promises.

    ``sha256`` is the hash of the text in UTF-8, in lower-case hexadecimal. ``scopes`` are those that the copy spells
    programs for: of the caller's, the ones that let a program run. ``names`` says by kind in which form names are
    written: the caller's own, listed or as a tree, or the pattern of all names; ``notes`` says that in words.

    The rest is None in a copy that is not for generation, where layout is free and nothing is bounded. ``shape`` is the
    largest that the limits leave of the one asked for. ``longest_bytes`` is the length of the longest text, None where
    there is no longest; it takes at most as many tokens, since a token has at least a byte.
    """

    dialect: str
    text: str
    sha256: str
    scopes: frozenset[Scope]
    names: Mapping[Target, Form]
    notes: tuple[str, ...]
    layout: Layout | None
    shape: Shape | None
    wrap: Wrap | None
    longest_bytes: int | None

    @property
    def longest_tokens(self) -> int | None:
        """The most tokens that a text of the copy can take with any tokenizer."""
        return self.longest_bytes


@cache
def published_grammar() -> Grammar:
    """Return the grammar of the whole language. The first call reads the file, which loads Lark."""
    from guideway.grammar.loader import load_grammar  # noqa: PLC0415  # Lark is loaded when a grammar is asked for

    return load_grammar()


def copy_for(
    scopes: frozenset[Scope],
    dialect: str = "lark",
    *,
    names: Mapping[Target, Sequence[str]] | None = None,
    layout: Layout = Layout.ONE_LINE,
    shape: Shape = FINITE,
    wrap: Wrap = Wrap.NONE,
    limits: Limits = DEFAULT_LIMITS,
) -> GrammarCopy:
    """Return the grammar for a caller with these scopes, in one of ``DIALECTS``.

    ``names`` are those that the caller may use with each kind of command; a kind without any, or not mentioned, has no
    command in the copy. None stands for any name. ``limits`` are the server's: no shape goes beyond them.

    Raises ``NoGrammar`` where the scopes allow no command, or none has anything to name; ``ValueError`` for any other
    dialect, a text that is no name, and a shape or wrap that the dialect cannot hold.
    """
    held = None if names is None else tuple((kind, tuple(names[kind])) for kind in Target if names.get(kind))
    return _copy(scopes & PROGRAM_SCOPES, dialect, held=held, layout=layout, shape=shape, wrap=wrap, limits=limits)


@lru_cache(maxsize=KEPT)
def _copy(
    scopes: frozenset[Scope],
    dialect: str,
    *,
    held: tuple[tuple[Target, tuple[str, ...]], ...] | None,
    layout: Layout,
    shape: Shape,
    wrap: Wrap,
    limits: Limits,
) -> GrammarCopy:
    printer = dialect_of(dialect)
    by_kind = None if held is None else dict(held)
    trimmed = trim(published_grammar(), scopes, Target if by_kind is None else by_kind)
    names = names_of(trimmed, by_kind)
    notes = tuple(said for kind, found in names.items() if (said := note(kind, found)))
    forms = MappingProxyType({kind: found.form for kind, found in names.items()})
    if not printer.spelled:
        text = printer.print_grammar(with_notes(fill(trimmed, names), names))
        return GrammarCopy(dialect, text, _hash(text), scopes, forms, notes, None, None, None, None)
    spelled, fitting = _fitting(trimmed, names, shape, layout, limits)
    call = wrapped(with_notes(spelled, names), wrap)
    most = longest(call)
    header = Paragraph(tuple(_header(scopes, layout, fitting, wrap, most)), ())
    text = printer.print_grammar(Grammar((header, *call.paragraphs)))
    return GrammarCopy(dialect, text, _hash(text), scopes, forms, notes, layout, fitting, wrap, most)


def _fitting(
    grammar: Grammar, names: Mapping[Target, Names], shape: Shape, layout: Layout, limits: Limits
) -> tuple[Grammar, Shape]:
    """Return the spelled grammar of the largest shape within the limits, and that shape. Raises ``ValueError``."""
    if shape.nesting > limits.nesting:
        raise ValueError(f"programs nest {limits.nesting} deep at most")
    spellings = {kind.value: found for kind, found in names.items()}
    for statements in (None,) if shape.statements is None else range(shape.statements, 0, -1):
        fitting = Shape(shape.nesting, statements)
        spelled = spell(grammar, spellings, fitting, layout)
        most, commands = longest(spelled), most_commands(spelled)
        if (most is None or most <= limits.bytes) and (commands is None or commands <= limits.commands):
            return spelled, fitting
    raise ValueError(f"programs that nest {shape.nesting} deep can be larger than the limits allow")


def _header(scopes: frozenset[Scope], layout: Layout, shape: Shape, wrap: Wrap, most: int | None) -> Iterator[str]:
    yield f"Diagnostic programs for the scopes {scope_list(scopes)}."
    row = (
        "any number of statements in a row"
        if shape.statements is None
        else f"at most {shape.statements} statements in a row"
    )
    yield f"Layout {layout}; wrap {wrap}; bodies nest at most {shape.nesting} deep; {row}."
    if most is None:
        yield "There is no longest text."
    else:
        yield f"The longest text has {most:,} bytes, so at most {most:,} tokens."
    yield "A text that was cut off at a token limit is no program."


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
