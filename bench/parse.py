"""Reading a program: the parser, Lark with the same grammar file, and a bare tokenization of the same text.

Lark runs as LALR with its contextual lexer. The tokenization is one pass of ``re.finditer`` that collects kind, text
and offset of each token: about the least that any parser in Python has to do. All ways and sizes take turns, so that
whatever else the machine does falls on all of them alike. Time is processor time, since a long call is interrupted
more often than a short one on a busy machine, which would flatter the quicker way; each figure is a median.
"""

import gc
import re
from collections.abc import Callable
from statistics import median
from time import monotonic, thread_time
from typing import Any

import lark

from bench import Figure
from guideway.dsl import Limits, parse
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.grammar import copy_for

SCRIPT = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }'
)
COPIES = (1, 10, 100, 1_000)
WIDE = Limits(bytes=10**8, nesting=64, commands=10**7)
SECONDS = 20.0
ROUNDS = 15  # at least

# Gaps are part of a token's match, so that there is one match a token: the quickest of the five ways that were tried.
_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:#[^\n]*[ \t\r\n]*+)*+(?:([A-Za-z_][A-Za-z0-9_]*)|"([A-Za-z0-9][A-Za-z0-9._:@-]*)"|(\{)|(\}))'
)


def tokenize(text: str) -> list[tuple[int | None, str, int]]:
    """Return kind, text and offset of each token, white space and comments left out."""
    return [(kind := match.lastindex, match[kind or 0], match.start(kind or 0)) for match in _TOKEN.finditer(text)]


def main() -> list[Figure]:
    """Measure all three at each size, and return the ratios."""
    reader = lark.Lark(copy_for(PROGRAM_SCOPES).text, parser="lalr", lexer="contextual")
    ways: list[Callable[[str], Any]] = [lambda text: parse(text, limits=WIDE), reader.parse, tokenize]
    texts = ["\n".join([SCRIPT] * copies) for copies in COPIES]
    times = measure([(way, text) for text in texts for way in ways])
    figures = []
    per_byte = {}
    for copies, text in zip(COPIES, texts, strict=True):
        ours, larks, tokens, *times = times
        per_byte[copies] = ours / len(text)
        size = f"{copies:,} {'copy' if copies == 1 else 'copies'}"
        figures += [
            Figure(f"{size}: parse", f"{ours * 1e6:,.0f} us"),
            Figure(f"{size}: Lark / parse", f"{larks / ours:.2f}", "at least 8", larks / ours >= 8),
            Figure(f"{size}: parse / tokenization", f"{ours / tokens:.2f}", "at most 2.5", ours / tokens <= 2.5),
        ]
    growth = per_byte[1_000] / per_byte[10]
    return [*figures, Figure("time per byte, 1,000 copies / 10", f"{growth:.2f}", "at most 1.3", growth <= 1.3)]


def measure(jobs: list[tuple[Callable[[str], Any], str]]) -> list[float]:
    """Return the median processor seconds that each way takes for its text, all of them taking turns.

    Short calls are repeated until they fill about five milliseconds. The collector runs between measurements only:
    otherwise one way would pay for what another left behind.
    """
    repeats = []
    for way, text in jobs:
        way(text)
        start = thread_time()
        way(text)
        repeats.append(max(1, int(0.005 / (thread_time() - start))))
    times: list[list[float]] = [[] for _ in jobs]
    end = monotonic() + SECONDS
    gc.disable()
    try:
        while monotonic() < end or len(times[0]) < ROUNDS:
            for (way, text), repeat, its in zip(jobs, repeats, times, strict=True):
                gc.collect()
                start = thread_time()
                for _ in range(repeat):
                    way(text)
                its.append((thread_time() - start) / repeat)
    finally:
        gc.enable()
    return [median(its) for its in times]
