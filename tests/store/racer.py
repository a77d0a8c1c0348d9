"""A process with a real pipeline over a store: ``python -m tests.store.racer WHERE EFFECTS JOB``; a line is a result.

The service of its pipeline is a file: a restart appends a line to it. It begins when its standard input has a line, so
that several begin together. JOB is JSON, one of:

- ``{"use": ID, "times": N}``: N runs at once of the program that the ticket is for, with it;
- ``{"decide": ID, "approve": true, "times": N}``: N decisions at once;
- ``{"look": ID, "at": TIME}``: a look at the ticket at a time;
- ``{"use": ID, "die": STEP}``: one run, which kills its process at a step between redemption and effect.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio

from guideway.dsl.errors import Code
from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Binding, Ticket, Undecidable, Who
from guideway.interpreter.drivers.base import Phase
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.quotas import Allowance
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.weighing import Asked, Rules
from tests.store.holder import where

PROGRAM = 'RESTART "database"'
MONA = Principal("mona", frozenset({Scope.READ, Scope.WRITE}), issuer="https://login.example", client="an-agent")
ADA = Who("https://login.example", "ada")

#: Where a process dies: around the transaction that uses a ticket up, and around the effect.
STEPS = ("before use", "in use", "after use", "before effect", "after effect", "before settle", "after settle")


def die(step: str, wanted: str | None) -> None:
    """Kill this process if this is the step at which it is to die."""
    if step == wanted:
        os.kill(os.getpid(), signal.SIGKILL)


class Appending(MemoryDriver):
    """A service whose restart appends to a file, durably."""

    def __init__(self, effects: str, dies: str | None) -> None:
        super().__init__()
        self._effects, self._dies = effects, dies

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:
        die("before effect", self._dies)
        with open(self._effects, "a") as file:  # noqa: ASYNC230  # one short line
            file.write(f"{os.getpid()}\n")
        die("after effect", self._dies)
        await super().restart(enter, end)


class Dying(Store):
    """A store that kills its process at a step."""

    dies: str | None = None

    async def use(
        self, ticket_id: str, binding: Binding, run_id: str, allowances: Sequence[Allowance], now: float
    ) -> Ticket | tuple[Code, str]:
        die("before use", self.dies)
        if self.dies == "in use":  # after the statements, before they are committed

            def use_and_die(calls: Any, work: Any) -> None:
                calls.use(work, ticket_id, binding, run_id, allowances)
                die("in use", self.dies)

            await self.opened.write(use_and_die, now)
        used = await super().use(ticket_id, binding, run_id, allowances, now)
        die("after use", self.dies)
        return used

    async def settle(self, run_id: str, used: Mapping[str, int], outcome: str, now: float) -> None:
        die("before settle", self.dies)
        await super().settle(run_id, used, outcome, now)
        die("after settle", self.dies)


def pipeline(store: Store, leases: Any, effects: str, dies: str | None = None) -> Pipeline:
    """Return a pipeline whose one service needs a person; it is the caller's to close."""
    if dies is not None:
        store.__class__, store.dies = Dying, dies  # type: ignore[attr-defined]
    gate = ImpactGate(Rules(can_ask=lambda _: True), records=store, leases=leases)
    return Pipeline(Inventory(services=[Service("database", Appending(effects, dies), settle=0.0)]), gate=gate)


async def main(store_at: str, effects: str, job_text: str) -> None:
    """Do a job."""
    job = json.loads(job_text)
    store, leases = open_store(**where(store_at))
    shared = pipeline(store, leases, effects, job.get("die"))
    ticket_id = job.get("use") or job.get("decide") or job["look"]
    await store.ticket(ticket_id, time.time())  # what is loaded once is loaded
    results: list[str] = []

    async def use() -> None:
        report = await shared.run(PROGRAM, MONA, asked=Asked(ticket=ticket_id))
        results.append(report.refusal.diagnostics[0].code.value if report.refusal else report.status.value)

    async def decide() -> None:
        try:
            ticket = await store.decide(ticket_id, approve=job["approve"], by=ADA, reason="", now=job["at"])
        except Undecidable as error:
            results.append(error.code.value)
        else:
            results.append(ticket.state.value)

    async def look() -> None:
        ticket = await store.ticket(ticket_id, job["at"])
        results.append("" if ticket is None else ticket.state.value)

    jobs: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"use": use, "decide": decide, "look": look}
    print("ready", flush=True)
    sys.stdin.readline()
    async with anyio.create_task_group() as tasks:
        for _ in range(job.get("times", 1)):
            tasks.start_soon(jobs[next(name for name in jobs if name in job)])
    await shared.close()
    print(*results, sep="\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
