"""A walk that begins nothing ahead, and a world that it shares with the real one: what a log has to look like.

The world is a script: how long a call takes and how it ends depends on the target, and on how many restarts there were.
It counts what is open, and does not allow two reads of one target, or a restart beside anything, at once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import Block, Command, GetStatus, IfRunning, Ping, Program, Restart, Statement, TryCatch
from guideway.dsl.parser import parse
from guideway.interpreter.drivers.base import Echo, Fault, Observation, Phase
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.results import Containment, Event, Outcome, Reason, State, Step
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service

HOSTS = ("x", "y", "z")
SERVICES = ("x", "b", "c")  # `x` is a host too, and another target
FAULTS = {"lost": Reason.UNREACHABLE, "silent": Reason.NO_ANSWER}


@dataclass(frozen=True)
class Call:
    """How a call ends, and when; ``hangs`` never does."""

    seconds: float = 0.0
    ends: str = "running"


@dataclass
class Script:
    """What is there, by kind and name: the calls to it before the first restart of anything, after it, and so on."""

    calls: dict[str, list[Call]]
    restarts: int = 0
    open: int = 0
    most_open: int = 0
    begun: list[tuple[float, str]] = field(default_factory=list)
    times: set[float] = field(default_factory=set)
    _reading: set[str] = field(default_factory=set)
    _restarting: bool = False

    async def read(self, target: str) -> Call:
        """Answer a read. Raises ``Fault``."""
        call = self._call(target)
        assert target not in self._reading, "two reads of one target"
        assert not self._restarting, "a read beside a restart"
        self._reading.add(target)
        with self._opened(target):
            try:
                return await self._answer(call)
            finally:
                self._reading.discard(target)

    async def restart(self, target: str) -> int:
        """Restart; return how many restarts there were. Raises ``Fault``."""
        call = self._call(f"restart {target}")
        assert not self.open, "a restart beside something else"
        self._restarting = True
        with self._opened(f"restart {target}"):
            try:
                await self._answer(call)
            finally:
                self._restarting = False
                self.restarts += 1
        return self.restarts

    def _call(self, target: str) -> Call:
        calls = self.calls.get(target, [Call()])
        return calls[self.restarts % len(calls)]

    @contextmanager
    def _opened(self, target: str) -> Iterator[None]:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.begun.append((anyio.current_time(), target))
        self.times.add(anyio.current_time())
        try:
            yield
        finally:
            self.open -= 1
            self.times.add(anyio.current_time())

    @staticmethod
    async def _answer(call: Call) -> Call:
        await (anyio.sleep_forever() if call.ends == "hangs" else anyio.sleep(call.seconds))
        if call.ends == "mistake":
            raise ZeroDivisionError
        if call.ends in FAULTS:
            raise Fault(FAULTS[call.ends], f"it is {call.ends}", "its own words")
        return call

    def inventory(self) -> Inventory:
        """Return the inventory of this world."""
        return Inventory(
            [Host(name, _Probe(self, f"host {name}")) for name in HOSTS],
            [Service(name, _Driver(self, name), settle=0, risk=HARMLESS) for name in SERVICES],
        )

    def pipeline(self, *, pipeline: float = 10_000.0, reads_at_once: int = 16) -> Pipeline:
        """Return a pipeline on this world."""
        deadlines = Deadlines(ping=5, get_status=8, if_running=8, restart=20, pipeline=pipeline)
        return Pipeline(self.inventory(), deadlines=deadlines, reads_at_once=reads_at_once)


@dataclass
class _Probe:
    script: Script
    target: str

    async def probe(self) -> Echo:
        call = await self.script.read(self.target)
        return Echo(call.ends, call.seconds)


@dataclass
class _Driver:
    script: Script
    name: str

    async def observe(self) -> Observation:
        call = await self.script.read(f"service {self.name}")
        state = State(call.ends)
        return Observation(state, str(self.script.restarts) if state is State.RUNNING else None, f"{call.seconds}")

    async def restart(self, _enter: Callable[[Phase], None], _end: float) -> Observation:
        return Observation(State.RUNNING, str(await self.script.restart(self.name)))

    async def tail(self) -> str:
        return "the end of its log"

    async def close(self) -> None:
        pass


#: An event without its times.
Fact = tuple[object, ...]


def fact(event: Event) -> Fact:
    """Return what an event says, but for when and how long."""
    facts = event.to_json()
    return tuple(value for key, value in facts.items() if key not in {"started", "seconds"})


@dataclass
class Sequential:
    """The walk of a program, one command after the other. ``facts`` are its events, ``ended`` when it was over."""

    script: Script
    text: str
    facts: list[Fact] = field(default_factory=list)
    ok: bool = False
    ended: float = 0.0

    async def run(self) -> "Sequential":
        """Run the program once, in the virtual time of the loop."""
        self._pipeline = self.script.pipeline()
        self._program: Program = parse(self.text)
        self._numbers = 0
        self.ok = await self._sequence(self._program.statements)
        self.ended = anyio.current_time()
        return self

    def worst_seconds(self) -> float:
        """Return the longest time that the program can take."""
        deadline = self._pipeline.deadline
        return analyze(self._program).worst_case(lambda command: deadline(self._pipeline.inventory, command)).seconds

    async def _sequence(self, statements: tuple[Statement, ...]) -> bool:
        for statement in statements:
            if not await self._statement(statement):
                return False
        return True

    async def _statement(self, statement: Statement) -> bool:
        match statement:
            case TryCatch(body=body, handler=handler):
                if await self._sequence(body.statements):
                    return True
                position = self._program.source.position(statement.start)
                self.facts.append(fact(Containment(position.line, position.column, self._numbers)))
                return await self._sequence(handler.statements)
            case Block(statements=statements):
                return await self._sequence(statements)
            case IfRunning(then=then, otherwise=otherwise):
                state = await self._command(statement)
                if state is None:
                    return False
                if state in {State.RUNNING, State.DEGRADED}:
                    return await self._sequence(then.statements)
                return otherwise is None or await self._sequence(otherwise.statements)
            case _:
                return await self._command(statement) is not None

    async def _command(self, command: Command) -> State | None:
        self._numbers += 1
        position = self._program.source.position(command.start)

        begun = Step(
            self._numbers, position.line, position.column, command.keyword, command.target, Outcome.RUNNING, ""
        )

        def note(step: Step) -> None:
            self.facts.append(fact(step))

        note(begun)
        try:
            state, observation, output = await self._act(command)
        except Fault as fault:
            output = fault.output.strip() or None
            note(
                replace(
                    begun, outcome=Outcome.FAILED, reason=fault.reason, message=fault.message, untrusted_output=output
                )
            )
            return None
        note(replace(begun, outcome=Outcome.OK, observation=observation, untrusted_output=output or None))
        return state

    async def _act(self, command: Command) -> tuple[State, str, str | None]:
        inventory = self._pipeline.inventory
        seconds = self._pipeline.deadline(inventory, command)
        match command:
            case Ping():
                echo = await inventory.hosts[command.target].ping(seconds)
                return State.RUNNING, f"answered in {echo.seconds * 1000:.1f} ms ({echo.method})", ""
            case GetStatus():
                seen = await inventory.services[command.target].state(seconds)
            case IfRunning():
                seen = await inventory.services[command.target].settled(seconds)
            case Restart():
                seen = await inventory.services[command.target].restart(seconds)
            case _:
                raise AssertionError(command)
        return seen.state, seen.state.value, seen.output
