"""Every engine and every vocabulary by name."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.engines.glrmask_engine import GLRMaskEngine
from tests.engines.harness import Engine
from tests.engines.llama_engine import LlamaEngine
from tests.engines.llguidance_engine import LLGuidanceEngine
from tests.engines.vocabulary import Vocabulary, byte_vocabulary, smollm2_vocabulary
from tests.engines.xgrammar_engine import XGrammarEngine

ENGINES: Final[Mapping[str, Engine]] = {
    engine.name: engine for engine in (LlamaEngine(), XGrammarEngine(), LLGuidanceEngine(), GLRMaskEngine())
}

VOCABULARIES: Final[Mapping[str, Callable[[], Vocabulary]]] = {
    "bytes": byte_vocabulary,
    "smollm2": smollm2_vocabulary,
}
