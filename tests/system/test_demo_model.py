"""The model's demo for real: a model from a package, run by llama.cpp, whose programs run on real processes.

What a model writes may differ from one processor to another, so nothing here asks for a certain program: only for what
a grammar promises of all of them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import Target
from guideway.dsl.parser import parse
from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server.demo.llama import Llama, Message, Written, turns
from guideway.server.demo.model import EXAMPLES, REQUESTS, SHAPE, judge
from guideway.server.demo.world import DemoError

ROOT = Path(__file__).parents[2]
GUIDEWAY = Path(sys.executable).with_name("guideway")
SCOPES = {"operator": {Scope.READ, Scope.WRITE}, "reader": {Scope.READ}}
SERVICES = ("api", "cache", "database", "worker")
NAMES = {
    Target.HOST: ("api.internal", "cache.internal", "database.internal"),
    Target.SERVICE: SERVICES,
    Target.RESTARTABLE: SERVICES,
}


@pytest.fixture(scope="module")
def demo() -> tuple[list[str], list[dict[str, Any]]]:
    """What the demo printed, and its machine form."""
    # With --json the lines go to standard error; llama.cpp is silent there.
    done = subprocess.run([GUIDEWAY, "demo", "--model", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    requests: list[dict[str, Any]] = json.loads(done.stdout)["requests"]
    return done.stderr.splitlines(), requests


@pytest.fixture(scope="module")
def llama() -> Llama:
    return Llama()


def test_each_program_under_a_grammar_parses_and_has_no_more_than_the_callers_rights_and_names(
    demo: tuple[list[str], list[dict[str, Any]]],
) -> None:
    for request in demo[1]:
        written = request["with_grammar"]
        assert written["whole"]
        assert written["parses"]
        assert written["allowed"]
        analysis = analyze(parse(written["text"]))
        assert analysis.scopes <= SCOPES[request["caller"]]
        assert all(name in NAMES[command.names] for command, name in analysis.targets)


def test_each_program_under_a_grammar_was_run_within_its_plan(
    demo: tuple[list[str], list[dict[str, Any]]],
) -> None:
    for request in demo[1]:
        report = request["report"]
        assert report["status"] in {"completed", "contained", "failed"}
        assert report["refusal"] is None
        most = report["worst_case"]["commands"]
        assert all(times <= most[keyword] for keyword, times in report["ran"].items())


def test_every_request_is_answered_both_ways_and_counted(demo: tuple[list[str], list[dict[str, Any]]]) -> None:
    lines, requests = demo
    assert [(request["caller"], request["request"]) for request in requests] == list(REQUESTS)
    for how, label in (("with_grammar", "with the grammar"), ("without_grammar", "without it")):
        found = [request[how] for request in requests]
        parsed, allowed = sum(one["parses"] for one in found), sum(one["allowed"] for one in found)
        assert f"{label:18}{parsed} of {len(found)}    {allowed} of {len(found)}" in lines
        for one in found:
            assert all(f"     {line}" in lines for line in one["text"].splitlines() if line.isprintable())


def test_the_page_shows_a_whole_session() -> None:
    page = (ROOT / "docs/demo-model.md").read_text()
    for number, (name, request) in enumerate(REQUESTS, 1):
        assert f"{number}. {name}: {request}" in page
    total = len(REQUESTS)
    assert re.search(rf"^with the grammar  {total} of {total}    {total} of {total}$", page, re.MULTILINE)
    assert re.search(rf"^without it        \d of {total}    \d of {total}$", page, re.MULTILINE)


def test_a_text_is_whole_or_said_to_be_cut_off(llama: Llama) -> None:
    copy = copy_for(frozenset(SCOPES["operator"]), "gbnf", names=NAMES, shape=SHAPE)
    assert copy.longest_tokens is not None
    conversation = list(turns(EXAMPLES[-3:], "restart the cache if it is down"))
    whole = llama.write(conversation, copy.longest_tokens, copy.text)
    assert whole.whole
    assert parse(whole.text).statements
    cut = llama.write(conversation, whole.tokens // 2, copy.text)
    assert not cut.whole
    assert whole.text.startswith(cut.text)
    # The limit has room for the token that ends a text.
    assert llama.write(conversation, whole.tokens - 1, copy.text).text == whole.text


def test_the_same_request_gets_the_same_text(llama: Llama) -> None:
    conversation = list(turns(EXAMPLES[-3:], "is the worker well?"))
    assert llama.write(conversation, 20).text == llama.write(conversation, 20).text


@pytest.mark.parametrize("grammar", ['root ::= "a" (', 'a_b ::= "a"', 'start ::= "a"'])
def test_a_grammar_that_llama_cpp_refuses_gets_no_text(grammar: str, llama: Llama) -> None:
    with pytest.raises(DemoError, match=r"llama\.cpp refuses"):
        llama.write([Message("user", "Say hello.")], 8, grammar)


def _judged(text: str, *, name: str = "operator", whole: bool = True) -> tuple[bool, bool, str]:
    pipeline = Pipeline(Inventory(services=[Service(service, MemoryDriver(), risk=HARMLESS) for service in SERVICES]))
    judged = judge(pipeline, Principal(name, frozenset(SCOPES[name])), Written(text, whole, 9, 0.1))
    return judged.parses, judged.runnable is not None, judged.verdict()


def test_a_text_that_was_cut_off_is_no_program_however_it_looks() -> None:
    assert _judged('RESTART "api"') == (True, True, "parses, and this caller may run it")
    assert _judged('RESTART "api"', whole=False) == (
        False,
        False,
        "was cut off after 9 tokens, so it is no program",
    )


@pytest.mark.parametrize(
    ("text", "name", "parses"),
    [
        ('RESTART "api"', "reader", True),
        ('RESTART "ap"', "operator", True),
        ('```\nRESTART "api"\n```', "operator", False),
        ("The API is up.", "operator", False),
        ("", "reader", False),
    ],
)
def test_what_may_not_run_is_counted_as_what_it_is(text: str, name: str, parses: bool) -> None:
    assert _judged(text, name=name)[:2] == (parses, False)


def test_the_examples_are_programs_that_the_operator_may_run() -> None:
    requests = {request for _, request in REQUESTS}
    for request, program in EXAMPLES:
        assert request not in requests  # they would be the answers
        analysis = analyze(parse(program))
        assert analysis.scopes <= SCOPES["operator"]
        assert all(name in NAMES[command.names] for command, name in analysis.targets)
