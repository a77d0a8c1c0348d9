"""A copy in the place where an engine takes it: the part of a request that holds a model to the grammar.

Only the part: the model, the messages and the rest are the caller's own. A copy that has a longest text brings the
token limit that it needs where the engine's request has one, since what is cut off is no program.
"""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from guideway.grammar.copies import GrammarCopy
from guideway.grammar.wrap import TOOL, Wrap

Fragment = dict[str, Any]


class Engine(StrEnum):
    """Whose request it is."""

    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"
    SGLANG = "sglang"
    OPENAI = "openai"
    LLGUIDANCE = "llguidance"
    XGRAMMAR = "xgrammar"


def _tool(kind: str, **rest: Any) -> Fragment:
    return {"tools": [{"type": kind, "name": TOOL, **rest}]}


def _openai_grammar(syntax: str) -> Callable[[str], Fragment]:
    return lambda text: _tool("custom", format={"type": "grammar", "syntax": syntax, "definition": text})


# A JSON Schema is for hosts that have nothing else. XGrammar, so vLLM and SGLang, takes its pattern for the raw text
# between the quotes, where a quote of the program ends the string; llama.cpp does so too. They have a wrap for that.
_PLACES: Final[Mapping[Engine, Mapping[str, Callable[[str], Fragment]]]] = {
    # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md: `grammar`, `json_schema`. A build with
    # llguidance takes its Lark behind that line (docs/llguidance.md there); another one generates without a grammar.
    Engine.LLAMA_CPP: {
        "gbnf": lambda text: {"grammar": text},
        "llguidance": lambda text: {"grammar": f"%llguidance {{}}\n{text}"},
    },
    # https://docs.vllm.ai/en/latest/features/structured_outputs/, from vLLM 0.12; before, `structured_outputs` is
    # ignored. A grammar with `::=` is read as EBNF.
    Engine.VLLM: {
        "ebnf": lambda text: {"structured_outputs": {"grammar": text}},
        "structural-tag": lambda text: {"structured_outputs": {"structural_tag": text}},
        "regex": lambda text: {"structured_outputs": {"regex": text}},
    },
    # https://docs.sglang.io/advanced_features/structured_outputs.html; with the XGrammar backend, its default
    Engine.SGLANG: {
        "ebnf": lambda text: {"ebnf": text},
        "structural-tag": lambda text: {"response_format": json.loads(text)},
        "regex": lambda text: {"regex": text},
    },
    # https://platform.openai.com/docs/guides/function-calling#context-free-grammars: the Responses API
    Engine.OPENAI: {
        "llguidance": _openai_grammar("lark"),
        "regex": _openai_grammar("regex"),
        "json-schema": lambda text: _tool("function", parameters=json.loads(text), strict=True),
    },
    # https://github.com/guidance-ai/llguidance: `TopLevelGrammar` in parser/src/api.rs
    Engine.LLGUIDANCE: {"llguidance": lambda text: {"grammars": [{"lark_grammar": text}]}},
    # https://xgrammar.mlc.ai/docs/structural_tag/structural_tag_api.html
    Engine.XGRAMMAR: {
        "ebnf": lambda text: {"type": "structural_tag", "format": {"type": "grammar", "grammar": text}},
        "structural-tag": lambda text: dict(json.loads(text)),
    },
}

#: The dialects that each engine takes, the best first.
READS: Final[Mapping[Engine, tuple[str, ...]]] = {engine: tuple(places) for engine, places in _PLACES.items()}

_HAS_LIMIT: Final = frozenset({Engine.LLAMA_CPP, Engine.VLLM, Engine.SGLANG})


def request_for(engine: Engine, copy: GrammarCopy) -> Fragment:
    """Return the part of a JSON request that holds a model to a copy.

    Raises ``ValueError`` for a dialect that the engine does not take (``READS``), and for a wrap where the engine
    writes what stands around the program itself.
    """
    place = _PLACES[engine].get(copy.dialect)
    if place is None:
        raise ValueError(f"{engine} takes no `{copy.dialect}`; it takes: {', '.join(READS[engine])}")
    if engine is Engine.OPENAI and copy.wrap is not Wrap.NONE:
        raise ValueError("a tool of OpenAI gets the program alone: it takes no wrap")
    fragment = place(copy.text)
    # A structural tag lets the model talk before and the limit says nothing of that.
    if engine in _HAS_LIMIT and copy.longest_tokens is not None and copy.dialect != "structural-tag":
        fragment["max_tokens"] = copy.longest_tokens
    return fragment
