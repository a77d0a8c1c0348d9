"""The part of a request that holds a model to a copy: in the field that each engine reads it from."""

import json
from itertools import chain

import pytest
from tests.grammar.trees import Names

from guideway.dsl.ast import Target
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import DIALECTS, READS, Engine, GrammarCopy, Shape, Wrap, copy_for, request_for

NAMES: Names = {Target.HOST: ("h",), Target.SERVICE: ("s",), Target.RESTARTABLE: ("r",)}


def copy(dialect: str, wrap: Wrap = Wrap.NONE, shape: Shape | None = None) -> GrammarCopy:
    if dialect == "structural-tag":
        wrap = Wrap.HERMES
    return copy_for(PROGRAM_SCOPES, dialect, names=NAMES, wrap=wrap, shape=shape)


@pytest.mark.parametrize(
    ("engine", "dialect", "path"),
    [
        (Engine.LLAMA_CPP, "gbnf", "grammar"),
        (Engine.VLLM, "ebnf", "structured_outputs.grammar"),
        (Engine.VLLM, "structural-tag", "structured_outputs.structural_tag"),
        (Engine.VLLM, "regex", "structured_outputs.regex"),
        (Engine.SGLANG, "ebnf", "ebnf"),
        (Engine.SGLANG, "regex", "regex"),
        (Engine.OPENAI, "llguidance", "tools.0.format.definition"),
        (Engine.OPENAI, "regex", "tools.0.format.definition"),
        (Engine.LLGUIDANCE, "llguidance", "grammars.0.lark_grammar"),
        (Engine.XGRAMMAR, "ebnf", "format.grammar"),
    ],
)
def test_the_text_stands_in_its_place(engine: Engine, dialect: str, path: str) -> None:
    found: object = json.loads(json.dumps(request_for(engine, copy(dialect))))
    for step in path.split("."):
        found = found[int(step) if step.isdigit() else step]  # type: ignore[index]
    assert found == copy(dialect).text


@pytest.mark.parametrize(
    ("engine", "dialect", "path"),
    [
        (Engine.SGLANG, "structural-tag", "response_format"),
        (Engine.OPENAI, "json-schema", "tools.0.parameters"),
    ],
)
def test_what_is_json_stands_there_as_json(engine: Engine, dialect: str, path: str) -> None:
    found: object = request_for(engine, copy(dialect))
    for step in path.split("."):
        found = found[int(step) if step.isdigit() else step]  # type: ignore[index]
    assert found == json.loads(copy(dialect).text)


def test_what_is_not_a_place_alone() -> None:
    """What an engine needs beside the text, to read it as what it is."""
    text = copy("llguidance").text
    assert request_for(Engine.LLAMA_CPP, copy("llguidance"))["grammar"] == f"%llguidance {{}}\n{text}"
    (tool,) = request_for(Engine.OPENAI, copy("llguidance"))["tools"]
    assert (tool["type"], tool["name"]) == ("custom", "execute_diagnostic_pipeline")
    assert (tool["format"]["type"], tool["format"]["syntax"]) == ("grammar", "lark")
    assert request_for(Engine.OPENAI, copy("regex"))["tools"][0]["format"]["syntax"] == "regex"
    assert request_for(Engine.OPENAI, copy("json-schema"))["tools"][0]["strict"] is True
    assert request_for(Engine.XGRAMMAR, copy("structural-tag")) == json.loads(copy("structural-tag").text)
    assert request_for(Engine.XGRAMMAR, copy("ebnf"))["type"] == "structural_tag"


@pytest.mark.parametrize("engine", [Engine.LLAMA_CPP, Engine.VLLM, Engine.SGLANG])
def test_a_finite_copy_brings_the_token_limit_that_it_needs(engine: Engine) -> None:
    dialect = READS[engine][0]
    finite = copy(dialect)
    assert request_for(engine, finite)["max_tokens"] == finite.longest_tokens == finite.longest_bytes
    assert "max_tokens" not in request_for(engine, copy(dialect, shape=Shape(64, None)))


def test_what_is_talked_before_a_call_has_no_limit() -> None:
    for engine in (Engine.VLLM, Engine.SGLANG):
        assert "max_tokens" not in request_for(engine, copy("structural-tag"))


@pytest.mark.parametrize("engine", Engine)
def test_every_dialect_that_is_read_makes_a_request_and_no_other_does(engine: Engine) -> None:
    for dialect in DIALECTS:
        if dialect in READS[engine]:
            json.dumps(request_for(engine, copy(dialect)))
        else:
            with pytest.raises(ValueError, match=f"takes no `{dialect}`; it takes: {READS[engine][0]}"):
                request_for(engine, copy(dialect))


def test_an_engine_that_gets_the_program_alone_takes_no_wrap() -> None:
    with pytest.raises(ValueError, match="takes no wrap"):
        request_for(Engine.OPENAI, copy("llguidance", Wrap.JSON))
    assert request_for(Engine.LLAMA_CPP, copy("gbnf", Wrap.HERMES))["grammar"]


def test_every_dialect_for_generation_is_read_by_some_engine() -> None:
    assert set(chain(*READS.values())) == set(DIALECTS) - {"lark", "w3c", "svg"}
