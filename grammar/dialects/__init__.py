"""One file a dialect: each prints a grammar of the model in the spelling of some engine, and reads nothing."""

from collections.abc import Callable, Mapping
from typing import Final

from guideway.grammar.dialects import lark
from guideway.grammar.model import Grammar

PRINTERS: Final[Mapping[str, Callable[[Grammar], str]]] = {"lark": lark.print_grammar}

#: The dialects in which a copy can be had.
DIALECTS: Final = tuple(PRINTERS)
