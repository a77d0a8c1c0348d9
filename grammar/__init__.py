"""The published language and its copies: what a caller may be shown of the grammar. Never decides what runs.

Importing this package loads neither Lark nor the grammar file; the first question about the grammar does.
"""

from guideway.grammar.copies import GrammarCopy, copy_for, published_grammar
from guideway.grammar.dialects import DIALECTS
from guideway.grammar.names import Form
from guideway.grammar.requests import READS, Engine, request_for
from guideway.grammar.spell import FINITE, Layout, Shape, TooLarge
from guideway.grammar.trim import NoGrammar, NothingToName, trim
from guideway.grammar.wrap import Wrap

__all__ = [
    "DIALECTS",
    "FINITE",
    "READS",
    "Engine",
    "Form",
    "GrammarCopy",
    "Layout",
    "NoGrammar",
    "NothingToName",
    "Shape",
    "TooLarge",
    "Wrap",
    "copy_for",
    "published_grammar",
    "request_for",
    "trim",
]
