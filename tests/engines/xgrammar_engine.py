"""XGrammar, with empty modules in the place of torch and transformers while it is imported.

XGrammar names both at import and needs neither for masks on a CPU: these go through DLPack, which numpy speaks.
"""

import sys
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import tvm_ffi  # noqa: F401  # before the modules below stand in for torch, which it would look into

from tests.engines.harness import Dialect, EngineRefusedError, Ids, ids_of
from tests.engines.stderr import captured_stderr
from tests.engines.vocabulary import Vocabulary

__all__ = ["XGrammarEngine", "XGrammarMatcher", "xgrammar"]


class _Absent:
    """A class of a package that is not there."""

    def __init__(self, *_: object, **__: object) -> None: ...


def _stand_in(name: str, *classes: str, **others: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(dict.fromkeys(classes, _Absent), **others)
    return module


_STAND_INS = {
    "torch": _stand_in("torch", "Tensor", "LongTensor", "FloatTensor", "tensor", int32=None),
    "transformers": _stand_in("transformers", "PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "LogitsProcessor"),
}
_ADDED = {name: module for name, module in _STAND_INS.items() if name not in sys.modules}
sys.modules.update(_ADDED)
try:
    import xgrammar
finally:
    for _name in _ADDED:
        del sys.modules[_name]


@cache
def _compiler(vocabulary: Vocabulary) -> xgrammar.GrammarCompiler:
    tokens = xgrammar.TokenizerInfo(
        list(vocabulary.tokens),
        vocab_type=xgrammar.VocabType.RAW,
        vocab_size=len(vocabulary.tokens),
        stop_token_ids=[vocabulary.end],
    )
    return xgrammar.GrammarCompiler(tokens, max_threads=2, cache_enabled=False)


@dataclass(frozen=True)
class XGrammarMatcher:
    """XGrammar's matcher and its vocabulary."""

    matcher: xgrammar.GrammarMatcher
    vocabulary: Vocabulary

    def mask(self) -> Ids:
        """Return the ids that may come next, ascending."""
        # Where everything is allowed, XGrammar leaves the mask as it was.
        bitmask = np.full(xgrammar.get_bitmask_shape(1, len(self.vocabulary.tokens)), -1, dtype=np.int32)
        self.matcher.fill_next_token_bitmask(bitmask)
        return ids_of(bitmask[0].view(np.uint8), self.vocabulary)

    def is_complete(self) -> bool:
        """Say whether the text may end here."""
        return bool(self.matcher.is_completed())

    def accept(self, token: int) -> bool:
        """Take a token."""
        return bool(self.matcher.accept_token(token))

    def copy(self) -> "XGrammarMatcher":
        """Return a matcher in the same state."""
        return XGrammarMatcher(self.matcher.fork(), self.vocabulary)


@dataclass(frozen=True)
class XGrammarEngine:
    """XGrammar, which reads EBNF; vLLM, SGLang and TensorRT-LLM use it."""

    name: str = "xgrammar"
    dialect: Dialect = "ebnf"

    def compile(self, grammar: str, vocabulary: Vocabulary) -> XGrammarMatcher:
        """Compile, all masks ahead."""
        if "\0" in grammar:
            raise EngineRefusedError(self.name, "a grammar ends at its first NUL")
        compiler = _compiler(vocabulary)
        with captured_stderr() as said:
            try:
                compiled = compiler.compile_grammar(grammar)
            except RuntimeError as refusal:
                raise EngineRefusedError(self.name, str(refusal)) from refusal
        if said():
            raise EngineRefusedError(self.name, said())
        return XGrammarMatcher(xgrammar.GrammarMatcher(compiled), vocabulary)
