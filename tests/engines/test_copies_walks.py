"""Whatever an engine lets a model write under a caller's copy is a program that this caller may run, and it ends.

Walks are drawn at random from the engine's own masks, over single bytes and over a real model's tokens. GUIDEWAY_WALKS
says how many for each engine in all, GUIDEWAY_SEED where chance starts; `make fuzz` sets both.
"""

import os
from collections import Counter
from concurrent.futures import Executor
from itertools import product
from math import ceil
from typing import Final

import pytest

from guideway.dsl.ast import COMMANDS
from tests.engines.callers import CALLERS, Caller
from tests.engines.jobs import walk_copy
from tests.engines.roster import ENGINES, VOCABULARIES
from tests.engines.trial import compile_grammar

WALKS: Final = int(os.environ.get("GUIDEWAY_WALKS", "2000"))
SEED: Final = os.environ.get("GUIDEWAY_SEED", "0")
AT_ONCE: Final = 500  # walks of one job, at most
_MANY: Final = 100  # walks that write every command that they can


def _jobs(engine: str) -> list[tuple[str, Caller, str, int, str]]:
    """Return the jobs for an engine, the slowest first, so that no process waits long for the last."""
    shares = sum(caller.share for caller in CALLERS.values()) * len(VOCABULARIES)
    jobs = []
    for caller, vocabulary in product(sorted(CALLERS.values(), key=lambda it: it.share), VOCABULARIES):
        walks = ceil(WALKS * caller.share / shares)
        for number, at in enumerate(range(0, walks, AT_ONCE)):
            seed = f"{SEED} {engine} {caller} {vocabulary} {number}"
            jobs.append((engine, caller, vocabulary, min(AT_ONCE, walks - at), seed))
    return jobs


def test_the_callers_are_many_and_all_different() -> None:
    assert len(CALLERS) >= 20
    assert len({caller.copy("gbnf").text for caller in CALLERS.values()}) == len(CALLERS) - 3  # approving adds nothing


@pytest.mark.parametrize("caller", CALLERS.values(), ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_compiles_without_a_warning(engine: str, caller: Caller) -> None:
    compile_grammar(ENGINES[engine], caller.copy(ENGINES[engine].dialect).text, "bytes")


@pytest.mark.parametrize("engine", ENGINES)
def test_walks_end_and_are_what_the_caller_may_run(engine: str, workers: Executor) -> None:
    jobs = _jobs(engine)
    found = list(workers.map(walk_copy, *zip(*jobs, strict=True)))
    assert [(str(job), fault) for job, walked in zip(jobs, found, strict=True) for fault in walked.faults][:10] == []
    assert sum(walked.walks for walked in found) >= WALKS
    by_caller = {caller: Counter[str]() for caller in CALLERS.values()}
    walks = Counter[Caller]()
    for (_, caller, *_), walked in zip(jobs, found, strict=True):
        by_caller[caller].update(walked.commands)
        walks[caller] += walked.walks
    for caller, commands in by_caller.items():
        can = [command for command in COMMANDS if command.scope in caller.scopes]
        if walks[caller] >= _MANY:  # walks are not sound for having nothing to say
            assert commands.keys() == {it.keyword for it in can if caller.names is None or caller.names.get(it.names)}
