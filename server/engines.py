"""Engines of guided generation that are installed beside this program, and whether they read a copy.

An engine that cannot read a grammar may generate without one and say nothing. So a copy is compiled, where that can be
done, before it is handed out. Engines are native code that a grammar can hang or end, so each runs in a process of its
own (``compile_copy``), within bounds, and of which nothing is left when its time is over. Nothing here imports an
engine, and where none is installed nothing here runs.
"""

import logging
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final, NamedTuple

import anyio
from anyio.lowlevel import RunVar

from guideway.grammar import GrammarCopy
from guideway.interpreter.children.bounds import Bounds
from guideway.interpreter.children.order import How, Order
from guideway.interpreter.children.run import run
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
_AT_ONCE: Final = 2  # engines that compile at the same time: each has a processor, and as much memory as it may
_BOUNDS: Final = Bounds(
    seconds=90,  # the process ends itself before: compile_copy has 60 to load and ``SECONDS``
    cpu_seconds=180,  # engines have several threads
    memory_mb=4096,
    processes=256,
    open_files=256,
    output_bytes=4 * _MOST_SAID,
    file_mb=16,
)
# What says where Python and the libraries of an engine are. Nothing else of this process's environment gets there.
_WHERE: Final = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_room: RunVar[anyio.CapacityLimiter] = RunVar("room for engines")
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
    async with _room_for_engines():
        ended = await run(_order(copy))
    code = -ended.number if ended.how is How.SIGNALLED else ended.number
    said = ended.err.decode(errors="replace").strip()
    match ended.how, ended.out.decode(errors="replace").split():
        case How.EXITED, [compile_copy.READY, compile_copy.COMPILED] if code == 0:
            return Verdict(None)
        case ((How.TIMED_OUT | How.NO_ROOM), _):
            return Verdict(f"it did not end within {_BOUNDS.seconds:g} s", lasting=False)
        case _, [compile_copy.READY]:
            how = f"signal {-code}" if code < 0 else f"code {code}"
            return Verdict(said[-_MOST_SAID:] or f"it ended with {how}", lasting=code >= 0)
        case _, [] if code < 0:
            return Verdict(f"it was ended by signal {-code} before it could read the copy", lasting=False)
        case _:
            _unusable.add(copy.dialect)
            last = said.splitlines()[-1:] or [ended.why or "no reason was given"]
            _log.info("%s is installed but does not start, so copies are not compiled: %s", engine.name, last[0])
            return None


def _order(copy: GrammarCopy) -> Order:
    return Order(
        sys.executable,
        ("-P", "-m", compile_copy.__name__, copy.dialect, str(SECONDS)),
        {name: os.environ[name] for name in _WHERE if name in os.environ},
        user="root" if os.geteuid() == 0 else None,  # as this process, whose files it needs
        checked=False,  # it is the program that runs here
        stdin=copy.text.encode(),
        bounds=_BOUNDS,
    )


def _room_for_engines() -> anyio.CapacityLimiter:
    try:
        return _room.get()
    except LookupError:
        room = anyio.CapacityLimiter(_AT_ONCE)
        _room.set(room)
        return room
