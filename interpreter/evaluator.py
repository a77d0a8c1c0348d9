"""The walk: a tree of commands to steps. It runs one admitted program once, and checks every node again before it runs.

How a statement ended is a value (ok or failed); what stops the whole pipeline (a refusal, the pipeline's deadline, a
cancellation) is an exception. So CATCH sees failed commands and nothing else.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import assert_never

import anyio

from guideway.dsl.analysis import Analysis
from guideway.dsl.ast import Block, Command, GetStatus, IfRunning, Ping, Restart, Statement, TryCatch
from guideway.dsl.source import Position
from guideway.interpreter.authorizer import Allow, Deny, authorize, refusal
from guideway.interpreter.drivers.base import Fault, Observation
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Containment, Observer, Outcome, Reason, State, Step
from guideway.interpreter.untrusted import clean


@dataclass(slots=True)
class _Begun:
    """A command that was reached, and when; gives the step for each way in which it can go on."""

    command: Command
    position: Position
    number: int
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    since: float = field(default_factory=time.perf_counter)

    def step(
        self,
        outcome: Outcome,
        *,
        observation: str | None = None,
        reason: Reason | None = None,
        message: str | None = None,
        output: str = "",
    ) -> Step:
        """Return the step as it is now; ``output`` is what the backend said, uncleaned."""
        return Step(
            self.number,
            self.position.line,
            self.position.column,
            self.command.keyword,
            self.command.target,
            outcome,
            self.started,
            round(time.perf_counter() - self.since, 6),
            observation,
            reason,
            message,
            clean(output) or None if output else None,
        )


class Evaluator:
    """One run of one program: what it has done so far is in ``steps``, ``containments`` and ``ran``.

    ``deadline`` gives the seconds that a command may take.
    """

    def __init__(
        self,
        analysis: Analysis,
        caller: Principal,
        inventory: Inventory,
        deadline: Callable[[Command], float],
        observe: Observer | None,
    ) -> None:
        self.steps: list[Step] = []
        self.containments: list[Containment] = []
        self.ran: Counter[str] = Counter()
        self._analysis = analysis
        self._source = analysis.program.source
        self._caller = caller
        self._inventory = inventory
        self._deadline = deadline
        self._observe = observe
        self._pipeline_scope = anyio.CancelScope()

    async def run(self, seconds: float) -> bool | None:
        """Run the program; return whether it ended ok, or None where ``seconds`` did not suffice.

        Raises ``Refusal`` where a node may not run after all.
        """
        with anyio.move_on_after(seconds) as self._pipeline_scope:
            return await self._sequence(self._analysis.program.statements)
        return None

    async def _sequence(self, statements: tuple[Statement, ...]) -> bool:
        for statement in statements:
            if not await self._statement(statement):
                return False
        return True

    async def _statement(self, statement: Statement) -> bool:
        match statement:
            case Ping() | GetStatus() | Restart():
                return await self._command(statement) is not None
            case IfRunning(then=then, otherwise=otherwise):
                match await self._command(statement):
                    case None:
                        return False
                    case State.RUNNING | State.DEGRADED:
                        return await self._sequence(then.statements)
                    case _:
                        return otherwise is None or await self._sequence(otherwise.statements)
            case TryCatch(body=body, handler=handler):
                if await self._sequence(body.statements):
                    return True
                position = self._source.position(statement.start)
                self._contain(Containment(position.line, position.column, after_step=len(self.steps)))
                return await self._sequence(handler.statements)
            case Block(statements=statements):
                return await self._sequence(statements)
            case _:
                assert_never(statement)

    def _contain(self, containment: Containment) -> None:
        self.containments.append(containment)
        if self._observe:
            self._observe(containment)

    async def _command(self, command: Ping | GetStatus | Restart | IfRunning) -> State | None:
        """Run one command and log its step; return the state that it found, None if it failed.

        A host that answers counts as running.
        """
        begun = _Begun(command, self._source.position(command.start), len(self.steps) + 1)
        now = time.time()
        match authorize(command, self._caller, self._inventory, now):
            case Deny() as denied:
                self._log(begun.step(Outcome.REFUSED, message=denied.diagnostic.message))
                raise refusal([denied], self._analysis, self._caller, self._source, now)
            case Allow():
                pass
        if self._observe:
            self._observe(begun.step(Outcome.RUNNING))
        self.ran[command.keyword] += 1
        try:
            state, observation, output = await self._act(command)
        except Fault as fault:
            self._log(begun.step(Outcome.FAILED, reason=fault.reason, message=fault.message, output=fault.output))
            return None
        except anyio.get_cancelled_exc_class():
            out_of_time = self._pipeline_scope.cancel_called
            self._log(begun.step(Outcome.TIMED_OUT if out_of_time else Outcome.CANCELLED))
            raise
        self._log(begun.step(Outcome.OK, observation=observation, output=output))
        return state

    def _log(self, step: Step) -> None:
        self.steps.append(step)
        if self._observe:
            self._observe(step)

    async def _act(self, command: Ping | GetStatus | Restart | IfRunning) -> tuple[State, str, str]:
        """Do what a command says; return the state found, this program's words for it, and the backend's.

        Raises ``Fault``.
        """
        seconds = self._deadline(command)
        match command:
            case Ping():
                echo = await self._inventory.hosts[command.target].ping(seconds)
                return State.RUNNING, f"answered in {echo.seconds * 1000:.1f} ms ({echo.method})", ""
            case GetStatus():
                return _found(await self._inventory.services[command.target].state(seconds))
            case IfRunning():
                return _found(await self._inventory.services[command.target].settled(seconds))
            case Restart():
                return _found(await self._inventory.services[command.target].restart(seconds))
            case _:
                assert_never(command)


def _found(seen: Observation) -> tuple[State, str, str]:
    return seen.state, "completed" if seen.completed else seen.state.value, seen.output
