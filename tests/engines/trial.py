"""Compiles a grammar in a process of its own first, so that an engine that crashes or hangs on it ends no test run.

Owns that process: one, kept for the next trial and replaced when it dies. A grammar that passed is compiled here.
"""

import atexit
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from tests.engines.harness import Engine, EngineRefusedError, Matcher
from tests.engines.roster import ENGINES, VOCABULARIES

_CONTEXT: Final = get_context("spawn")
DEADLINE: Final = 120.0  # seconds for one grammar, the start of a process and the reading of a vocabulary with it


def compile_grammar(engine: Engine, grammar: str, vocabulary: str, deadline: float = DEADLINE) -> Matcher:
    """Compile a grammar for a vocabulary of the roster, once it is known to do no harm.

    Raises EngineRefusedError, also where the engine died of the grammar or was not done within `deadline` seconds.
    """
    if message := _tried(engine.name, grammar, vocabulary, deadline):
        raise EngineRefusedError(engine.name, message)
    matcher = engine.compile(grammar, VOCABULARIES[vocabulary]())
    if not matcher.mask().size and not matcher.is_complete():
        raise EngineRefusedError(engine.name, "the grammar allows no text at all")
    return matcher


@cache
def _tried(engine: str, grammar: str, vocabulary: str, deadline: float) -> str:
    return _WORKER.ask((engine, grammar, vocabulary), deadline)


class _Worker:
    def __init__(self) -> None:
        self._connection: Connection | None = None

    def ask(self, trial: tuple[str, str, str], deadline: float) -> str:
        """Return why a grammar is refused, or nothing."""
        if self._connection is None:
            self._connection, theirs = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._connection.send(trial)
        if not self._connection.poll(deadline):
            self.stop()
            return f"not done after {deadline:g} seconds"
        try:
            answer: str = self._connection.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            self.stop()
            return f"it ended its process with status {status}"
        return answer

    def stop(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process.close()
            self._connection = None


def _serve(connection: Connection) -> None:
    while True:
        try:
            engine, grammar, vocabulary = connection.recv()
        except EOFError:
            return
        try:
            matcher = ENGINES[engine].compile(grammar, VOCABULARIES[vocabulary]())
            matcher.mask()
        except EngineRefusedError as refusal:
            connection.send(refusal.message)
        else:
            connection.send("")


_WORKER: Final = _Worker()
atexit.register(_WORKER.stop)
