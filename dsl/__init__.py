"""The language: text to tree to facts about the tree. Pure: no I/O, no clock, and the standard library only."""

from guideway.dsl.analysis import Analysis, analyze
from guideway.dsl.errors import Code, Diagnostic, Refusal, draw
from guideway.dsl.parser import DEFAULT_LIMITS, Limits, parse
from guideway.dsl.printer import format_program

__all__ = [
    "DEFAULT_LIMITS",
    "Analysis",
    "Code",
    "Diagnostic",
    "Limits",
    "Refusal",
    "analyze",
    "draw",
    "format_program",
    "parse",
]
