"""A spelled grammar as EBNF, for XGrammar and what embeds it: vLLM, SGLang, TensorRT-LLM, MLC."""

from guideway.grammar.dialects import gbnf
from guideway.grammar.model import Grammar


def print_grammar(grammar: Grammar) -> str:
    """Return a spelled grammar in XGrammar's EBNF. The rule ``start`` is the root."""
    return gbnf.print_grammar(grammar)
