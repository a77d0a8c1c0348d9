"""The audit trail: what a seal costs, and how long 10,000 records take to verify, from SQLite and from an export.

The trail is that of restarts, three records each, signed, with a checkpoint after each 1,000.
"""

import io
import re
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import anyio
from joserfc.jwk import OKPKey

from bench import Figure
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.exported import lines, verify_file
from guideway.interpreter.audit.findings import Verdict
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.privacy import Matter, Pseudonyms, private
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.audit.verifying import verify_store
from guideway.interpreter.store import Store, open_store

RECORDS, EVERY = 10_000, 1_000
MOST_SECONDS, MOST_MICROSECONDS = 1.0, 100
ROUNDS, SEALS = 5, 2_000
WHO: dict[str, Any] = {"issuer": "https://login.example", "subject": "bench", "client": "an-agent", "tenant": None}
FACTS: dict[str, Any] = {
    "run": "5d0c21f3-0000-4000-8000-000000000000",
    "caller": WHO | {"scopes": ["mcp:diag:read", "mcp:diag:write"]},
    "program": 'TRY { RESTART "database" } CATCH { PING "api.internal" }',
    "digest": "d" * 64,
    "commands": [{"command": "RESTART", "target": "database", "times": 1, "tier": 1, "source": "impact low"}],
}


def main() -> list[Figure]:
    """Measure."""
    signer = Signer(OKPKey.generate_key("Ed25519"))
    seal = microseconds(lambda: signer.seal("acme", RECORDS, "a" * 64, 1.9e9))
    hidden = private(frozenset(Matter), [re.compile(r"\d{16}")], Pseudonyms("0123456789abcdef"))
    assert hidden is not None
    taken = microseconds(lambda: hidden(FACTS))
    return [
        Figure("a seal (Ed25519, compact JWS)", f"{seal:.0f} us", f"at most {MOST_MICROSECONDS} us", seal <= 100),
        Figure("everything private, and a pattern, taken out of a record", f"{taken:.0f} us"),
        *anyio.run(verifying, signer),
    ]


def microseconds(what: Callable[[], object]) -> float:
    """Return the median of many calls."""
    spent = []
    for _ in range(SEALS):
        since = perf_counter()
        what()
        spent.append(perf_counter() - since)
    return median(spent) * 1e6


async def verifying(signer: Signer) -> list[Figure]:
    """Return how long a whole trail takes."""
    belief = Believed([signer.public])
    with tempfile.TemporaryDirectory() as folder:
        store, leases = open_store(
            folder=Path(folder, "store"), keeping=Keeping(signer, belief, checkpoint_records=EVERY)
        )
        await fill(store)
        spent: list[float] = []
        for _ in range(ROUNDS):
            since = perf_counter()
            require_proven([verdict async for verdict in verify_store(store, belief, {})])
            spent.append(perf_counter() - since)
        (head,) = await store.trails()
        file = io.BytesIO("".join([f"{line}\n" async for line in lines(store, head)]).encode())
        since = perf_counter()
        require_proven(verify_file(file, belief, {}))
        exported = perf_counter() - since
        await leases.close()
        await store.close()
    whole = median(spent)
    goal = f"below {MOST_SECONDS:g} s"
    return [
        Figure(f"verifying {RECORDS:,} records, SQLite", f"{whole:.2f} s", goal, whole < MOST_SECONDS),
        Figure(f"verifying {RECORDS:,} records, exported", f"{exported:.2f} s", goal, exported < MOST_SECONDS),
        Figure("an exported record, on average", f"{file.getbuffer().nbytes / RECORDS:.0f} bytes"),
    ]


async def fill(store: Store) -> None:
    """Put records into the trail."""
    entries = (Entry(Kind.RUN_BEGUN, None, 1.9e9 + number, FACTS) for number in range(RECORDS))
    while batch := list(islice(entries, EVERY)):
        store.trail.put(batch)
        await store.trail.written()


def require_proven(verdicts: list[Verdict]) -> None:
    """Stop where what is measured is not what it should be."""
    (verdict,) = verdicts
    assert verdict.proven, verdict
    assert verdict.records == RECORDS, verdict
