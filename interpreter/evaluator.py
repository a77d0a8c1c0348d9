"""The walk: a tree of commands to steps. It runs one admitted program once, and checks every node again before it runs.

How a statement ended is a value (ok or failed); what stops the whole pipeline (a refusal, the pipeline's deadline, a
cancellation) is an exception. So CATCH sees failed commands and nothing else.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, assert_never

import anyio

from guideway.dsl.analysis import Analysis
from guideway.dsl.ast import Block, Command, GetStatus, IfRunning, Ping, Restart, Statement, TryCatch
from guideway.dsl.errors import Refusal
from guideway.interpreter.authorizer import Allow, Deny, authorize, refusal
from guideway.interpreter.begun import Begun
from guideway.interpreter.clearance import Clearance, Forbidden, Turn
from guideway.interpreter.drivers.base import Fault, Observation
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.reads import Ahead, Answer, Neighbours, Places, Read
from guideway.interpreter.recorder import RunRecord
from guideway.interpreter.results import Containment, Observer, Outcome, State, Step
from guideway.interpreter.watch import Watch

_NOTHING_DONE: Final = "it was waiting for its turn, and nothing was done to it"

_Single = Read | Restart | IfRunning | TryCatch  # any statement that holds no sequence in its own name


class Evaluator:
    """One run of one program: what it has done so far is in ``steps``, ``containments`` and ``ran``.

    ``deadline`` gives the seconds that a command may take, ``clearance`` says what it may change, and ``record`` takes
    down what it does. ``places`` are those of the whole process.
    """

    def __init__(
        self,
        analysis: Analysis,
        caller: Principal,
        inventory: Inventory,
        deadline: Callable[[Command], float],
        *,
        clearance: Clearance,
        record: RunRecord,
        places: Places,
        observe: Observer | None,
        watch: Watch | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self.containments: list[Containment] = []
        self.ran: Counter[str] = Counter()
        self._analysis = analysis
        self._source = analysis.program.source
        self._caller = caller
        self._inventory = inventory
        self._deadline = deadline
        self._clearance = clearance
        self._record = record
        self._places = places
        self._observe = observe
        self._watch = watch
        self._pipeline_scope = anyio.CancelScope()
        self._turn = Turn()

    async def run(self, seconds: float) -> bool | None:
        """Run the program; return whether it ended ok, or None where ``seconds`` did not suffice.

        Raises ``Refusal`` where a node may not run after all.
        """
        with anyio.move_on_after(seconds) as self._pipeline_scope:
            return await self._sequence(self._analysis.program.statements)
        return None

    async def _sequence(self, statements: tuple[Statement, ...]) -> bool:
        for part in _parts(statements):
            ok = await (self._reads(part) if isinstance(part, list) else self._statement(part))
            if not ok:
                return False
        return True

    async def _reads(self, reads: list[Read]) -> bool:
        """Run reads that stand next to each other: some are made ahead, and all are taken in order."""
        first = len(self.steps) + 1  # each read that is taken leaves one step

        def begin(index: int) -> Begun | None:
            match authorize(reads[index], self._caller, self._inventory, time.time()):
                case Deny():
                    return None  # said when its turn comes, if it does
                case Allow():
                    return self._begun(reads[index], first + index)

        neighbours = Neighbours(reads, self._places, begin, self._ask)
        refused: Refusal | None = None
        ok = False
        async with anyio.create_task_group() as tasks:
            neighbours.begin(tasks)
            try:
                ok = await self._in_order(reads, neighbours)
            except Refusal as caught:  # the task group would wrap it
                refused = caught
            neighbours.end()
        if refused is not None:
            raise refused
        return ok

    async def _in_order(self, reads: Sequence[Read], neighbours: Neighbours) -> bool:
        for index, read in enumerate(reads):
            ahead = neighbours.take(index)
            if await self._command(read, ahead) is None:
                return False
            if ahead is None:
                neighbours.done(index)
        return True

    async def _statement(self, statement: _Single) -> bool:
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
            case _:
                assert_never(statement)

    def _contain(self, containment: Containment) -> None:
        self.containments.append(containment)
        if self._observe:
            self._observe(containment)

    def _begun(self, command: Command, number: int) -> Begun:
        return Begun(command, self._source.position(command.start), number)

    async def _command(self, command: Read | Restart | IfRunning, ahead: Ahead | None = None) -> State | None:
        """Run one command and log its step; return the state that it found, None if it failed.

        A host that answers counts as running. ``ahead`` is the command where it was begun before.
        """
        now = time.time()
        match authorize(command, self._caller, self._inventory, now):
            case Deny() as denied:
                begun = self._begun(command, len(self.steps) + 1)
                self._log(begun.step(Outcome.REFUSED, message=denied.diagnostic.message))
                raise refusal([denied], self._analysis, self._caller, self._source, now)
            case Allow():
                self._require_clearance(command, now)
                begun = ahead.begun if ahead else self._begun(command, len(self.steps) + 1)
        if self._observe:
            self._observe(begun.step(Outcome.RUNNING))
        self.ran[command.keyword] += 1
        self._turn = Turn()
        try:
            state, observation, output = await self._act(command, ahead)
        except Fault as fault:
            self._log(begun.step(Outcome.FAILED, reason=fault.reason, message=fault.message, output=fault.output))
            return None
        except Forbidden as forbidden:
            self._log(begun.step(Outcome.REFUSED, message=forbidden.diagnostic.message))
            raise Refusal([forbidden.diagnostic], self._source) from None
        except anyio.get_cancelled_exc_class():
            out_of_time = self._pipeline_scope.cancel_called
            self._log(begun.step(Outcome.TIMED_OUT if out_of_time else Outcome.CANCELLED, message=self._turn.left))
            raise
        self._log(begun.step(Outcome.OK, observation=observation, message=self._turn.waited, output=output))
        return state

    def _require_clearance(self, command: Command, now: float) -> None:
        """Raise ``Refusal`` where the gate for impact does not let a command run after all."""
        forbidden = self._clearance.forbids(command, now)
        if forbidden is not None:
            self._log(self._begun(command, len(self.steps) + 1).step(Outcome.REFUSED, message=forbidden.message))
            raise Refusal([forbidden], self._source)

    def _break_off(self, left: str) -> None:
        """Keep what a restart that is cancelled leaves of its service: it is the last command of the run."""
        self._turn.left = left

    def _log(self, step: Step) -> None:
        self.steps.append(step)
        if self._observe:
            self._observe(step)
        if self._watch is not None:
            self._watch.stepped(step)

    async def _act(self, command: Read | Restart | IfRunning, ahead: Ahead | None) -> Answer:
        """Do what a command says, or take what was found ahead. Raises ``Fault``."""
        if ahead is not None:
            await ahead.over.wait()
            if ahead.fault is not None:
                raise ahead.fault
            if ahead.answer is not None:
                return ahead.answer
        match command:
            case Ping() | GetStatus():
                self._places.enter()
                try:
                    return await self._ask(command)
                finally:
                    self._places.leave()
            case IfRunning():
                return _found(await self._inventory.service(command.target).settled(self._deadline(command)))
            case Restart():
                self._break_off(_NOTHING_DONE)
                async with self._clearance.mutation(command) as self._turn:
                    self._break_off(_NOTHING_DONE)
                    service = self._inventory.service(command.target)  # only now: what is idle may be given up
                    seconds = self._deadline(command)
                    async with self._record.restart(command, service, seconds, self._turn):
                        return _found(await service.restart(seconds, self._break_off))
            case _:
                assert_never(command)

    async def _ask(self, read: Read) -> Answer:
        """Make a read; it has a place. Raises ``Fault``."""
        seconds = self._deadline(read)
        match read:
            case Ping():
                echo = await self._inventory.host(read.target).ping(seconds)
                return State.RUNNING, f"answered in {echo.seconds * 1000:.1f} ms ({echo.method})", ""
            case GetStatus():
                return _found(await self._inventory.service(read.target).state(seconds))
            case _:
                assert_never(read)


def _found(seen: Observation) -> Answer:
    return seen.state, "completed" if seen.completed else seen.state.value, seen.output


def _parts(statements: Sequence[Statement]) -> Iterator[_Single | list[Read]]:
    """Yield the statements of a sequence in order, those of its blocks among them: a block that fails fails its
    sequence too. Neighbours come together in a list if they are reads, of more than one target.
    """
    reads: list[Read] = []
    for statement in _opened(statements):
        if isinstance(statement, Ping | GetStatus):
            reads.append(statement)
        else:
            yield from _together(reads)
            reads = []
            yield statement
    yield from _together(reads)


def _together(reads: list[Read]) -> Iterator[Read | list[Read]]:
    if len({(type(read), read.target) for read in reads}) > 1:
        yield reads
    else:
        yield from reads


def _opened(statements: Sequence[Statement]) -> Iterator[_Single]:
    for statement in statements:
        if isinstance(statement, Block):
            yield from _opened(statement.statements)
        else:
            yield statement
