"""llama.cpp's own C functions for grammars and vocabularies, from the library inside the package xllamacpp.

Owns what crosses into C. Knows nothing of dialects or walks. The functions of `llama.h` used here have been stable for
years; the shape of `llama_model_params` has not, so the defaults are compared with those of the builds that are allowed
(pyproject.toml), and another shape is an error.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.engines.stderr import captured_stderr


class _Params(ctypes.Structure):
    # Larger than llama_model_params, which C reads and writes from its start and passes in memory: the rest is inert.
    _fields_ = (("bytes", ctypes.c_ubyte * 256),)


class _Candidates(ctypes.Structure):
    """llama_token_data_array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


_TOKEN_DATA: Final = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_SWITCHES: Final = slice(0x48, 0x4E)  # the booleans at the end of llama_model_params; the first is vocab_only
_DEFAULT_SWITCHES: Final = bytes([0, 0, 1, 0, 0, 0])

_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {  # result, then arguments
    "llama_backend_init": (None,),
    "llama_model_default_params": (_Params,),
    "llama_model_load_from_file": (ctypes.c_void_p, ctypes.c_char_p, _Params),
    "llama_model_get_vocab": (ctypes.c_void_p, ctypes.c_void_p),
    "llama_vocab_n_tokens": (ctypes.c_int32, ctypes.c_void_p),
    "llama_vocab_eos": (ctypes.c_int32, ctypes.c_void_p),
    "llama_token_to_piece": (
        *(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32),
        *(ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_bool),
    ),
    "llama_sampler_init_grammar": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p),
    "llama_sampler_clone": (ctypes.c_void_p, ctypes.c_void_p),
    "llama_sampler_free": (None, ctypes.c_void_p),
    "llama_sampler_accept": (None, ctypes.c_void_p, ctypes.c_int32),
    "llama_sampler_apply": (None, ctypes.c_void_p, ctypes.POINTER(_Candidates)),
}


def package_file(package: str, pattern: str) -> Path:
    """Return the one file of a package that fits a pattern, without importing the package."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {package} is missing; `make test` installs it")
    (path,) = Path(found.submodule_search_locations[0]).glob(pattern)
    return path


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The C functions by name, the library loaded and started once."""
    library = ctypes.CDLL(str(package_file("xllamacpp", "xllamacpp*.so")))
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    library.llama_backend_init()
    return {name: getattr(library, name) for name in _FUNCTIONS}


class Model:
    """The vocabulary of a GGUF file; weights are not read. Raises RuntimeError."""

    def __init__(self, path: Path) -> None:
        params = functions()["llama_model_default_params"]()
        if bytes(params.bytes[_SWITCHES]) != _DEFAULT_SWITCHES:
            raise RuntimeError("this build of xllamacpp has another llama_model_params: see llama_library.py")
        params.bytes[_SWITCHES.start] = 1
        with captured_stderr() as log:
            model = functions()["llama_model_load_from_file"](str(path).encode(), params)
        if not model:
            raise RuntimeError(f"llama.cpp does not load {path.name}: {log()}")
        self._vocabulary = functions()["llama_model_get_vocab"](model)
        self.end: int = functions()["llama_vocab_eos"](self._vocabulary)

    def pieces(self) -> tuple[bytes, ...]:
        """The tokens' texts by id; control tokens have none."""
        buffer = ctypes.create_string_buffer(1024)
        piece = functions()["llama_token_to_piece"]
        lengths = (
            piece(self._vocabulary, token, buffer, len(buffer), 0, False)
            for token in range(functions()["llama_vocab_n_tokens"](self._vocabulary))
        )
        return tuple(buffer.raw[:length] for length in lengths)

    def sampler(self, grammar: str, root: str) -> "GrammarSampler | None":
        """Return a sampler for a grammar, or None where llama.cpp refuses it; the reason is on standard error."""
        pointer = functions()["llama_sampler_init_grammar"](self._vocabulary, grammar.encode(), root.encode())
        return GrammarSampler(pointer) if pointer else None


@cache
def model(path: Path) -> Model:
    """Return the vocabulary of a file, read once and kept as long as the process."""
    return Model(path)


class GrammarSampler:
    """A llama_sampler that holds a text to a grammar."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer
        self._free = functions()["llama_sampler_free"]

    def __del__(self) -> None:
        self._free(self._pointer)

    def clone(self) -> "GrammarSampler":
        """Return a sampler in the same state."""
        return GrammarSampler(functions()["llama_sampler_clone"](self._pointer))

    def accept(self, token: int) -> None:
        """Take a token that is allowed. One that is not ends the process."""
        functions()["llama_sampler_accept"](self._pointer, token)

    def allowed(self, tokens: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Say for each of some tokens whether it may come next: what llama.cpp does to each step's candidates."""
        data = np.zeros(len(tokens), dtype=_TOKEN_DATA)
        data["id"] = tokens
        candidates = _Candidates(data.ctypes.data, len(tokens), -1, False)
        functions()["llama_sampler_apply"](self._pointer, candidates)
        assert (candidates.data, candidates.size) == (data.ctypes.data, len(tokens))
        allowed: NDArray[np.bool_] = data["logit"] == 0
        return allowed
