"""GLRMask: a general parser, and so a second opinion on Lark that shares no code with llguidance."""

from dataclasses import dataclass
from functools import cache

import glrmask
import numpy as np

from tests.engines.harness import Dialect, EngineRefusedError, Ids
from tests.engines.stderr import captured_stderr
from tests.engines.vocabulary import Vocabulary


@cache
def _tokens(vocabulary: Vocabulary) -> glrmask.Vocab:
    return glrmask.Vocab.from_id_to_bytes({token: text for token, text in enumerate(vocabulary.tokens) if text})


@dataclass(frozen=True)
class GLRMaskMatcher:
    """GLRMask's state."""

    state: glrmask.ConstraintState

    def mask(self) -> Ids:
        """Return the ids that may come next, ascending."""
        return np.flatnonzero(self.state.mask())

    def is_complete(self) -> bool:
        """Say whether the text may end here."""
        return self.state.is_accepting()

    def accept(self, token: int) -> bool:
        """Take a token."""
        return self.state.commit_token(token)

    def copy(self) -> "GLRMaskMatcher":
        """Return a matcher in the same state."""
        return GLRMaskMatcher(self.state.copy())


@dataclass(frozen=True)
class GLRMaskEngine:
    """GLRMask, which reads Lark."""

    name: str = "glrmask"
    dialect: Dialect = "llguidance"

    def compile(self, grammar: str, vocabulary: Vocabulary) -> GLRMaskMatcher:
        """Compile."""
        tokens = _tokens(vocabulary)
        with captured_stderr() as said:
            try:
                constraint = glrmask.Grammar.from_lark(grammar).compile(tokens)
            except ValueError as refusal:
                raise EngineRefusedError(self.name, str(refusal)) from refusal
        if said():
            raise EngineRefusedError(self.name, said())
        return GLRMaskMatcher(constraint.start())
