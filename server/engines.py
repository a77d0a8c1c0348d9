"""Engines of guided generation that are installed beside this program, and whether they read a copy.

An engine that cannot read a grammar may generate without one and say nothing. So a copy is compiled, where that can be
done, before it is handed out. Engines are native code that a grammar can hang or end, so each runs in a process of its
own (``compile_copy``), which the system ends when its time is over. Nothing here imports an engine, and where none is
installed nothing here runs.
"""

import logging
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final, NamedTuple

import anyio

from guideway.grammar import GrammarCopy
from guideway.server import compile_copy
from guideway.server.kept import Kept


class Verdict(NamedTuple):
    """What an engine has against a copy; None is nothing. One that a signal ended may say otherwise next time."""

    refusal: str | None
    lasting: bool = True


class Engine(NamedTuple):
    """An engine by its name for people, and the package it is in."""

    name: str
    package: str


ENGINES: Final[Mapping[str, Engine]] = {
    "gbnf": Engine("llama.cpp", "xllamacpp"),
    "ebnf": Engine("XGrammar", "xgrammar"),
    "structural-tag": Engine("XGrammar", "xgrammar"),
    "llguidance": Engine("llguidance", "llguidance"),
}
"""The engine of each dialect that has one."""

SECONDS: Final = 20
"""How long an engine may take to compile a copy. They take milliseconds, so longer is a hang."""

_KEPT: Final = 1024
_MOST_SAID: Final = 2_000  # characters of an engine's reason
_log = logging.getLogger(__name__)
_verdicts = Kept[tuple[str, str], Verdict](_KEPT)  # by dialect and digest: what a text is depends on no caller
_unusable: set[str] = set()  # dialects whose engine does not start: a package without what it needs is no engine


def engine_for(copy: GrammarCopy) -> Engine | None:
    """Return the installed engine that reads a copy; None where there is none, or it does not start."""
    engine = ENGINES.get(copy.dialect)
    usable = engine is not None and copy.dialect not in _unusable and find_spec(engine.package) is not None
    return engine if usable else None


async def refusal(copy: GrammarCopy) -> str | None:
    """Return why the installed engine does not read a copy; None where it does, or where there is no engine."""
    engine = engine_for(copy)
    if engine is None:
        return None
    key = (copy.dialect, copy.sha256)
    verdict = _verdicts.get(key)
    if verdict is None:
        verdict = await _compile(engine, copy)
        if verdict is None:
            return None
        if verdict.lasting:
            _verdicts.keep(key, verdict)
        if verdict.refusal is not None:
            _log.error("%s does not compile the copy %s: %s", engine.name, copy.sha256, verdict.refusal)
    if verdict.refusal is None:
        return None
    return f"{engine.name} does not compile this copy, so it is not handed out: {verdict.refusal}"


async def _compile(engine: Engine, copy: GrammarCopy) -> Verdict | None:
    """Return what an engine says of a copy. None where it does not even start: it is not asked again."""
    command = [sys.executable, "-P", "-m", compile_copy.__name__, copy.dialect, str(SECONDS)]
    ended = await anyio.run_process(command, input=copy.text.encode(), check=False)
    said = ended.stderr.decode(errors="replace").strip()
    match ended.stdout.decode().split():
        case [compile_copy.READY, compile_copy.COMPILED] if ended.returncode == 0:
            return Verdict(None)
        case [compile_copy.READY]:
            how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"code {ended.returncode}"
            return Verdict(said[-_MOST_SAID:] or f"it ended with {how}", lasting=ended.returncode >= 0)
        case [] if ended.returncode < 0:
            return Verdict(f"it was ended by signal {-ended.returncode} before it could read the copy", lasting=False)
        case _:
            _unusable.add(copy.dialect)
            last = said.splitlines()[-1:] or ["no reason was given"]
            _log.info("%s is installed but does not start, so copies are not compiled: %s", engine.name, last[0])
            return None
