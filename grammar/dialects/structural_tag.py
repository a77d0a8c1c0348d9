"""A copy as a structural tag: how XGrammar lets a model talk, and holds it to a grammar once it begins a tool call.

https://xgrammar.mlc.ai/docs/structural_tag/structural_tag_api.html; vLLM and SGLang take the same.
"""

import json

from guideway.grammar.dialects import ebnf
from guideway.grammar.model import Grammar
from guideway.grammar.wrap import Wrap, around, wrapped


def print_copy(grammar: Grammar, wrap: Wrap) -> str:
    """Return the tag for one call in a chat format. Raises ``ValueError`` for a wrap that is no chat format."""
    stands = around(wrap)
    if not stands.before:
        raise ValueError("a structural tag begins where a call in a chat format does: it takes a wrap of one")
    arguments = {"type": "grammar", "grammar": ebnf.print_grammar(wrapped(grammar, Wrap.JSON))}
    tag = {"type": "tag", "begin": stands.before, "content": arguments, "end": stands.behind}
    calls = {
        "type": "triggered_tags",
        "triggers": [stands.trigger],
        "tags": [tag],
        "stop_after_first": True,
    }
    return f"{json.dumps({'type': 'structural_tag', 'format': calls}, indent=2)}\n"
