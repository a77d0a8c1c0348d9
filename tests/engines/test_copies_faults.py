"""The faults that printers of grammars are known for: each, put into a copy, is refused by an engine or found out.

A copy is changed to what a wrong printer would have written, and then held to what the other tests hold copies to:
that it compiles, takes exactly the right programs, and lets a model write nothing else.
"""

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Literal

import pytest

from guideway.dsl.ast import Target
from guideway.dsl.scopes import Scope
from guideway.grammar import Layout, Shape, copy_for
from guideway.grammar.dialects import ebnf, gbnf, llguidance
from guideway.grammar.loader import read_grammar
from guideway.grammar.names import exactly
from guideway.grammar.spell import spell
from tests.engines.callers import CALLERS, Caller
from tests.engines.harness import EngineFaultError, EngineRefusedError, accepts, language, walk
from tests.engines.roster import ENGINES
from tests.engines.samples import programs
from tests.engines.trial import compile_grammar
from tests.engines.vocabulary import byte_vocabulary

Found = Literal["refused", "program", "walk"]

_WALKS: Final = 60
_MOST: Final = 500  # tokens of one walk


def _found(engine: str, caller: Caller, grammar: str) -> Found | None:
    """Return what finds out that a grammar is not the caller's copy, None where nothing does."""
    bytes_, random = byte_vocabulary(), Random(engine)
    try:
        start = compile_grammar(ENGINES[engine], grammar, "bytes", 30)
        for tree in programs(caller):
            if accepts(start, bytes_, caller.text(tree)) != (caller.may(tree) and caller.fits(tree)):
                return "program"
        for _ in range(_WALKS):
            text = walk(start, bytes_, random, most=_MOST)
            if text is not None and caller.fault(text):
                return "walk"
    except EngineFaultError:
        return "walk"
    except EngineRefusedError:
        return "refused"
    return None


def _all(old: str, new: str) -> Callable[[str], str]:
    return lambda grammar: re.sub(old, new, grammar, flags=re.MULTILINE)


# Each fault: whose copy, the change, and what finds it out in each engine for which it is one.
_FAULTS: Final[Mapping[str, tuple[str, Callable[[str], str], Mapping[str, Found]]]] = {
    "an underscore in the name of a rule": (
        *("both", _all("get-status", "get_status")),
        {"llama.cpp": "refused"},
    ),
    "a quote that is not escaped": (
        *("json", _all(r'\\"', '"')),
        {"llama.cpp": "refused", "xgrammar": "refused", "llguidance": "program", "glrmask": "program"},
    ),
    "a backslash that is not escaped": (
        *("json", _all(r"\\\\", r"\\")),
        {"llama.cpp": "refused", "xgrammar": "refused", "llguidance": "program", "glrmask": "program"},
    ),
    "a hyphen in the middle of a class": (
        *("marks-in-a-tree", _all(r"\[\.:@_-\]", "[.-:@_]")),
        dict.fromkeys(ENGINES, "program"),
    ),
    "an empty alternative under a star": (
        *("unbounded", _all(r'\((" " statement.\d+)\)\*', r"(\1 | )*")),
        {"llama.cpp": "refused", "xgrammar": "refused"},
    ),
    "no root": (
        *("both", _all("^(root ::=|start:)", r"no-\1")),
        dict.fromkeys(ENGINES, "refused"),
    ),
    "a name that begins another is lost": (
        *("prefixes", _all(r'"\\"web-1\\"" \| |"web-1"\|', "")),
        dict.fromkeys(ENGINES, "program"),
    ),
    "a name of somebody else": (
        *("prefixes", _all(r"web-100\b", "web-101")),
        dict.fromkeys(ENGINES, "program"),
    ),
    "white space where none is left": (
        *("both", _all('" }"', '" } "')),
        dict.fromkeys(ENGINES, "program"),
    ),
    "white space as much as one likes": (
        *("both", _all('" }"', '" "+ "}"')),
        dict.fromkeys(ENGINES, "walk"),
    ),
    "bodies that nest without end": (
        *("both", _all(r"^(block.2(?: ::=|:) .*statement.)3", r"\g<1>2")),
        dict.fromkeys(ENGINES, "program"),
    ),
    "one statement too many in a row": (
        *("both", _all(r"(\{0,|~0\.\.)7\b", r"\g<1>8")),
        dict.fromkeys(ENGINES, "program"),
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_fault_is_found_out(fault: str) -> None:
    name, change, expected = _FAULTS[fault]
    for engine in ENGINES:
        right = CALLERS[name].copy(ENGINES[engine].dialect).text
        found = None if (wrong := change(right)) == right else _found(engine, CALLERS[name], wrong)
        assert found == expected.get(engine), engine


@pytest.mark.parametrize("name", sorted({name for name, *_ in _FAULTS.values()}))
def test_without_a_fault_nothing_is_found(name: str) -> None:
    for engine in ENGINES:
        assert _found(engine, CALLERS[name], CALLERS[name].copy(ENGINES[engine].dialect).text) is None


_NASTY: Final = ('x" | "y', "\\", 'a"', "]b", "[c", "d\n", "e#", "f//", "g/", "{0,9}", "h.", "(i|j)")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_name_that_is_none_would_still_be_no_grammar(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such names are refused where they come in. Were they not, each would stand for itself."""
    monkeypatch.setattr("guideway.grammar.names.is_name", lambda _: True)
    copy = copy_for(frozenset({Scope.READ}), ENGINES[engine].dialect, names={Target.HOST: _NASTY}, shape=Shape(0, 1))
    start = compile_grammar(ENGINES[engine], copy.text, "bytes")
    assert set(language(start, byte_vocabulary(), 40)) == {f'PING "{name}"'.encode() for name in _NASTY}


_TWO_KEYWORDS: Final = """
start: statement+
statement: go | go_on | block
go: GO HOST
go_on: GO_ON HOST
block: "{" statement* "}"
GO: "GO" WORD_END
GO_ON: "GO_ON" WORD_END
WORD_END: /(?![A-Za-z0-9_])/
HOST: NAME
NAME: /"[a-z]"/
"""


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_keyword_may_begin_another(engine: str, layout: Layout) -> None:
    names = {"HOST": exactly(["GO", "GO_ON"])}
    spelled = spell(read_grammar(_TWO_KEYWORDS), names, Shape(1, 2), layout)
    text = {"gbnf": gbnf, "ebnf": ebnf, "llguidance": llguidance}[ENGINES[engine].dialect].print_grammar(spelled)
    start = compile_grammar(ENGINES[engine], text, "bytes")
    short = [f'{keyword} "{name}"' for keyword in ("GO", "GO_ON") for name in ("GO", "GO_ON")]
    between, inside = (" ", " ") if layout is Layout.ONE_LINE else ("\n", "\n  ")
    one = [*short, f"{{{between}}}", *(f"{{{inside}{command}{between}}}" for command in short)]
    expected = {*one, *(f"{a}{between}{b}" for a in one for b in one)}
    assert {text.decode() for text in language(start, byte_vocabulary(), 100)} == expected
