"""A spelled grammar as Lark for llguidance, so for Guidance and OpenAI's custom tools; GLRMask reads it too.

Rules have lower-case names and are parsed; terminals have upper-case names and are matched as one piece, the longest
that fits. So only names, each between its own quotes, are terminals: none is the beginning of another.
"""

from dataclasses import replace

from guideway.grammar.dialects import lark
from guideway.grammar.dialects.regex import regex
from guideway.grammar.measure import NAME_RULES
from guideway.grammar.model import (
    Alternative,
    Atom,
    Definition,
    Grammar,
    Group,
    Item,
    Pattern,
    Reference,
    Repeat,
    Rule,
    Terminal,
)


def print_grammar(grammar: Grammar) -> str:
    """Return a spelled grammar in the Lark that llguidance reads."""
    changed = (replace(p, definitions=tuple(map(_definition, p.definitions))) for p in grammar.paragraphs)
    return lark.print_grammar(Grammar(tuple(changed)))


def _definition(definition: Definition) -> Definition:
    """Return a rule with names as terminals; the rule of a name as its terminal, one regular expression."""
    match definition:
        case Rule(name, (Alternative((Reference(other),)),)) if name in NAME_RULES:
            return Terminal(name.upper(), (Alternative((Reference(other.upper()),)),))
        case Rule(name, alternatives) if name in NAME_RULES:
            return Terminal(name.upper(), (Alternative((Pattern(regex(alternatives, {})),)),))
        case Rule(name, alternatives):
            return Rule(name, tuple(map(_alternative, alternatives)))
        case _:
            raise ValueError(f"`{definition.name}` is no rule: a spelled grammar has nothing else")


def _alternative(alternative: Alternative) -> Alternative:
    return Alternative(tuple(map(_item, alternative.items)))


def _item(item: Item) -> Item:
    return replace(item, item=_atom(item.item)) if isinstance(item, Repeat) else _atom(item)


def _atom(atom: Atom) -> Atom:
    match atom:
        case Reference(name) if name in NAME_RULES:
            return Reference(name.upper())
        case Group(alternatives):
            return Group(tuple(map(_alternative, alternatives)))
        case _:
            return atom
