"""A copy as a JSON Schema of the tool's arguments, for hosts that hold a model to nothing else: a string and a pattern.

The pattern is the program itself, before JSON escapes it. XGrammar and llama.cpp take it for what stands between the
quotes, which is then no JSON: they are given the wrapped form of their own dialect.
"""

import json

from guideway.grammar.dialects import regex
from guideway.grammar.model import Grammar
from guideway.grammar.wrap import ARGUMENT, Wrap


def print_copy(grammar: Grammar, wrap: Wrap) -> str:
    """Return the schema (2020-12) of the arguments. Raises ``TooLarge``, and ``ValueError`` for a wrap."""
    if wrap is not Wrap.NONE:
        raise ValueError("a JSON Schema describes the arguments and nothing around them: it takes no wrap")
    comments = (line for paragraph in grammar.paragraphs if not paragraph.definitions for line in paragraph.comment)
    program = {
        "type": "string",
        "description": " ".join(comments),
        "pattern": f"^(?:{regex.print_grammar(grammar)})$",
    }
    schema = {
        "type": "object",
        "properties": {ARGUMENT: program},
        "required": [ARGUMENT],
        "additionalProperties": False,
    }
    return f"{json.dumps(schema, indent=2)}\n"
