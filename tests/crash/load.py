"""A mixed load: callers that read, restart, ask, and try what they may not; and somebody who approves.

Each caller goes on until its process is killed. Whatever it is told goes into the truth.
"""

import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final

import anyio

from guideway.dsl.ast import Restart
from guideway.interpreter.approvals import TicketState, Undecidable
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Report
from guideway.interpreter.weighing import NOTHING_ASKED, Asked
from tests.crash.truth import Writer
from tests.crash.world import (
    ADA,
    ALIASED,
    ANA,
    BOT,
    BOUNDED,
    COOLING,
    GUARDED,
    MEMBERS,
    MONA,
    PLAIN,
    READER,
    THEIRS,
    World,
)

CALLERS: Final = 10
HANGS_AFTER: Final = 30.0
"""Seconds after which a call that has no answer is said to have none."""

_FRESH_EACH: Final = 0.4  # seconds until the services with a quota move on by one, so that there are always some left


class Load:
    """The load of one process. ``began`` is when the first process of all began, by the monotonic clock."""

    def __init__(self, world: World, writer: Writer, random: Random, began: float) -> None:
        self._world = world
        self._writer = writer
        self._random = random
        self._began = began
        self._actions: dict[Callable[[], Awaitable[None]], int] = {
            self._look: 6,
            self._restart_one: 6,
            self._restart_some: 3,
            self._restart_member: 3,
            self._restart_theirs: 3,
            self._restart_bounded: 5,
            self._restart_cooling: 2,
            self._ask_and_use: 3,
            self._use_again: 2,
            self._use_for_another: 1,
            self._overstep: 1,
            self._give_up: 4,
        }

    async def run(self) -> None:
        """Go on for ever."""
        async with anyio.create_task_group() as tasks:
            for _ in range(CALLERS):
                tasks.start_soon(self._for_ever, self._act)
            tasks.start_soon(self._for_ever, self._decide)

    async def _for_ever(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                with anyio.fail_after(HANGS_AFTER):
                    await act()
            except StoreUnavailable:
                pass  # what is asked of the store beside a run; a run never raises it
            except Exception:  # noqa: BLE001  # nothing else may come out of a run
                self._writer.write("failed", error=traceback.format_exc())
            await anyio.sleep(self._random.uniform(0, 0.01))

    async def _act(self) -> None:
        [action] = self._random.choices(list(self._actions), list(self._actions.values()))
        await action()

    async def _run(self, program: str, caller: Principal, does: str, asked: Asked = NOTHING_ASKED) -> Report:
        since = time.monotonic()
        report = await self._world.pipeline.run(program, caller, asked=asked)
        restarts = [
            (step.target, step.outcome.value, step.reason and step.reason.value)
            for step in report.steps
            if step.command == Restart.keyword
        ]
        self._writer.write(
            "answer",
            run=report.run_id,
            seconds=time.monotonic() - since,
            status=report.status.value,
            code=report.refusal.code.value if report.refusal else None,
            does=does,
            restarts=restarts,
            ticket=asked.ticket,
        )
        return report

    async def _look(self) -> None:
        await self._run(f'PING "gateway" GET_STATUS "{self._random.choice(PLAIN)}"', READER, "look")

    async def _restart_one(self) -> None:
        await self._run(f'RESTART "{self._random.choice(PLAIN + ALIASED)}"', MONA, "restart")

    async def _restart_some(self) -> None:
        one, two, three = self._random.sample(PLAIN + ALIASED, 3)
        program = f'TRY {{ RESTART "{one}" GET_STATUS "{two}" RESTART "{two}" }} CATCH RESTART "{three}"'
        await self._run(program, MONA, "restart some")

    async def _restart_member(self) -> None:
        await self._run(f'RESTART "{self._random.choice(MEMBERS)}"', MONA, "restart member")

    async def _restart_theirs(self) -> None:
        await self._run(f'RESTART "{self._random.choice(THEIRS)}"', ANA, "restart theirs")

    async def _restart_bounded(self) -> None:
        first = int((time.monotonic() - self._began) / _FRESH_EACH)
        name = BOUNDED[(first + self._random.randrange(4)) % len(BOUNDED)]
        program = f'RESTART "{name}"' * self._random.choice((1, 1, 2))
        await self._run(program, BOT, "restart bounded")

    async def _restart_cooling(self) -> None:
        await self._run(f'RESTART "{self._random.choice(COOLING)}"', BOT, "restart cooling")

    async def _ask_and_use(self) -> None:
        """Ask for a restart that needs a person, wait for one, and try what they said with several calls at once."""
        program = f'RESTART "{self._random.choice(GUARDED)}"'
        report = await self._run(program, MONA, "ask")
        if not isinstance(report.refusal, NeedsApproval):
            return
        asked = Asked(ticket=report.refusal.ticket.id)
        for _ in range(20):
            found = await self._world.store.ticket(report.refusal.ticket.id, time.time())
            if found is None or found.state is not TicketState.PENDING:
                break
            await anyio.sleep(0.02)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(self._run, program, MONA, "use", asked)

    async def _use_again(self) -> None:
        """Use whatever ticket lies about, which other processes try at the same time, or have."""
        states = [TicketState.APPROVED] if self._random.random() < 0.5 else [TicketState.USED, TicketState.DENIED]
        found = await self._world.store.tickets(None, time.time(), states=states, most=5)
        if found:
            ticket = self._random.choice(found)
            await self._run(ticket.question.program, MONA, "use again", Asked(ticket=ticket.id))

    async def _use_for_another(self) -> None:
        found = await self._world.store.tickets(None, time.time(), states=[TicketState.APPROVED], most=5)
        if found:
            program = f'RESTART "{self._random.choice(GUARDED)}" PING "gateway"'
            await self._run(program, MONA, "use for another", Asked(ticket=self._random.choice(found).id))

    async def _overstep(self) -> None:
        program = self._random.choice(('RESTART "plain-1"', 'RESTART "no-such"', "RESTART", 'GET_STATUS "acme-1"'))
        await self._run(program, READER, "overstep")

    async def _give_up(self) -> None:
        """Do something of the rest, and cancel it soon."""
        with anyio.move_on_after(self._random.uniform(0, 0.03)):
            await self._random.choice((self._restart_one, self._restart_some, self._restart_bounded, self._use_again))()

    async def _decide(self) -> None:
        """Decide on whatever waits."""
        for ticket in await self._world.store.tickets(None, time.time(), states=[TicketState.PENDING], most=3):
            approve = self._random.random() < 0.85
            self._writer.write("decide", ticket=ticket.id, approve=approve)
            with suppress(Undecidable):  # somebody else was quicker
                await self._world.store.decide(
                    ticket.id, approve=approve, by=ADA, reason="as it happens", now=time.time()
                )
