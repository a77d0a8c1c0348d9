"""Copies are compiled by the engines that are installed, before they are handed out."""

import hashlib
import logging
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from guideway.dsl.scopes import Scope
from guideway.grammar import GrammarCopy, Wrap, copy_for
from guideway.interpreter.children import run as children
from guideway.interpreter.children.order import Ended, Order
from guideway.server import compile_copy, engines, publish
from guideway.server.describe import GRAMMAR_KEY
from tests.server.world import BOTH, World

pytestmark = pytest.mark.anyio

# XGrammar names torch and transformers when it is imported, and needs neither to compile. What it needs of the first
# looks into torch, so it comes before.
WITHOUT_TORCH = """
import importlib.util, sys, types
if importlib.util.find_spec("torch") is None:
    import tvm_ffi
    for name, classes in (
        ("torch", ("Tensor", "LongTensor", "FloatTensor", "tensor", "int32")),
        ("transformers", ("PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "LogitsProcessor")),
    ):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update({each: type(each, (), {"__init__": lambda *_, **__: None}) for each in classes})
"""
DIALECTS = pytest.mark.parametrize("dialect", list(engines.ENGINES))


@pytest.fixture(autouse=True)
def _nothing_is_known_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forget what engines have said, and let XGrammar start."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TORCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(engines, "_verdicts", type(engines._verdicts)(100))
    monkeypatch.setattr(engines, "_unusable", set())


def copy_in(dialect: str) -> GrammarCopy:
    """Return a copy in a dialect; a structural tag is one of a chat format."""
    return copy_for(BOTH, dialect, wrap=Wrap.HERMES if dialect == "structural-tag" else Wrap.NONE)


def with_text(copy: GrammarCopy, text: str) -> GrammarCopy:
    """Return a copy that says something else."""
    return replace(copy, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


@DIALECTS
async def test_an_engine_compiles_the_copies_of_its_dialect(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, engines.__name__)
    copy = copy_in(dialect)
    assert engines.engine_for(copy) is not None, "the engines are installed for the tests"
    assert await engines.refusal(copy) is None
    assert engines.engine_for(copy) is not None, "it did start"
    assert caplog.messages == []


@DIALECTS
async def test_an_engine_refuses_what_is_no_grammar_of_its_dialect(dialect: str) -> None:
    copy = copy_in(dialect)
    broken = with_text(copy, copy.text.replace("statement", "stat=ment"))
    refused = await engines.refusal(broken)
    assert refused is not None
    assert refused.startswith(f"{engines.ENGINES[dialect].name} does not compile this copy")
    assert await engines.refusal(broken) == refused, "it is remembered"


@pytest.mark.parametrize("dialect", ["lark", "w3c", "regex"])
async def test_what_no_engine_reads_is_not_compiled(dialect: str) -> None:
    copy = with_text(copy_in("gbnf"), "::=")
    assert await engines.refusal(replace(copy, dialect=dialect)) is None


async def test_each_copy_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    run = children.run

    async def counted(order: Order) -> Ended:
        started.append(order.arguments[-2])
        return await run(order)

    monkeypatch.setattr(engines, "run", counted)
    for _ in range(3):
        for dialect in ("gbnf", "llguidance"):
            assert await engines.refusal(copy_in(dialect)) is None
    assert sorted(started) == ["gbnf", "llguidance"]


async def test_an_engine_that_does_not_start_is_no_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "llguidance.py").write_text("raise ImportError('a library is missing')")
    caplog.set_level(logging.INFO, engines.__name__)
    copy = copy_in("llguidance")
    assert await engines.refusal(with_text(copy, "::=")) is None
    assert engines.engine_for(copy) is None, "it is not asked again"
    [said] = caplog.messages
    assert said == (
        "llguidance is installed but does not start, so copies are not compiled: ImportError: a library is missing"
    )


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("while True: pass", f"it ended with signal {signal.SIGALRM.value}"),
        ("import os; os.abort()", f"it ended with signal {signal.SIGABRT.value}"),
        ("import os; os._exit(3)", "it ended with code 3"),
        ("bytearray(8 << 30)", "MemoryError"),
        ("import os; [os.write(2, b'x' * 65536) for _ in range(400)]; os._exit(3)", "x" * 2000),
    ],
    ids=["hangs", "aborts", "exits", "eats memory", "floods"],
)
async def test_an_engine_that_a_copy_hangs_or_ends_has_refused_it(
    deed: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine is one that does so; the process around it, its time limit and its end are real."""
    (tmp_path / "llguidance.py").write_text(f"""
LLTokenizer = str
class LLMatcher:
    grammar_from_lark = str
    def validate_grammar_with_warnings(text, tokenizer):
        if len(text) > 20:
            {deed}
        return False, []
""")
    monkeypatch.setattr(engines, "SECONDS", 1)
    refused = await engines.refusal(copy_in("llguidance"))
    assert refused is not None
    assert refused.startswith("llguidance does not compile this copy, so it is not handed out: ")
    assert refused.endswith(said)
    (tmp_path / "llguidance.py").write_text("""
LLTokenizer = str
class LLMatcher:
    grammar_from_lark = str
    def validate_grammar_with_warnings(text, tokenizer):
        return False, []
""")
    lasting = "signal" not in said  # what a signal ended was perhaps starved, and is asked again
    assert (await engines.refusal(copy_in("llguidance")) is not None) == lasting


async def test_a_copy_that_does_not_compile_is_in_no_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the printer, put there on purpose: a rule's name with an underscore, which llama.cpp refuses."""

    def faulty(scopes: frozenset[Scope], dialect: str, **options: Any) -> GrammarCopy:
        copy = copy_for(scopes, dialect, **options)
        return with_text(copy, copy.text.replace("try-catch", "try_catch")) if dialect == "gbnf" else copy

    monkeypatch.setattr(publish, "copy_for", faulty)
    async with world.connected("http", "2026-07-28") as client:
        [tool] = (await client.list_tools()).tools
        told = (tool.meta or {})[GRAMMAR_KEY]
        assert not {"gbnf", "gbnf_uri", "gbnf_sha256"} & told.keys()
        assert "PING" in told["definition"]
        [note] = told["notes"]
        assert note.startswith("There is no copy in GBNF: llama.cpp does not compile this copy")
        uris = {resource.uri for resource in (await client.list_resources()).resources}
        assert "guideway://grammar/gbnf" not in uris
        with pytest.raises(MCPError, match=r"llama\.cpp does not compile this copy") as raised:
            await client.read_resource("guideway://grammar/gbnf")
        assert raised.value.error.code == -32603
    async with world.serving() as url, httpx2.AsyncClient() as http:
        response = await http.get(httpx2.URL(url).join("/grammar?dialect=gbnf"))
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_refuses"
    assert "try_catch" not in response.json().get("definition", "")


def test_the_program_that_compiles_does_not_read_modules_of_the_folder_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('wrong module')")
    command = [sys.executable, "-P", "-m", compile_copy.__name__, "gbnf", "20"]
    ended = subprocess.run(
        command, input='root ::= "a"', cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["ready", "compiled"])
