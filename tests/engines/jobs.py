"""What is asked of an engine with one caller's copy, as jobs for other processes; what must hold, the tests say."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

import numpy as np

from guideway.dsl import DEFAULT_LIMITS, parse
from guideway.dsl.ast import Command
from guideway.dsl.ast import walk as nodes
from tests.engines.callers import Caller
from tests.engines.harness import EngineFaultError, EngineRefusedError, Homeward, Ids, Matcher, accepts, language, walk
from tests.engines.roster import ENGINES, VOCABULARIES
from tests.engines.vocabulary import Vocabulary, byte_vocabulary

FREE: Final = 150
"""In a copy without a longest text, at most so many tokens are drawn before a walk turns homeward."""

LONGEST: Final = 300
"""No text that is looked at as one of all is longer, in bytes."""


@dataclass(frozen=True)
class Walked:
    """How many walks there were, how often each command was written, and what is wrong."""

    walks: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    faults: tuple[str, ...] = ()


def walk_copy(engine: str, caller: Caller, vocabulary_name: str, walks: int, seed: str) -> Walked:
    """Walk over the engine's masks for a caller's copy, and look at every text."""
    vocabulary, random = VOCABULARIES[vocabulary_name](), Random(seed)
    copy = caller.copy(ENGINES[engine].dialect)
    try:
        start = ENGINES[engine].compile(copy.text, vocabulary)
        texts = [_walk(start, vocabulary, random, copy.longest_bytes) for _ in range(walks)]
    except (EngineFaultError, EngineRefusedError) as error:
        return Walked(faults=(str(error),))
    commands: Counter[str] = Counter()
    faults: list[str] = []
    for text in texts:
        if text is None:
            faults.append("a walk did not end")
        elif fault := caller.fault(text):
            faults.append(f"{text!r} {fault}")
        else:
            tree = parse(caller.bare(text))
            commands.update(node.keyword for node in nodes(tree) if isinstance(node, Command))
    return Walked(len(texts), commands, tuple(faults))


def _walk(start: Matcher, vocabulary: Vocabulary, random: Random, longest: int | None) -> bytes | None:
    if longest is not None:
        return walk(start, vocabulary, random, most=longest)
    homeward = Homeward(random.randrange(FREE), _closing(vocabulary))
    return walk(start, vocabulary, random, most=DEFAULT_LIMITS.bytes, homeward=homeward)


@cache
def _closing(vocabulary: Vocabulary) -> Ids:
    """The tokens that close bodies and open none."""
    return np.array([token for token, text in enumerate(vocabulary.tokens) if b"}" in text and b"{" not in text])


def write_all(engine: str, caller: Caller, words: int) -> frozenset[bytes]:
    """Return every text of at most so many words that the engine lets a model write; what stands around a call is one.

    A text that is longer than any program of so many words ends it too.
    """
    start = ENGINES[engine].compile(caller.copy(ENGINES[engine].dialect).text, byte_vocabulary())
    most = words + _words(caller.text(parse("{ }"))) - 2
    return frozenset(language(start, byte_vocabulary(), LONGEST, lambda text: _words(text) <= most))


def _words(text: bytes) -> int:
    return len(re.findall(rb"(?:\s|\\n)+", text)) + 1


def take(engine: str, caller: Caller, vocabulary_name: str, texts: Sequence[bytes], seed: str) -> list[bool]:
    """Say of each text whether the engine takes it under the caller's copy, cut into tokens at random."""
    vocabulary, random = VOCABULARIES[vocabulary_name](), Random(seed)
    start = ENGINES[engine].compile(caller.copy(ENGINES[engine].dialect).text, vocabulary)
    return [accepts(start, vocabulary, text, random) for text in texts]
