"""A call that is sent again: with an idempotency key its program runs once, and who repeats it gets the first result.

A key is of one person in one tenant, whatever client they use, and for one text. A call that was refused before it did
anything leaves its key free. Where the process that ran one was lost, nobody knows what it did, and nobody is told
that they do: its key stays taken.
"""

import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import anyio

from guideway.dsl.analysis import Analysis
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.source import Source, Span
from guideway.interpreter.drivers.base import BRING_BACK_SECONDS
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Report, Status

_log = logging.getLogger(__name__)

KEY: Final = re.compile(r"[ -~]{1,200}")
"""An idempotency key: 1 to 200 printable characters of ASCII."""

LIFETIME: Final = 86_400.0
"""Seconds that a key is remembered, where nothing else is configured."""

MOST_BYTES: Final = 262_144
"""The longest result that is kept whole. A longer one is kept without what services said, or without its steps."""

_LATE: Final = BRING_BACK_SECONDS + 15.0  # seconds after a run's longest when its process is lost in any case
_LONGEST_RETRY: Final = 30
_UNBEGUN: Final = frozenset({Status.REFUSED, Status.CANCELLED})
_WHOLE: Final = Span(0, 0)  # it is said of the call, not of a place in its program


@dataclass(frozen=True, slots=True)
class Call:
    """A call with a key: whose, for which text (``digest``), and by which run. It takes no longer than ``seconds``.

    ``tenant`` is empty where there is none. The key is remembered for ``lifetime`` seconds.
    """

    issuer: str
    subject: str
    tenant: str
    key: str
    digest: str
    run_id: str
    seconds: float
    lifetime: float


@dataclass(frozen=True, slots=True)
class Earlier:
    """The call that had the key first. ``left`` is in how many seconds it has ended in any case.

    ``result`` is what it was answered with, None while it is under way, or where its process was lost.
    """

    digest: str
    run_id: str
    left: float
    result: Mapping[str, Any] | None


class Repeats(Protocol):
    """Where keys are kept. What is awaited may raise ``StoreUnavailable``."""

    async def begin(self, call: Call, now: float) -> Earlier | None:
        """Take a key for a call, or return the call that has it: of several at once, one takes it."""
        ...

    async def end(self, call: Call, result: Mapping[str, Any]) -> None:
        """Keep what a call was answered with; if the store is away, as soon as it is there again."""
        ...

    async def forget(self, call: Call) -> None:
        """Leave a key free: its call did nothing."""
        ...


class TakenKey(Refusal):
    """The key is that of an earlier call, whose result is not to be had. ``retry_after`` is in seconds."""

    def __init__(self, why: Diagnostic, source: Source, run_id: str, retry_after: int | None = None) -> None:
        super().__init__([why], source)
        self.run_id = run_id
        self.retry_after = retry_after

    def to_json(self) -> dict[str, Any]:
        """Return the machine form, with the run that has the key."""
        return super().to_json() | {"earlier": {"run_id": self.run_id, "retry_after": self.retry_after}}


class Once:
    """One call's key while its program runs; nothing happens where it came without one."""

    def __init__(self, repeats: Repeats | None, key: str | None, lifetime: float) -> None:
        self._repeats = repeats
        self._key = key
        self._lifetime = lifetime
        self._call: Call | None = None

    async def begin(
        self, analysis: Analysis, caller: Principal, run_id: str, seconds: float, now: float
    ) -> Report | None:
        """Take the key for a run of at most some seconds, or return the report of the call that had it.

        Raises ``TakenKey``, and ``Refusal`` where the key cannot be kept and the program would change something: one
        that only reads may run twice.
        """
        if self._key is None:
            return None
        source = analysis.program.source
        who = caller.issuer, caller.subject, caller.tenant or ""
        spelled = hashlib.sha256(source.text.encode()).hexdigest()  # a result has places in its own text
        call = Call(*who, self._key, spelled, run_id, seconds + _LATE, self._lifetime)
        try:
            earlier = await self._taken(call, now)
        except StoreUnavailable as error:
            if not any(command.mutates for command in analysis.commands):
                return None
            _log.error("run %s: refused, the store: %s", run_id, error)
            message = "the store of idempotency keys cannot be used now"
            raise Refusal([Diagnostic(Code.STORE_UNAVAILABLE, message, _WHOLE)], source) from error
        if earlier is None:
            self._call = call
            return None
        if earlier.digest != call.digest:
            message = f"run {earlier.run_id} was of another text, with the same idempotency key"
            why = Diagnostic(Code.IDEMPOTENCY_CONFLICT, message, _WHOLE, help="another program takes another key")
            raise TakenKey(why, source, earlier.run_id)
        if earlier.result is not None:
            return replace(_read(earlier.result, source), replayed=True)
        raise _unanswered(earlier, source)

    async def _taken(self, call: Call, now: float) -> Earlier | None:
        if self._repeats is None:
            raise StoreUnavailable("none is configured")
        return await self._repeats.begin(call, now)

    async def end(self, report: Report) -> None:
        """Keep what came of the call, or leave its key free where nothing did. Never raises."""
        if self._call is None or self._repeats is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                if report.status in _UNBEGUN and not report.steps:
                    await self._repeats.forget(self._call)
                else:
                    await self._repeats.end(self._call, _bounded(report))
            except StoreUnavailable as error:  # the key stays taken: the safe side
                _log.error("run %s: its idempotency key is not free again: %s", self._call.run_id, error)


def _unanswered(earlier: Earlier, source: Source) -> TakenKey:
    """Return why an earlier call of the same program has no result."""
    if earlier.left > 0:
        retry = max(1, min(_LONGEST_RETRY, math.ceil(earlier.left)))
        message = f"run {earlier.run_id}, with the same idempotency key, is not over"
        help_ = f"call again in {retry} s with the same key: the answer is its result"
        why = Diagnostic(Code.IDEMPOTENCY_IN_PROGRESS, message, _WHOLE, help=help_)
        return TakenKey(why, source, earlier.run_id, retry)
    message = f"the process of run {earlier.run_id}, with the same idempotency key, was lost: what it did is not known"
    help_ = "look at what is now; if the program is to run then, call with another key"
    return TakenKey(Diagnostic(Code.IDEMPOTENCY_UNKNOWN, message, _WHOLE, help=help_), source, earlier.run_id)


def _bounded(report: Report) -> dict[str, Any]:
    """Return a report's machine form, no longer than is kept."""
    for kept in (
        report,
        replace(report, steps=tuple(replace(step, untrusted_output=None) for step in report.steps)),
        replace(report, steps=(), containments=()),
    ):
        found = kept.to_json()
        if len(json.dumps(found)) <= MOST_BYTES:
            break
    return found


def _read(result: Mapping[str, Any], source: Source) -> Report:
    from guideway.interpreter.report_reader import read_report  # noqa: PLC0415  # only who repeats a call needs it

    return read_report(dict(result), source)
