"""Trails in memory, as a store would have them, for the tests of who verifies and shows them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from joserfc.jwk import OKPKey

from guideway.interpreter.audit.chain import BEGINNING, link, trail_of
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.index import run_in, subject_in
from guideway.interpreter.audit.keeping import Head, Kept, Oddity, Sealer
from guideway.interpreter.audit.seal import Signer

NOW = 1_900_000_000.0
CALLER = {
    "issuer": "https://login.example",
    "subject": "mona",
    "client": "an-agent",
    "tenant": None,
    "scopes": ["mcp:diag:read", "mcp:diag:write"],
}


def signer() -> Signer:
    """Return a signer with a new key."""
    return Signer(OKPKey.generate_key("Ed25519"))


def restarts(runs: int, *, tenant: str | None = None) -> Iterator[Entry]:
    """Yield what runs leave that restart one service: three records each."""
    caller = CALLER | {"tenant": tenant}
    for number in range(runs):
        at, run = NOW + number, f"{number:08x}-0000-4000-8000-000000000000"
        whose = {"run": run, "caller": caller}
        what = {"service": f"service-{number % 7}", "unit": f"unit-{number % 7}", "number": 1}
        yield Entry(Kind.RUN_BEGUN, tenant, at, whose | {"program": 'RESTART "service"', "digest": "d" * 64, "tier": 1})
        yield Entry(Kind.RESTART_BEGUN, tenant, at + 0.1, whose | what)
        yield Entry(Kind.RESTART_ENDED, tenant, at + 0.2, whose | what | {"outcome": "ok", "message": None})


def kept(entry: Entry, seq: int, prev: str) -> Kept:
    """Return the record of an entry, as a store keeps it."""
    made = link(entry, seq, prev)
    body = json.loads(made.body)
    return Kept(made.trail, seq, made.body, made.hash, entry.at, entry.kind.value, run_in(body), subject_in(body))


@dataclass
class Memory:
    """One trail, and its seals (``TrailReader``)."""

    sealer: Sealer | None = None
    name: str = ""
    rows: list[Kept] = field(default_factory=list)
    head: Head | None = None
    seals: list[str] = field(default_factory=list)

    def append(self, entries: Iterator[Entry] | Sequence[Entry], *, checkpoint_every: int = 100) -> "Memory":
        """Add records, with a checkpoint after each so many."""
        for entry in entries:
            self.name = trail_of(entry.tenant)
            last = self.rows[-1] if self.rows else None
            self.rows.append(kept(entry, last.seq + 1 if last else 1, last.hash if last else BEGINNING))
            if self.sealer is not None and self.rows[-1].seq % checkpoint_every == 0:
                self.seals.append(self.seal(self.rows[-1]))
        last = self.rows[-1]
        self.head = Head(self.name, last.seq, last.hash, self.seal(last) if self.sealer else None)
        return self

    def seal(self, row: Kept) -> str:
        """Return a seal of a record."""
        assert self.sealer is not None
        return self.sealer.seal(row.trail, row.seq, row.hash, row.at)

    def change(self, seq: int, **changes: Any) -> None:
        """Change a row of the table."""
        at = next(index for index, row in enumerate(self.rows) if row.seq == seq)
        self.rows[at] = replace(self.rows[at], **changes)

    async def trails(self) -> list[Head]:
        """Return the one head."""
        return [] if self.head is None else [self.head]

    async def names(self) -> list[str]:
        """Return the one name, where there is anything."""
        return [self.name] if self.rows or self.seals or self.head else []

    async def oddities(self, *, passed_over: bool = False) -> list[Oddity]:  # noqa: ARG002  # there are none
        """Return none."""
        return []

    async def records(
        self,
        trail: str,
        *,
        after: int = 0,
        most: int = 1_000,
        newest: bool = False,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Kept]:
        """Return records."""
        if trail != self.name:
            return []
        found = [
            row
            for row in sorted(self.rows, key=lambda row: row.seq)
            if row.seq > after and (since is None or row.at >= since) and (until is None or row.at < until)
        ]
        return found[-most:] if newest else found[:most]

    async def checkpoints(self, trail: str) -> Sequence[str]:
        """Return the checkpoints."""
        return self.seals if trail == self.name else []
