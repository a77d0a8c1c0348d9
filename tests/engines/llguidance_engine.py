"""llguidance, which is also what OpenAI's custom tools, Guidance and some llama.cpp builds hold a model with."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import llguidance
import numpy as np

from tests.engines.harness import Dialect, EngineRefusedError, Ids, ids_of
from tests.engines.stderr import captured_stderr
from tests.engines.vocabulary import Vocabulary


class _Tokenizer:
    """What LLTokenizer asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.eos_token_id = vocabulary.end
        self.tokens: Sequence[bytes] = vocabulary.tokens
        self.special_token_ids = [token for token, text in enumerate(vocabulary.tokens) if not text]

    def __call__(self, text: bytes) -> list[int]:
        return list(self._vocabulary.split(text))


@cache
def _tokenizer(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokenizer(vocabulary)))


@dataclass(frozen=True)
class LLGuidanceMatcher:
    """llguidance's matcher and its vocabulary."""

    matcher: llguidance.LLMatcher
    vocabulary: Vocabulary

    def mask(self) -> Ids:
        """Return the ids that may come next, ascending.

        Raises EngineRefusedError where a limit of the engine is met.
        """
        bitmask = np.frombuffer(self.matcher.compute_bitmask(), dtype=np.uint8)
        if self.matcher.is_error():
            raise EngineRefusedError("llguidance", self.matcher.get_error())
        return ids_of(bitmask, self.vocabulary)

    def is_complete(self) -> bool:
        """Say whether the text may end here."""
        return self.matcher.is_accepting()

    def accept(self, token: int) -> bool:
        """Take a token. Raises EngineRefusedError where a limit of the engine is met."""
        # Taking a token that is not allowed would first write out the whole state and grammar.
        taken = bool(self.matcher.validate_tokens([token])) and self.matcher.consume_token(token)
        if not taken and self.matcher.is_error():
            raise EngineRefusedError("llguidance", self.matcher.get_error())
        return taken

    def copy(self) -> "LLGuidanceMatcher":
        """Return a matcher in the same state."""
        return LLGuidanceMatcher(self.matcher.deep_copy(), self.vocabulary)


@dataclass(frozen=True)
class LLGuidanceEngine:
    """llguidance, which reads a Lark of its own."""

    name: str = "llguidance"
    dialect: Dialect = "llguidance"

    def compile(self, grammar: str, vocabulary: Vocabulary) -> LLGuidanceMatcher:
        """Compile. Some limits are met only by a mask or a token."""
        tokenizer = _tokenizer(vocabulary)
        with captured_stderr() as said:
            # Log level 0: refusals and warnings are asked for below, and a refused token is no news.
            source = llguidance.LLMatcher.grammar_from_lark(grammar)
            matcher = llguidance.LLMatcher(tokenizer, source, log_level=0)
        if matcher.is_error():
            raise EngineRefusedError(self.name, matcher.get_error())
        if warnings := [*matcher.get_grammar_warnings(), *filter(None, [said()])]:
            raise EngineRefusedError(self.name, "\n".join(warnings))
        return LLGuidanceMatcher(matcher, vocabulary)
