"""What a caller may name, as grammar: by kind of name, and put into the terminals of a copy made of tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from guideway.dsl.ast import Target
from guideway.dsl.patterns import Spelling
from guideway.grammar.dialects.regex import regex
from guideway.grammar.model import Alternative, Definition, Grammar, Paragraph, Pattern, Reference, Terminal
from guideway.grammar.names import Form, Names, any_name, exactly
from guideway.grammar.trim import restrict


def names_of(grammar: Grammar, names: Mapping[Target, Sequence[Spelling]] | None) -> dict[Target, Names]:
    """Return what each name terminal of a grammar spells: any name where ``names`` is None.

    Raises ``ValueError`` for a text that is no name of the language.
    """
    kinds = [kind for kind in Target if kind.value in grammar.terminals]
    return {kind: any_name() if names is None else exactly(names[kind]) for kind in kinds}


def note(kind: Target, names: Names) -> str | None:
    """Return what is to be said where a copy allows names that the caller may not use."""
    if names.form is not Form.PATTERN or names.count is None:
        return None
    return f"{kind}: any name, since there are {names.count:,}, too many to list. One that does not exist is refused."


def fill(grammar: Grammar, names: Mapping[Target, Names]) -> Grammar:
    """Return a grammar of tokens whose name terminals spell these names, as a list or as one regular expression.

    One that spells any name at all stays as it is. What is then left idle goes.
    """

    def filled(definition: Definition) -> Definition:
        if not isinstance(definition, Terminal) or definition.name not in names:
            return definition
        found = names[Target(definition.name)]
        same = next(kind for kind in names if names[kind] == found)
        if found.form is not Form.PATTERN and same != definition.name:
            return replace(definition, alternatives=(Alternative((Reference(same.value),)),))
        match found.form:
            case Form.LIST:
                return replace(definition, alternatives=found.alternatives)
            case Form.PATTERN if found.count is None:
                return definition
            case Form.TREE | Form.PATTERNS | Form.PATTERN:
                return replace(definition, alternatives=(Alternative((Pattern(regex(found.alternatives, {})),)),))
            case _:
                assert_never(found.form)

    paragraphs = tuple(replace(p, definitions=tuple(map(filled, p.definitions))) for p in grammar.paragraphs)
    return restrict(Grammar(paragraphs), lambda *_: True)


def with_notes(grammar: Grammar, names: Mapping[Target, Names]) -> Grammar:
    """Return a grammar with what there is to say about its names as comments where they are defined."""

    def noted(paragraph: Paragraph) -> Paragraph:
        defined = {definition.name.upper() for definition in paragraph.definitions}
        said = [text for kind, found in names.items() if kind in defined and (text := note(kind, found))]
        return replace(paragraph, comment=(*paragraph.comment, *said))

    return Grammar(tuple(map(noted, grammar.paragraphs)))
