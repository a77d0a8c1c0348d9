"""What every engine can be asked, and what tests ask of all of them: a text, a random walk, every short text.

Owns the protocol and the walks. Never knows an engine: each has a file of its own, and `roster` names them all. Nothing
here reads a grammar; what is allowed is always the engine's own answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tests.engines.vocabulary import Vocabulary

Ids = NDArray[np.intp]
Dialect = Literal["gbnf", "ebnf", "llguidance"]


class EngineRefusedError(Exception):
    """An engine took no grammar: its own message, or what it said on standard error, or how it died."""

    def __init__(self, engine: str, message: str) -> None:
        super().__init__(f"{engine}: {message.strip()}")
        self.engine = engine
        self.message = message.strip()


class EngineFaultError(Exception):
    """An engine contradicts itself: it allows nothing and no end, or it allows a token and does not take it."""


class Matcher(Protocol):
    """A compiled grammar and the tokens taken so far."""

    def mask(self) -> Ids:
        """Return the ids that may come next, ascending; the end is never among them."""

    def is_complete(self) -> bool:
        """Say whether the text may end here."""

    def accept(self, token: int) -> bool:
        """Take a token. False: the engine refuses it, and this matcher is of no more use; its copies are."""

    def copy(self) -> "Matcher":
        """Return a matcher in the same state, which goes its own way."""


@runtime_checkable
class Draws(Protocol):
    """A matcher beside that draws without a whole mask, where that would be large."""

    def draw(self, random: Random) -> int | None:
        """Return a token drawn evenly from the mask; None where nothing is allowed."""


class Engine(Protocol):
    """Something that holds a model to a grammar."""

    @property
    def name(self) -> str:
        """What the engine is called in reports."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that it reads."""

    def compile(self, grammar: str, vocabulary: Vocabulary) -> Matcher:
        """Compile in this process. It may crash or hang on a bad grammar: `trial.compile_grammar` tries it apart first.

        Raises EngineRefusedError where the engine refuses, or says anything at all on standard error.
        """


def ids_of(bitmask: NDArray[np.uint8], vocabulary: Vocabulary) -> Ids:
    """Return the ids whose bits are set, least bit first, without the tokens that have no text."""
    with_text = bitmask[: vocabulary.text_bits.size] & vocabulary.text_bits
    places = np.flatnonzero(with_text != 0)  # few of many: only these are unpacked
    rows, bits = np.nonzero(np.unpackbits(with_text[places], bitorder="little").reshape(-1, 8).view(np.bool_))
    return places[rows] * 8 + bits


def accepts(start: Matcher, vocabulary: Vocabulary, text: bytes, random: Random | None = None) -> bool:
    """Say whether a matcher takes a text and may end after it.

    The text is split into the longest tokens, or, given a source of chance, into tokens of any length.
    """
    matcher = start.copy()
    return all(matcher.accept(token) for token in vocabulary.split(text, random)) and matcher.is_complete()


@dataclass(frozen=True)
class Homeward:
    """From a number of tokens on, some tokens are drawn before others: those that lead towards the end of a text."""

    after: int
    tokens: Ids


def walk(
    start: Matcher,
    vocabulary: Vocabulary,
    random: Random,
    *,
    most: int,
    stop: float = 0.5,
    homeward: Homeward | None = None,
) -> bytes | None:
    """Return a text that the engine lets a model write: each token drawn evenly from the engine's own mask.

    Where the text may end, it does with the chance `stop`, and always where nothing else is allowed. None: it did not
    end within `most` tokens. Raises EngineFaultError.
    """
    matcher = start.copy()
    text = bytearray()
    for taken in range(most):
        preferred = homeward.tokens if homeward and taken >= homeward.after else None
        token = _drawn(matcher, random, preferred)
        if matcher.is_complete() and (token is None or random.random() < stop):
            return bytes(text)
        if token is None:
            raise EngineFaultError(f"nothing is allowed after {bytes(text)!r}, and it may not end")
        if not matcher.accept(token):
            raise EngineFaultError(f"{vocabulary.tokens[token]!r} is allowed after {bytes(text)!r} and refused")
        text += vocabulary.tokens[token]
    return bytes(text) if matcher.is_complete() else None


def _drawn(matcher: Matcher, random: Random, preferred: Ids | None) -> int | None:
    """Return a token drawn evenly from the mask, or from the preferred ones in it; None where nothing is allowed."""
    if preferred is None and isinstance(matcher, Draws):
        return matcher.draw(random)
    allowed = matcher.mask()
    if preferred is not None:
        found = np.intersect1d(allowed, preferred, assume_unique=True)
        allowed = found if found.size else allowed
    return int(allowed[random.randrange(allowed.size)]) if allowed.size else None


def language(
    start: Matcher, vocabulary: Vocabulary, longest: int, within: Callable[[bytes], bool] = lambda _: True
) -> Iterator[bytes]:
    """Yield every text of at most so many tokens that the engine lets a model write, once for each way to split it.

    What begins with a text that is not `within` is left out, and so is that text. Raises EngineFaultError.
    """
    open_ends = [(b"", start.copy(), longest)]
    while open_ends:
        text, matcher, left = open_ends.pop()
        if matcher.is_complete():
            yield text
        if not left:
            continue
        for token in matcher.mask():
            longer = matcher.copy()
            if not longer.accept(int(token)):
                raise EngineFaultError(f"{vocabulary.tokens[token]!r} is allowed after {text!r} and refused")
            if within(written := text + vocabulary.tokens[token]):
                open_ends.append((written, longer, left - 1))
