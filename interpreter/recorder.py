"""Gate 4: one call's records in the audit trail. What may not go on without them does not.

A program's intent is given to the trail before anything runs, and is on disk before the first restart; each restart has
an intent and an outcome of its own. What only reads waits for the disk once, at its end: then its result is given, or
withheld where it could not be recorded.
"""

import hashlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import anyio

from guideway.dsl.analysis import Analysis
from guideway.dsl.ast import Restart
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.source import Source, Span
from guideway.interpreter.approvals import Who
from guideway.interpreter.audit import facts
from guideway.interpreter.audit.bounds import bounded, said
from guideway.interpreter.audit.entry import UNWRITTEN, Entry, Kind, Trail
from guideway.interpreter.clearance import Clearance, Forbidden, Turn
from guideway.interpreter.drivers.base import BRING_BACK_SECONDS, Fault
from guideway.interpreter.impact import NeedsApproval
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import Mutation, StoreUnavailable
from guideway.interpreter.results import Outcome, Report, Status
from guideway.interpreter.risk import MODEL_VERSION
from guideway.interpreter.service import Service
from guideway.interpreter.watch import Gate, Watch, watched
from guideway.interpreter.weighing import Asked

_log = logging.getLogger(__name__)

_NOT_BROKEN: Final[Mapping[str, str]] = MappingProxyType({})

_LATE: Final = BRING_BACK_SECONDS + 15.0
"""Seconds after a restart's deadline when it has ended in any case, or its process is lost."""


@dataclass(slots=True)
class RunRecord:
    """The records of one call. Without a trail it keeps none, and nothing waits for it."""

    trail: Trail | None
    run_id: str
    text: str
    caller: Principal
    asked: Asked
    inventory: Inventory
    analysis: Analysis | None = None
    has_begun: bool = False
    restarts: int = 0
    watch: Watch | None = None

    def parsed(self, analysis: Analysis) -> None:
        """Take the program that the text turned out to be."""
        self.analysis = analysis

    def begun(self, clearance: Clearance, seconds: float, *, withheld: bool) -> None:
        """Record what is about to run.

        Raises ``Refusal`` where the trail is known not to be written now and nothing may run without it: a program
        that restarts, and with ``withheld`` any.
        """
        if self.trail is None or self.analysis is None:
            return
        with watched(self.watch, Gate.RECORD):
            self._begun(self.trail, self.analysis, clearance, seconds, withheld=withheld)

    def _begun(self, trail: Trail, analysis: Analysis, clearance: Clearance, seconds: float, *, withheld: bool) -> None:
        if trail.failing is not None and (withheld or clearance.left):
            _log.error("run %s: refused, the audit trail: %s", self.run_id, trail.failing)
            raise unwritten(analysis.program.source)
        found = self._call() | facts.of_program(analysis, self.inventory)
        found |= {
            "tier": int(clearance.tier),
            "policy": clearance.gate.policy(self.caller.tenant),
            "risk_model": MODEL_VERSION,
            "longest": seconds,
        }
        if clearance.glass_broken:
            found["glass_broken"] = sorted(clearance.glass_broken)
        self._put(Kind.RUN_BEGUN, found)
        self.has_begun = True

    async def ended(self, report: Report, *, withheld: bool) -> Report:
        """Record how a call ended, and return its report: without what was read, where that could not be recorded."""
        if self.trail is None:
            return report
        self.put_end(report)
        if not self.has_begun and self.trail.failing is not None:
            return report  # it was refused, and nobody has to wait until that can be recorded
        try:
            with watched(self.watch, Gate.RECORD):
                await self.trail.written()
        except StoreUnavailable as error:  # the records wait; what was done is told, as it cannot be undone
            _log.error("run %s: its records wait for the audit trail: %s", self.run_id, error)
            if self.has_begun and withheld and not self.restarts and self.analysis is not None:
                return report.withheld(unwritten(self.analysis.program.source))
        return report

    def put_end(self, report: Report, error: str | None = None) -> None:
        """Record how a call ended, soon: what ran, or why nothing did. ``error`` is what this program failed in."""
        broken = {} if error is None else {"internal_error": error}
        if self.has_begun:
            self._put(Kind.RUN_ENDED, self._whose() | facts.of_end(report) | broken)
            return
        self.put_refusal(report.refusal, report.status, broken)

    def put_refusal(
        self, refusal: Refusal | None, status: Status = Status.REFUSED, broken: Mapping[str, str] = _NOT_BROKEN
    ) -> None:
        """Record, soon, why nothing ran."""
        found = self._call() | {"status": status.value} | dict(broken)
        if refusal is not None:
            found["refusal"] = facts.of_refusal(refusal, refusal.source)
        if self.analysis is not None:
            found |= facts.of_program(self.analysis, self.inventory, refusal)
        if isinstance(refusal, NeedsApproval):
            found["ticket"] = refusal.ticket.id
        self._put(Kind.RUN_REFUSED, found)

    def repeated(self, earlier: Report) -> None:
        """Record, soon, that a call was answered with an earlier one's report, and nothing ran."""
        self._put(Kind.RUN_REPEATED, self._call() | {"earlier": earlier.run_id, "status": earlier.status.value})

    @asynccontextmanager
    async def restart(self, command: Restart, service: Service, seconds: float, turn: Turn) -> AsyncIterator[None]:
        """Record a restart around what it does: its intent is on disk before, its outcome follows.

        Raises ``Forbidden`` where the intent cannot be written: nothing was done then.
        """
        trail = self.trail
        if trail is None:
            yield
            return
        self.restarts += 1
        now = time.time()
        who, key = Who.of(self.caller), service.key
        if turn.orphan is not None:
            lost = Mutation(turn.orphan, service.name, who, now, now, "unknown", number=0, key=key)
            found = {"run": turn.orphan, "service": service.name, "found_by": self.run_id}
            trail.put([Entry(Kind.RESTART_UNKNOWN, self.caller.tenant, now, found, lost)])
        until = now + seconds + _LATE
        begun = Mutation(self.run_id, service.name, who, now, number=self.restarts, key=key, until=until)
        self._put_restart(Kind.RESTART_BEGUN, begun)
        try:
            with watched(self.watch, Gate.RECORD):
                await trail.written()
        except StoreUnavailable as error:
            _log.error("run %s: `%s` is not restarted, the audit trail: %s", self.run_id, service.name, error)
            self._put_restart(Kind.RESTART_ENDED, _over(begun, "not_begun", UNWRITTEN))
            raise Forbidden(Diagnostic(Code.AUDIT_UNAVAILABLE, UNWRITTEN, command.head_span)) from None
        except anyio.get_cancelled_exc_class():
            self._put_restart(Kind.RESTART_ENDED, _over(begun, Outcome.CANCELLED.value, "nothing was done to it"))
            raise
        outcome, message = "unknown", None
        try:
            yield
            outcome, message = Outcome.OK.value, None
        except Fault as fault:
            outcome, message = fault.reason.value, fault.message
            raise
        except anyio.get_cancelled_exc_class():
            outcome, message = Outcome.CANCELLED.value, turn.left
            raise
        finally:
            self._put_restart(Kind.RESTART_ENDED, _over(begun, outcome, message))

    def _put_restart(self, kind: Kind, mutation: Mutation) -> None:
        found = self._whose() | {"service": mutation.service, "unit": mutation.key, "number": mutation.number}
        if kind is Kind.RESTART_ENDED:
            found |= {"outcome": mutation.outcome, "message": mutation.message}
        self._put(kind, found, mutation)

    def _put(self, kind: Kind, found: Mapping[str, Any], mutation: Mutation | None = None) -> None:
        if self.trail is not None:
            self.trail.put([Entry(kind, self.caller.tenant, time.time(), bounded(found), mutation)])

    def _whose(self) -> dict[str, Any]:
        """Return what every record of the call has."""
        return {"run": self.run_id, "caller": facts.of_caller(self.caller)}

    def _call(self) -> dict[str, Any]:
        """Return what the call was. Of the text itself there is the digest: it may be anything."""
        text = self.text.encode(errors="replace")
        asked = self.asked
        words = {
            "client_says": asked.client_says,
            "model_says": asked.model_says,
            "ticket": asked.ticket,
            "break_glass": asked.break_glass,
            "idempotency_key": asked.idempotency_key,
        }
        return (
            self._whose()
            | {"door": asked.door, "text_sha256": hashlib.sha256(text).hexdigest(), "text_bytes": len(text)}
            | {key: said(value) for key, value in words.items() if value is not None}
        )


def unwritten(source: Source) -> Refusal:
    """Return the refusal of a call that may not go on without a record."""
    return Refusal([Diagnostic(Code.AUDIT_UNAVAILABLE, UNWRITTEN, Span(0, 0))], source)


def _over(begun: Mutation, outcome: str, message: str | None) -> Mutation:
    """Return a mutation that has ended now. A driver's words are made fit for any database."""
    words = None if message is None else said(message)
    return Mutation(
        begun.run_id,
        begun.service,
        begun.who,
        begun.started_at,
        time.time(),
        outcome,
        words,
        begun.number,
        begun.key,
        begun.until,
    )
