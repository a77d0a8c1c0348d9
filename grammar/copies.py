"""The published grammar and each caller's copy of it, made once and kept for a while."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from guideway.dsl.ast import Target
from guideway.dsl.parser import DEFAULT_LIMITS, Limits
from guideway.dsl.patterns import Spelling
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope, scope_list
from guideway.grammar.dialects import Published, dialect_of
from guideway.grammar.fit import fit
from guideway.grammar.measure import longest, way_out
from guideway.grammar.model import Grammar, Paragraph
from guideway.grammar.names import Form
from guideway.grammar.spell import FINITE, Layout, Shape, TooLarge
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
    written: the caller's own, as a list, a tree or with patterns, or the pattern of all names; ``notes`` says that in
    words.

    The rest is None in a copy that is not for generation, where layout is free and nothing is bounded. ``shape`` is the
    largest that the limits leave of the one asked for. ``longest_bytes`` is the length of the longest text, None where
    there is no longest; it takes at most as many tokens, since a token has at least a byte. ``way_out_bytes``: from any
    place in a text, some continuation that is no longer completes it.
    """

    dialect: str
    text: str
    sha256: str
    scopes: frozenset[Scope]
    names: Mapping[Target, Form]
    notes: tuple[str, ...]
    layout: Layout | None = None
    shape: Shape | None = None
    wrap: Wrap | None = None
    longest_bytes: int | None = None
    way_out_bytes: int | None = None

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
    names: Mapping[Target, Sequence[Spelling]] | None = None,
    layout: Layout = Layout.ONE_LINE,
    shape: Shape | None = None,
    wrap: Wrap = Wrap.NONE,
    limits: Limits = DEFAULT_LIMITS,
) -> GrammarCopy:
    """Return the grammar for a caller with these scopes, in one of ``DIALECTS``.

    ``names`` are the names, and the patterns of names, that the caller may use with each kind of command; a kind
    without any, or not mentioned, has no command in the copy. None stands for any name. ``shape`` None is ``FINITE``,
    or where the dialect or the limits have no room for it, the deepest that fits. ``limits`` are the server's: no shape
    goes beyond them. Dialects that are not for generation have no layout, shape or wrap.

    Raises ``NoGrammar`` where the scopes allow no command, or none has anything to name; ``TooLarge`` where the dialect
    has no room for the shape; ``ValueError`` for any other dialect, a text that is no name, and a shape or wrap that
    cannot be had.
    """
    held = None if names is None else tuple((kind, tuple(names[kind])) for kind in Target if names.get(kind))
    return _copy(scopes & PROGRAM_SCOPES, dialect, held=held, layout=layout, shape=shape, wrap=wrap, limits=limits)


@lru_cache(maxsize=KEPT)
def _copy(
    scopes: frozenset[Scope],
    dialect: str,
    *,
    held: tuple[tuple[Target, tuple[Spelling, ...]], ...] | None,
    layout: Layout,
    shape: Shape | None,
    wrap: Wrap,
    limits: Limits,
) -> GrammarCopy:
    printer = dialect_of(dialect)
    by_kind = None if held is None else dict(held)
    grammar = trim(published_grammar(), scopes, Target if by_kind is None else by_kind)
    names = names_of(grammar, by_kind)

    forms = MappingProxyType({kind: found.form for kind, found in names.items()})
    notes = tuple(said for kind, found in names.items() if (said := note(kind, found)))
    unwritten = GrammarCopy(dialect, "", "", scopes, forms, notes)
    if isinstance(printer, Published):
        if wrap is not Wrap.NONE:
            raise ValueError(f"the dialect `{dialect}` is not for generation: it takes no wrap")
        return _written(unwritten, printer.print_grammar(with_notes(fill(grammar, names), names)))

    def spelled(shape: Shape) -> GrammarCopy:
        body, fitting = fit(grammar, names, shape, layout, limits)
        whole = wrapped(body, wrap)
        bounded = replace(
            unwritten,
            layout=layout,
            shape=fitting,
            wrap=wrap,
            longest_bytes=longest(whole),
            way_out_bytes=way_out(whole),
        )
        header = Paragraph(tuple(_header(bounded, fitting)), ())
        return _written(bounded, printer.print_copy(Grammar((header, *with_notes(body, names).paragraphs)), wrap))

    return _deepest(spelled, shape)


def _deepest(spelled: Callable[[Shape], GrammarCopy], asked: Shape | None) -> GrammarCopy:
    """Return the copy of the shape asked for, or else of the deepest that has room. Raises ``TooLarge``."""
    largest = asked or FINITE
    try:
        return spelled(largest)
    except TooLarge as error:
        refused = error
    found: GrammarCopy | None = None
    fits, too_deep = -1, largest.nesting
    while too_deep - fits > 1:
        nesting = (fits + too_deep) // 2
        try:
            found = spelled(replace(largest, nesting=nesting))
        except TooLarge:
            too_deep = nesting
        else:
            fits = nesting
    if found is None:
        raise TooLarge(f"{refused}, even without nesting: there are too many names, or the limits are too tight")
    if asked is None:
        return found
    raise TooLarge(f"{refused}; there is room for a nesting of {fits}")


def _written(copy: GrammarCopy, text: str) -> GrammarCopy:
    return replace(copy, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


def _header(copy: GrammarCopy, shape: Shape) -> Iterator[str]:
    yield f"Diagnostic programs for the scopes {scope_list(copy.scopes)}, to generate by."
    yield f"Layout {copy.layout}, wrap {copy.wrap}; bodies nest at most {shape.nesting} deep."
    if shape.statements is not None:
        yield f"At most {shape.statements} statements stand in a row; further in, fewer."
    most = copy.longest_bytes
    yield "There is no longest text." if most is None else f"The longest text has {most:,} bytes: no more tokens."
    yield f"From any place in a text, at most {copy.way_out_bytes:,} bytes complete it."
    yield "A text that was cut off at a token limit is no program."
