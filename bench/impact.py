"""What the gate for impact costs a program, with a store: tiers 0 and 1, which ask nobody; a quota; a ticket.

Programs run in process on services in memory. The store is SQLite in a folder. The same programs run beside it without
any gate for impact.
"""

import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import anyio

from bench import Figure
from guideway.dsl.ast import Command, Restart
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.interpreter.approvals import Who
from guideway.interpreter.clearance import Clearance
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate, NeedsApproval
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import Step
from guideway.interpreter.risk import HARMLESS, Impact, Quota, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.store import open_store
from guideway.interpreter.weighing import Asked, Candidate, Rules

MOST_MICROSECONDS = 50
RUNS, WARM = 2_000, 100
FEW = 200
CALLER = Principal("bench", PROGRAM_SCOPES)
APPROVER = Who("local", "approver")
QUOTA = Risk(Impact.HIGH, Reversibility.EASY, quota=Quota(per_hour=10**9))
TIERS = {"tier 0 (a PING)": 'PING "host"', "tier 1 (a RESTART)": 'RESTART "harmless"'}


def main() -> list[Figure]:
    """Measure programs."""
    return anyio.run(figures)


async def figures() -> list[Figure]:
    """Return what programs cost with a store and without."""
    with tempfile.TemporaryDirectory() as folder:
        store, leases = open_store(folder=Path(folder, "store"))
        rules = Rules(can_ask=lambda _: True)
        with_store = Pipeline(inventory(), gate=ImpactGate(rules, records=store, leases=leases, outbox=store.outbox))
        without = Pipeline(inventory(), gate=NoGate())
        found = []
        for tier, program in TIERS.items():
            ways = {"without": run(without, program), "with": run(with_store, program)}
            bare, gated = await medians(ways, RUNS)
            more = (gated - bare) * 1e6
            found += [
                Figure(f"{tier}: without the gate", f"{bare * 1e6:.0f} us"),
                Figure(f"{tier}: with gate and store", f"{gated * 1e6:.0f} us"),
                Figure(f"{tier}: more", f"{more:.0f} us", f"at most {MOST_MICROSECONDS} us", more <= MOST_MICROSECONDS),
                Figure(f"{tier}: ratio", f"{gated / bare:.2f}"),
            ]
        (quota,) = await medians({"quota": run(with_store, 'RESTART "quota"')}, FEW)
        found.append(Figure("a RESTART inside a quota (reserved, and settled)", f"{quota * 1e3:.2f} ms"))
        found += await tickets(with_store)
        await with_store.close()
        await without.close()
    return found


class NothingAsked(Clearance):
    """Lets everything run."""

    def forbids(self, command: Command, now: float) -> None:
        """Forbid nothing."""

    def mutation(self, command: Restart) -> Any:  # noqa: ARG002
        """Hold nothing."""
        return nullcontext()

    async def settle(self, steps: Sequence[Step], outcome: str) -> None:
        """Keep nothing."""


class NoGate(ImpactGate):
    """What a pipeline would do that had no gate for impact."""

    async def clear(self, candidate: Candidate) -> Clearance:
        """Let everything pass."""
        return NothingAsked(self, candidate.run_id, candidate.caller, candidate.inventory)


def inventory() -> Inventory:
    """Return a host, and services of each kind."""
    risks = {"harmless": HARMLESS, "quota": QUOTA, "hard": Risk()}
    services = [Service(name, MemoryDriver(), settle=0.0, risk=risk) for name, risk in risks.items()]
    return Inventory([Host("host", MemoryProbe())], services)


def run(pipeline: Pipeline, program: str) -> Callable[[], Awaitable[None]]:
    """Return what runs a program."""

    async def once() -> None:
        report = await pipeline.run(program, CALLER)
        assert report.status == "completed", report

    return once


async def medians(ways: dict[str, Callable[[], Awaitable[None]]], runs: int) -> list[float]:
    """Return the seconds of each way, of runs in turns: the wall clock's, as some of the work is other threads'."""
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(-WARM, runs):
        for way in ways if number % 2 else reversed(ways):
            since = perf_counter()
            await ways[way]()
            if number >= 0:
                spent[way].append(perf_counter() - since)
    return [median(times) for times in spent.values()]


async def tickets(pipeline: Pipeline) -> list[Figure]:
    """Return what it costs to ask, to decide, and to run with a ticket."""
    records = pipeline.gate.records
    assert records is not None
    spent: dict[str, list[float]] = {"to ask a person": [], "a decision": [], "a run with its ticket": []}
    program = 'RESTART "hard"'
    for _ in range(FEW):
        since = perf_counter()
        report = await pipeline.run(program, CALLER)
        spent["to ask a person"].append(perf_counter() - since)
        assert isinstance(report.refusal, NeedsApproval)
        ticket = report.refusal.ticket.id
        since = perf_counter()
        await records.decide(ticket, approve=True, by=APPROVER, reason="", now=time.time())
        spent["a decision"].append(perf_counter() - since)
        since = perf_counter()
        report = await pipeline.run(program, CALLER, asked=Asked(ticket=ticket))
        spent["a run with its ticket"].append(perf_counter() - since)
        assert report.status == "completed"
    return [Figure(f"{what}, SQLite", f"{median(times) * 1e3:.2f} ms") for what, times in spent.items()]
