"""``python -m guideway.server.compile_copy DIALECT SECONDS``: compile the copy on standard input, then end.

It says ``ready`` once the dialect's engine has compiled a trivial copy, and ``compiled`` once it has compiled this one,
for which it has some seconds. A reason not to stands on standard error. It is native code that works here, so the
system's own alarm ends this process when it takes too long, whatever it is in.
"""

import ctypes
import json
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

READY: Final = "ready"
COMPILED: Final = "compiled"

_SECONDS_TO_LOAD: Final = 60


_GRAMMAR: Final = 'root ::= "a"'


class Refused(Exception):  # noqa: N818  # it is a verdict, not a fault
    """The engine's reason not to compile a copy."""


Compile = Callable[[str], None]
"""Compiles a text, or raises ``Refused``."""


def _llama_cpp() -> Compile:
    """Return llama.cpp's own reading of a grammar.

    The package has no call for that alone; its library exports llama.cpp's interface in C. Only tokens in a grammar
    would need a vocabulary, and a copy has none.
    """
    spec = find_spec("xllamacpp")
    folders = spec.submodule_search_locations if spec else None
    (library,) = (path for folder in folders or () for path in Path(folder).glob("xllamacpp*.so"))
    init = ctypes.CDLL(str(library)).llama_sampler_init_grammar
    init.restype = ctypes.c_void_p
    init.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

    def compile_text(text: str) -> None:
        if not init(None, text.encode(), b"root"):
            raise Refused("it returned no grammar")  # and has said why on standard error

    return compile_text


def _xgrammar(dialect: str) -> Compile:
    import xgrammar  # noqa: PLC0415  # only where it is asked for

    tokens = [bytes([byte]) for byte in range(256)]
    vocabulary = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[0])
    compiler = xgrammar.GrammarCompiler(vocabulary, max_threads=1, cache_enabled=False)
    compile_in_dialect = compiler.compile_grammar if dialect == "ebnf" else compiler.compile_structural_tag

    def compile_text(text: str) -> None:
        try:
            compile_in_dialect(text)
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error)) from error

    return compile_text


def _llguidance() -> Compile:
    import llguidance  # noqa: PLC0415  # only where it is asked for

    tokenizer = llguidance.LLTokenizer("byte")

    def compile_text(text: str) -> None:
        grammar = llguidance.LLMatcher.grammar_from_lark(text)
        is_error, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar, tokenizer)
        if is_error:
            raise Refused("\n".join(messages))

    return compile_text


def _compiler(dialect: str) -> tuple[Compile, str]:
    """Return what compiles a copy in a dialect, and a trivial copy. Raises whatever an engine raises."""
    match dialect:
        case "gbnf":
            return _llama_cpp(), _GRAMMAR
        case "ebnf":
            return _xgrammar(dialect), _GRAMMAR
        case "structural-tag":
            tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": _GRAMMAR}}
            return _xgrammar(dialect), json.dumps(tag)
        case "llguidance":
            return _llguidance(), 'start: "a"'
        case _:
            raise ValueError(f"no engine reads `{dialect}`")


def main(dialect: str, seconds: int) -> int:
    """Compile standard input. Return 0, or 1 where the engine refuses it."""
    text = sys.stdin.buffer.read().decode()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS_TO_LOAD)
    compile_text, trivial = _compiler(dialect)
    compile_text(trivial)
    print(READY, flush=True)
    signal.alarm(seconds)
    try:
        compile_text(text)
    except Refused as reason:
        print(reason, file=sys.stderr)
        return 1
    print(COMPILED, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
