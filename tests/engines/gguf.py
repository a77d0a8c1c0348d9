"""Writes a GGUF file that holds a vocabulary and no model: all that llama.cpp's grammars need.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Reads nothing.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

_UINT32, _INT32, _STRING, _ARRAY = 4, 5, 8, 9  # types of values
_NORMAL, _CONTROL = 1, 3  # types of tokens

# Byte-level BPE spells each byte as a printable character: itself, or one from U+0100 on.
_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_SPELLINGS = {byte: chr(byte) for byte in _PRINTABLE} | {
    byte: chr(0x100 + place) for place, byte in enumerate(sorted(set(range(256)) - _PRINTABLE))
}


def write_vocabulary(path: Path, tokens: Sequence[bytes], end: int) -> None:
    """Write tokens by id, the empty ones as control tokens, with one of them as the end of a text."""
    spelled = [
        "".join(_SPELLINGS[byte] for byte in text) if text else f"<control {token}>"
        for token, text in enumerate(tokens)
    ]
    types = [_NORMAL if text else _CONTROL for text in tokens]
    pairs = [
        _pair("general.architecture", _STRING, _string("llama")),
        _pair("tokenizer.ggml.model", _STRING, _string("gpt2")),
        _pair("tokenizer.ggml.pre", _STRING, _string("gpt-2")),
        _pair("tokenizer.ggml.tokens", _ARRAY, _array(_STRING, map(_string, spelled), len(spelled))),
        _pair(
            "tokenizer.ggml.token_type", _ARRAY, _array(_INT32, (struct.pack("<i", kind) for kind in types), len(types))
        ),
        _pair("tokenizer.ggml.merges", _ARRAY, _array(_STRING, (), 0)),
        *(
            _pair(f"tokenizer.ggml.{use}_token_id", _UINT32, struct.pack("<I", end))
            for use in ("bos", "eos", "padding")
        ),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _array(kind: int, items: Iterable[bytes], count: int) -> bytes:
    return struct.pack("<IQ", kind, count) + b"".join(items)


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", kind) + value
