"""What a caller's copy costs in each engine: to compile it, and to mask a token; beside the engine's own JSON grammar.

The vocabulary is SmolLM2's, 49,152 tokens. JSON is what the engine itself ships for any JSON value, and for llama.cpp a
GBNF of ours. A mask is the engine's own call, before any conversion, at every place of a short text: a program, or for
JSON an object of about the same length. All copies and JSON take turns; each figure is the least of several rounds,
since whatever else the machine does only adds to it. A mask's figure is the mean over its text, whose places differ.
"""

import json
from collections.abc import Callable, Mapping
from random import Random
from time import monotonic, perf_counter
from typing import Final, NamedTuple

import numpy as np
from tests.engines.glrmask_engine import GLRMaskMatcher
from tests.engines.harness import Engine, Matcher
from tests.engines.llama_engine import LlamaMatcher
from tests.engines.llguidance_engine import LLGuidanceMatcher
from tests.engines.roster import ENGINES
from tests.engines.vocabulary import Vocabulary, smollm2_vocabulary
from tests.engines.xgrammar_engine import XGrammarMatcher, xgrammar

from bench import Figure
from guideway.dsl.ast import Target
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import FINITE, Shape, copy_for

SECONDS: Final = 12.0  # for each engine
ROUNDS: Final = 3  # at least
COMPILE_MS: Final = 10.0
MASK: Final = 1.2
NAMES: Final = 10.0

#: Any JSON value, with at most one space, or a line end and an indent, between tokens. llama.cpp's library has no JSON
#: grammar: built with llguidance, as here, its converter from JSON Schema writes that engine's Lark.
_JSON_GBNF: Final = r"""
root    ::= value
value   ::= object | array | text | number | "true" | "false" | "null"
object  ::= "{" gap (member ("," gap member)*)? gap "}"
member  ::= text ":" gap value
array   ::= "[" gap (value ("," gap value)*)? gap "]"
text    ::= "\"" (plain | escaped)* "\""
plain   ::= [ !#-\[\]-~]
escaped ::= "\\" (["\\/bfnrt] | "u" hex hex hex hex)
hex     ::= [0-9a-fA-F]
number  ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?
gap     ::= (" " | "\n" " "{0,16})?
"""
_JSON: Final[Mapping[str, str]] = {
    "llama.cpp": _JSON_GBNF,
    "xgrammar": str(xgrammar.Grammar.builtin_json_grammar()),
    "llguidance": "start: %json {}\n",
    "glrmask": "start: %json {}\n",
}
_JSON_TEXT: Final = json.dumps(
    {"service": "web-0001", "state": "running", "since": 1764500000.5, "restarts": [3, 0], "healthy": True}
)
_TEXT: Final = 'TRY { IF_RUNNING "web-0001" THEN { PING "web-0002" } ELSE { GET_STATUS "web-0001" } } CATCH { }'


class _Subject(NamedTuple):
    """A grammar, and the text that it is masked along."""

    grammar: str
    text: str


def main() -> list[Figure]:
    """Measure every engine."""
    return [figure for engine in ENGINES.values() for figure in measure(engine)]


def _counted(count: int) -> tuple[str, ...]:
    return tuple(f"web-{number:04}" for number in range(count))


def _at_random(count: int) -> tuple[str, ...]:
    """Return names that share nothing, and the two of the text."""
    random = Random(count)  # noqa: S311  # nothing secret
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return (*_counted(3)[1:], *("".join(random.choices(letters, k=12)) for _ in range(count - 2)))


def _subjects(engine: Engine) -> dict[str, _Subject]:
    def copy(names: tuple[str, ...], scopes: frozenset[Scope] = PROGRAM_SCOPES, shape: Shape = FINITE) -> _Subject:
        return _Subject(copy_for(scopes, engine.dialect, names=dict.fromkeys(Target, names), shape=shape).text, _TEXT)

    return {
        "JSON": _Subject(_JSON[engine.name], _JSON_TEXT),
        "reader, finite": copy(_counted(10), frozenset({Scope.READ})),
        "all scopes, nesting 64": copy(_counted(10), shape=Shape(64, None)),
        "10 names": copy(_counted(10)),
        "2,000 names at random": copy(_at_random(2_000)),
        "10,000 names that count up": copy(_counted(10_000)),
        "10,000 names at random": copy(_at_random(10_000)),
    }


def measure(engine: Engine) -> list[Figure]:
    """Return the figures of one engine."""
    vocabulary = smollm2_vocabulary()
    subjects = _subjects(engine)
    compiling: dict[str, list[float]] = {name: [] for name in subjects}
    masking: dict[str, list[float]] = {name: [] for name in subjects}
    end = monotonic() + SECONDS
    while monotonic() < end or len(compiling["JSON"]) < ROUNDS:
        for name, subject in subjects.items():
            since = perf_counter()
            start = engine.compile(subject.grammar, vocabulary)
            compiling[name].append((perf_counter() - since) * 1e3)
            _mask_along(start, vocabulary, subject.text)  # engines remember what they have met once
            masking[name].append(_mask_along(start, vocabulary, subject.text) * 1e6)
    compiled = {name: min(times) for name, times in compiling.items()}
    masks = {name: min(times) for name, times in masking.items()}
    return [*_compile_figures(engine, compiled), *_mask_figures(engine, masks)]


def _compile_figures(engine: Engine, compiled: Mapping[str, float]) -> list[Figure]:
    figures = []
    for name, took in compiled.items():
        trimmed = name == "reader, finite"
        figures.append(
            Figure(
                f"{engine.name}: compile {name}",
                f"{took:.2f} ms",
                f"at most {COMPILE_MS:g} ms" if trimmed else "",
                took <= COMPILE_MS if trimmed else None,
            )
        )
        if name.startswith("10,000"):
            ratio = took / compiled["10 names"]
            what = f"{engine.name}: compile {name} / 10"
            figures.append(Figure(what, f"{ratio:.1f}", f"at most {NAMES:g}", ratio <= NAMES))
    return figures


def _mask_figures(engine: Engine, masks: Mapping[str, float]) -> list[Figure]:
    figures = []
    for name, took in masks.items():
        figures.append(Figure(f"{engine.name}: mask {name}", f"{took:.1f} us"))
        if name != "JSON":
            ratio = took / masks["JSON"]
            what = f"{engine.name}: mask {name} / JSON"
            figures.append(Figure(what, f"{ratio:.2f}", f"at most {MASK}", ratio <= MASK))
    return figures


def _mask_along(start: Matcher, vocabulary: Vocabulary, text: str) -> float:
    """Return the mean seconds of a mask, at every place of a text."""
    matcher = start.copy()
    spent, places = 0.0, 0
    for token in (*vocabulary.split(text.encode()), None):
        mask = _mask(matcher, vocabulary)
        since = perf_counter()
        mask()
        spent += perf_counter() - since
        places += 1
        assert token is None or matcher.accept(token), text
    return spent / places


def _mask(matcher: Matcher, vocabulary: Vocabulary) -> Callable[[], object]:
    """Return the engine's own call that says which tokens may come next."""
    match matcher:
        case LlamaMatcher():  # it is asked about every candidate, as when a model offers them all
            everything = np.array(sorted(vocabulary.ids.values()))
            return lambda: matcher.sampler.allowed(everything)
        case XGrammarMatcher():
            bits = np.full(xgrammar.get_bitmask_shape(1, len(vocabulary.tokens)), -1, dtype=np.int32)
            return lambda: matcher.matcher.fill_next_token_bitmask(bits)
        case LLGuidanceMatcher():
            return matcher.matcher.compute_bitmask
        case GLRMaskMatcher():
            return matcher.state.mask
        case _:
            raise TypeError(f"no way to measure {matcher!r}")
