"""llama.cpp, by its real grammar sampler.

Asking llama.cpp about every token of a large vocabulary costs 13 ms, so a mask asks about tokens by length: a token
whose beginning is itself a refused token is not asked about. That is exact, since what llama.cpp allows it allows from
the left; a test compares it with asking about every token.
"""

import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from tests.engines import gguf, llama_library
from tests.engines.harness import Dialect, EngineRefusedError, Ids
from tests.engines.llama_library import GrammarSampler, Model
from tests.engines.stderr import captured_stderr
from tests.engines.vocabulary import Vocabulary

ROOT: Final = "root"
# What stands in quotes, in brackets and behind a number sign: no rule begins there and no number bounds anything.
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#.*')
_RULE: Final = re.compile(r"([A-Za-z0-9-]+)\s*::=")
_BOUND: Final = re.compile(r"\{\s*\d+\s*,\s*(\d+)\s*\}")
_MOST_REPETITIONS: Final = 2000
_LARGE: Final = 1000  # tokens, of which a mask takes long
_WIDE: Final = 16  # roots that may come next, where a mask is large
_TRIED: Final = 32  # tokens that are asked about before a large mask is
_NOTHING: Final = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class _Prefixes:
    """Tokens as a forest: below each token those that it is the longest proper beginning of."""

    roots: Ids
    children: tuple[Ids, ...]  # by id
    with_text: Ids  # all of them

    def below(self, tokens: Ids) -> Ids:
        """Return the tokens directly below some."""
        return np.concatenate([self.children[token] for token in tokens] or [_NOTHING])


@cache
def _prefixes(vocabulary: Vocabulary) -> _Prefixes:
    roots: list[int] = []
    children: list[list[int]] = [[] for _ in vocabulary.tokens]
    for text, token in vocabulary.ids.items():
        above = (text[:length] for length in range(len(text) - 1, 0, -1))
        parent = next((vocabulary.ids[prefix] for prefix in above if prefix in vocabulary.ids), None)
        (roots if parent is None else children[parent]).append(token)
    return _Prefixes(
        np.array(roots, dtype=np.intp),
        tuple(np.array(tokens, dtype=np.intp) if tokens else _NOTHING for tokens in children),
        np.array(list(vocabulary.ids.values()), dtype=np.intp),
    )


@cache
def _model(vocabulary: Vocabulary) -> Model:
    if vocabulary.model is not None:
        return llama_library.model(vocabulary.model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocabulary.gguf")
        gguf.write_vocabulary(path, vocabulary.tokens, vocabulary.end)
        return llama_library.model(path)


class LlamaMatcher:
    """A grammar sampler and its vocabulary."""

    def __init__(self, sampler: GrammarSampler, vocabulary: Vocabulary) -> None:
        self.sampler = sampler
        self._vocabulary = vocabulary
        # Once they were asked for: the roots that may come next and whether the text may end; the mask.
        self._first: tuple[Ids, bool] | None = None
        self._mask: Ids | None = None

    def mask(self) -> Ids:
        """Return the ids that may come next, ascending."""
        if self._mask is None:
            prefixes = _prefixes(self._vocabulary)
            found = [self._begin()[0]]
            while (asked := prefixes.below(found[-1])).size:
                found.append(asked[self.sampler.allowed(asked)])
            self._mask = np.sort(np.concatenate(found))
        return self._mask

    def draw(self, random: Random) -> int | None:
        """Return a token drawn evenly from the mask; None where nothing is allowed.

        Where a text can go on in many ways, llama.cpp is asked about some tokens, drawn evenly from all: the first of
        them that is allowed is drawn evenly from the mask too.
        """
        prefixes = _prefixes(self._vocabulary)
        if self._mask is None and prefixes.with_text.size > _LARGE and self._begin()[0].size >= _WIDE:
            some = prefixes.with_text[random.choices(range(prefixes.with_text.size), k=_TRIED)]
            found = some[self.sampler.allowed(some)]
            if found.size:
                return int(found[0])
        mask = self.mask()
        return int(mask[random.randrange(mask.size)]) if mask.size else None

    def is_complete(self) -> bool:
        """Say whether the text may end here."""
        return self._allows(self._vocabulary.end) if self._first is None else self._first[1]

    def accept(self, token: int) -> bool:
        """Take a token that is allowed: llama.cpp would abort on another."""
        if not (self._allows(token) if self._mask is None else token in self._mask):
            return False
        self.sampler.accept(token)
        self._first = self._mask = None
        return True

    def copy(self) -> "LlamaMatcher":
        """Return a matcher in the same state."""
        copy = LlamaMatcher(self.sampler.clone(), self._vocabulary)
        copy._first, copy._mask = self._first, self._mask
        return copy

    def _begin(self) -> tuple[Ids, bool]:
        if self._first is None:
            roots = _prefixes(self._vocabulary).roots
            allowed = self.sampler.allowed(np.append(roots, self._vocabulary.end))
            self._first = roots[allowed[:-1]], bool(allowed[-1])
        return self._first

    def _allows(self, token: int) -> bool:
        return bool(self.sampler.allowed(np.array([token]))[0])


@dataclass(frozen=True)
class LlamaEngine:
    """llama.cpp, which reads GBNF."""

    name: str = "llama.cpp"
    dialect: Dialect = "gbnf"

    def compile(self, grammar: str, vocabulary: Vocabulary) -> LlamaMatcher:
        """Compile; also refuses what llama.cpp takes in silence and reads as something else."""
        if fault := _silent_fault(grammar):
            raise EngineRefusedError(self.name, fault)
        model = _model(vocabulary)
        with captured_stderr() as said:
            sampler = model.sampler(grammar, ROOT)
        if sampler is None or said():
            raise EngineRefusedError(self.name, said() or "refused without a word")
        return LlamaMatcher(sampler, vocabulary)


def _silent_fault(grammar: str) -> str | None:
    bare = _QUOTED.sub("''", grammar)
    if not bare.strip():
        return "an empty grammar allows everything"
    if "\0" in grammar:
        return "a grammar ends at its first NUL"
    if twice := [name for name, times in Counter(_RULE.findall(bare)).items() if times > 1]:
        return f"the last rule of a name wins in silence: {', '.join(twice)}"
    if any(int(bound) > _MOST_REPETITIONS for bound in _BOUND.findall(bare)):
        return f"a bound over {_MOST_REPETITIONS} becomes none in silence"
    return None
