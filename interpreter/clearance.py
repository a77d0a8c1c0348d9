"""What a run that passed the gate for impact may do: looked at again at each mutation, and settled when it is over."""

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from guideway.dsl.ast import Command, Restart
from guideway.dsl.errors import Code, Diagnostic
from guideway.interpreter.authorizer import Allow, Deny, authorize
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.leases import Busy, Waited
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Outcome, Reason, Step
from guideway.interpreter.risk import Tier
from guideway.interpreter.watch import Watch
from guideway.interpreter.weighing import frozen

if TYPE_CHECKING:
    from guideway.interpreter.impact import ImpactGate

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Turn:
    """A mutation that has its turn: words for what it waited for, and the run whose lost process held its service.

    ``left`` is what it leaves of the service where it is cancelled now.
    """

    waited: str | None = None
    orphan: str | None = None
    left: str | None = None


class Forbidden(Exception):  # noqa: N818  # it is an answer, not a fault
    """A mutation may not run after all, by what happened while it waited for its turn."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Clearance:
    """What one run that passed the gate may do: each mutation as often as its worst case has it, one at a time.

    ``begun`` says of each mutation that had its turn, in order, whether it got what it needs: one that did not did
    nothing. ``glass_broken`` has what a person let be broken, each as they were shown it (``frozen``): what closes the
    same service later, they have not seen.
    """

    gate: "ImpactGate"
    run_id: str
    caller: Principal
    inventory: Inventory
    tier: Tier = Tier.SAFE
    left: Counter[str] = field(default_factory=Counter)
    glass_broken: frozenset[str] = frozenset()
    reserved: bool = False
    begun: list[bool] = field(default_factory=list)
    watch: Watch | None = None

    def forbids(self, command: Command, now: float) -> Diagnostic | None:
        """Say why a command may not run after all, at its turn."""
        if not command.mutates:
            return None
        if self.left[command.target] < 1:
            return Diagnostic(Code.POLICY_DENIED, "this run was not cleared for it", command.head_span)
        why = self.inventory.service(command.target).calendar.closed(now)
        if why is None:
            return None
        closed = frozen(command, why)
        return None if closed.message in self.glass_broken else closed

    def _require_still(self, command: Restart) -> None:
        """Raise ``Forbidden`` where a command may not run any more, by its caller's rights or by what is closed."""
        now = time.time()
        match authorize(command, self.caller, self.inventory, now):
            case Deny() as denied:
                raise Forbidden(denied.diagnostic)
            case Allow():
                forbidden = self.forbids(command, now)
                if forbidden is not None:
                    raise Forbidden(forbidden)

    @asynccontextmanager
    async def mutation(self, command: Restart) -> AsyncIterator[Turn]:
        """Hold what a mutation needs for itself, and give its turn.

        Raises ``Fault`` with ``busy`` where that is not free in time, ``Forbidden`` where it may not run any more by
        then: every way to get what it needs can take time, also one in which it waits for nobody.
        """
        service = self.inventory.service(command.target)
        self.begun.append(False)
        try:
            async with self.gate.leases.hold(
                self.gate.places(service, self.caller), self.run_id, self.gate.rules.wait
            ) as waited:
                self._waited(waited, got=True)
                self._require_still(command)
                self.left[command.target] -= 1
                self.begun[-1] = True
                yield Turn(f"{_waited_words(waited)} held" if waited.label else None, waited.orphan)
        except Busy as busy:
            self._waited(busy.waited, got=False)
            raise Fault(Reason.BUSY, f"{_waited_words(busy.waited)} still holds") from None
        except StoreUnavailable:
            _log.exception("run %s: no lease", self.run_id)
            raise Fault(Reason.UNKNOWN, "nothing was done to it: the store of locks cannot be reached") from None

    def _waited(self, waited: Waited, *, got: bool) -> None:
        if self.watch is not None and waited.label is not None:
            self.watch.waited(waited.seconds, got=got)

    async def settle(self, steps: Sequence[Step], outcome: str) -> None:
        """Give back what the run did not do, also where it is cancelled. Never raises."""
        if not self.reserved:
            return
        restarts = [step for step in steps if step.command == Restart.keyword and step.outcome is not Outcome.REFUSED]
        done = [step for step, begun in zip(restarts, self.begun, strict=False) if begun]
        with anyio.CancelScope(shield=True):
            await self.gate.give_back(self, done, outcome)


def _waited_words(waited: Waited) -> str:
    holder = f"run {waited.holder}" if waited.holder else "another run"
    return f"waited {waited.seconds:.3g} s for {waited.label}, which {holder}"
