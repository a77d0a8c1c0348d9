"""The one way in: every door admits and runs programs here."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Final

import anyio

from guideway.dsl.analysis import Analysis, WorstCase, analyze
from guideway.dsl.ast import Command, GetStatus, IfRunning, Ping, Program, Restart
from guideway.dsl.errors import Refusal
from guideway.dsl.parser import DEFAULT_LIMITS, Limits, parse
from guideway.dsl.scopes import Scope
from guideway.interpreter.audit.entry import Trail
from guideway.interpreter.authorizer import require_scopes, require_targets, vocabulary
from guideway.interpreter.clearance import Clearance
from guideway.interpreter.evaluator import Evaluator
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.reads import READS_AT_ONCE, Places
from guideway.interpreter.recorder import RunRecord
from guideway.interpreter.repeats import LIFETIME, Once, Repeats
from guideway.interpreter.results import Observer, Report, Status
from guideway.interpreter.watch import Gate, Watch, watched
from guideway.interpreter.weighing import NOTHING_ASKED, Asked, Candidate


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a command may take where its target does not say, and a whole pipeline."""

    ping: float = 5.0
    get_status: float = 10.0
    if_running: float = 30.0
    restart: float = 60.0
    pipeline: float = 300.0


DEFAULT_DEADLINES = Deadlines()
_NOTHING: Final = Inventory()


@dataclass(frozen=True, slots=True)
class Admitted:
    """A program that this caller may run, and the most that it can do.

    ``worst_case`` is ``Pipeline.worst_case``'s. ``inventory`` is what the caller may name, ``deadline`` gives the
    seconds that a command may take there, and ``longest`` is those after which the pipeline ends.
    """

    program: Program
    analysis: Analysis
    worst_case: WorstCase
    inventory: Inventory
    deadline: Callable[[Command], float]
    longest: float

    def candidate(self, caller: Principal, asked: Asked, run_id: str) -> Candidate:
        """Return what the gate for impact decides on, now."""
        return Candidate(
            self.analysis, self.worst_case, self.inventory, caller, asked, run_id, time.time(), longest=self.longest
        )


class Pipeline:
    """Admits programs and runs them. One for the whole process; safe to use from many tasks.

    ``inventory`` is what every caller may name; each of ``tenants`` is all that its callers may name, the shared
    part included. A read is begun ahead of its turn only where fewer than ``reads_at_once`` are open then; 1 turns that
    off. ``gate`` decides on mutations; the one that is there by itself keeps no records, so that it refuses what needs
    a person or a quota. Every call is recorded in ``trail``; what only reads gives its result without a record only if
    ``reads_without_trail`` says so. In ``repeats`` idempotency keys are remembered, each for some seconds. Whoever
    makes a pipeline closes it.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        tenants: Mapping[str, Inventory] = MappingProxyType({}),
        limits: Limits = DEFAULT_LIMITS,
        deadlines: Deadlines = DEFAULT_DEADLINES,
        reads_at_once: int = READS_AT_ONCE,
        gate: ImpactGate | None = None,
        trail: Trail | None = None,
        reads_without_trail: bool = False,
        repeats: Repeats | None = None,
        idempotency_seconds: float = LIFETIME,
    ) -> None:
        self.inventory = inventory
        self.tenants = tenants
        self.limits = limits
        self.deadlines = deadlines
        self.reads_at_once = reads_at_once
        self.gate = gate or ImpactGate()
        self.trail = trail
        self.watch: Watch | None = None
        self._withheld = not reads_without_trail
        self._repeats = repeats
        self._idempotency_seconds = idempotency_seconds
        self._places = Places(reads_at_once)

    def inventory_of(self, caller: Principal) -> Inventory:
        """Return what a caller may name: nothing for one of a tenant that is not known here."""
        return self.inventory if caller.tenant is None else self.tenants.get(caller.tenant, _NOTHING)

    async def close(self) -> None:
        """Give back what the drivers hold."""
        inventories = (self.inventory, *self.tenants.values())
        async with anyio.create_task_group() as tasks:
            for service in {service for inventory in inventories for service in inventory.services.values()}:
                tasks.start_soon(service.close)
            for fleet in {found.fleet for inventory in inventories for found in inventory.service_patterns}:
                tasks.start_soon(fleet.close)
        await self.gate.close()

    def required_scopes(self, text: str) -> frozenset[Scope]:
        """Return every scope that a program needs, whoever asks. Raises ``Refusal`` for what is no program."""
        return analyze(parse(text, limits=self.limits)).scopes

    def admit(
        self,
        text: str,
        caller: Principal,
        *,
        name: str = "program",
        parsed: Callable[[Analysis], None] | None = None,
    ) -> Admitted:
        """Check a program without any effect, in the order of the language: size, syntax, scopes, names.

        ``parsed`` is given the program, also where it may not run. Raises ``Refusal``.
        """
        now = time.time()
        with watched(self.watch, Gate.FORM):
            program = parse(text, name=name, limits=self.limits, vocabulary=vocabulary(caller, now))
            analysis = analyze(program)
        if parsed is not None:
            parsed(analysis)
        inventory = self.inventory_of(caller)
        with watched(self.watch, Gate.AUTHORIZATION):
            require_scopes(analysis, caller, program.source, now)
            require_targets(analysis, caller, inventory, program.source, now)
        deadline = partial(self.deadline, inventory)
        worst_case = self.worst_case(analysis, inventory)
        return Admitted(program, analysis, worst_case, inventory, deadline, self.deadlines.pipeline)

    async def run(
        self,
        text: str,
        caller: Principal,
        *,
        name: str = "program",
        asked: Asked = NOTHING_ASKED,
        observe: Observer | None = None,
        on_cancel: Callable[[Report], None] | None = None,
    ) -> Report:
        """Admit a program and run it. A refusal is a report too; only cancellation is raised.

        ``asked`` is what the caller adds, such as a ticket. ``on_cancel`` is given the report of a run that is
        cancelled; like an observer it returns at once.
        """
        run_id = str(uuid.uuid4())
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        since = time.perf_counter()
        admitted: Admitted | None = None
        evaluator: Evaluator | None = None
        clearance: Clearance | None = None
        record = RunRecord(self.trail, run_id, text, caller, asked, self.inventory_of(caller), watch=self.watch)
        once = Once(self._repeats, asked.idempotency_key, self._idempotency_seconds)

        def report(status: Status, refusal: Refusal | None = None) -> Report:
            return Report(
                run_id=run_id,
                status=status,
                steps=tuple(evaluator.steps) if evaluator else (),
                containments=tuple(evaluator.containments) if evaluator else (),
                worst_case=admitted.worst_case if admitted else None,
                ran=dict(evaluator.ran) if evaluator else {},
                started=started,
                seconds=round(time.perf_counter() - since, 6),
                refusal=refusal,
            )

        try:
            admitted = self.admit(text, caller, name=name, parsed=record.parsed)
            longest = min(admitted.worst_case.seconds, admitted.longest)
            earlier = await once.begin(admitted.analysis, caller, run_id, longest, time.time())
            if earlier is not None:
                record.repeated(earlier)
                return earlier
            with watched(self.watch, Gate.IMPACT):
                clearance = await self.gate.clear(admitted.candidate(caller, asked, run_id))
            clearance.watch = self.watch
            record.begun(clearance, self.deadlines.pipeline, withheld=self._withheld)
            evaluator = Evaluator(
                admitted.analysis,
                caller,
                admitted.inventory,
                admitted.deadline,
                clearance=clearance,
                record=record,
                places=self._places,
                observe=observe,
                watch=self.watch,
            )
            match await evaluator.run(self.deadlines.pipeline):
                case True:
                    ended = report(Status.CONTAINED if evaluator.containments else Status.COMPLETED)
                case False:
                    ended = report(Status.FAILED)
                case None:
                    ended = report(Status.TIMED_OUT)
        except Refusal as refusal:
            ended = report(Status.REFUSED, refusal)
        except anyio.get_cancelled_exc_class():
            ended = report(Status.CANCELLED)
            self._broken_off(record, ended, on_cancel=on_cancel)
            await _settle(clearance, ended)
            await once.end(ended)
            raise
        except Exception as error:  # of this program: what it did until then is recorded, and its key stays "unknown"
            ended = report(Status.FAILED)
            self._broken_off(record, ended, type(error).__name__)
            await _settle(clearance, ended)
            raise
        await _settle(clearance, ended)
        try:
            ended = await record.ended(ended, withheld=self._withheld)
        finally:
            self._ran(ended)
            await once.end(ended)
        return ended

    def _broken_off(
        self,
        record: RunRecord,
        ended: Report,
        error: str | None = None,
        on_cancel: Callable[[Report], None] | None = None,
    ) -> None:
        """Tell of a run that gives no report: in the trail, and to whoever watches or cancels it."""
        self._ran(ended)
        record.put_end(ended, error)
        if on_cancel is not None:
            on_cancel(ended)

    def _ran(self, report: Report) -> None:
        if self.watch is not None:
            self.watch.ran(report)

    def record_unrun(
        self, text: str, caller: Principal, asked: Asked = NOTHING_ASKED, refusal: Refusal | None = None
    ) -> None:
        """Record a call that its door answered by itself: for ``refusal``, else for what is refused here anyway."""
        record = RunRecord(self.trail, str(uuid.uuid4()), text, caller, asked, self.inventory_of(caller))
        try:
            self.admit(text, caller, parsed=record.parsed)
        except Refusal as refused:
            refusal = refusal or refused
        record.put_refusal(refusal)

    def worst_case(self, analysis: Analysis, inventory: Inventory) -> WorstCase:
        """Return the most that a program does where it may name what is in an inventory: the one number for all doors.

        The seconds are the commands' deadlines along the longest way, with those that each mutation may wait for its
        turn (``Rules.wait``), and no more than those after which the pipeline ends.
        """
        wait = self.gate.rules.wait
        worst = analysis.worst_case(
            lambda command: self.deadline(inventory, command) + (wait if command.mutates else 0.0)
        )
        return worst.replace(seconds=min(worst.seconds, self.deadlines.pipeline))

    def deadline(self, inventory: Inventory, command: Command) -> float:
        """Return the seconds that a command may take: its target's own, else the default of its kind."""
        match command:
            case Ping():
                return inventory.ping_seconds(command.target) or self.deadlines.ping
            case Restart():
                return inventory.restart_seconds(command.target) or self.deadlines.restart
            case GetStatus():
                return self.deadlines.get_status
            case IfRunning():
                return self.deadlines.if_running
            case _:
                raise TypeError(f"no deadline for {type(command).__name__}")


async def _settle(clearance: Clearance | None, ended: Report) -> None:
    if clearance is not None:
        await clearance.settle(ended.steps, ended.status.value)
