"""Refusals at a door: each in the log and in the audit trail, with where it came from, and never too much.

Whoever reaches the port can be refused as often as they like. So of each reason a few are told a minute; the others are
counted, and told with the next one or when the server stops. An anonymous reason is this program's own words, so there
are not many; of callers there may be, and those who were refused last are remembered.

What is being answered knows whether a refusal of it was noted: what nobody else notes, ``recorded`` does.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from guideway.interpreter.approvals import one_line
from guideway.interpreter.audit.entry import Entry, Kind, Trail
from guideway.interpreter.audit.facts import of_caller
from guideway.interpreter.principal import Principal

_log: Final = logging.getLogger(__name__)

MOST: Final = 5
"""Refusals of one reason that are told in ``SECONDS``; for each caller as many."""

SECONDS: Final = 60.0

MOST_ADDRESSES: Final = 1_000
"""Addresses of one reason that are told apart."""

_REMEMBERED: Final = 2_000
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class Answered:
    """Something that is being answered: whether a refusal of it was recorded, or counted."""

    recorded: bool = False


_ANSWERED: Final[ContextVar[Answered | None]] = ContextVar("guideway_answered", default=None)


@contextmanager
def answering() -> Iterator[Answered]:
    """Give what is known of what is being answered; what is answered around it is told of it too."""
    outer, own = _ANSWERED.get(), Answered()
    token = _ANSWERED.set(own)
    try:
        yield own
    finally:
        _ANSWERED.reset(token)
        if own.recorded:
            _set_recorded(outer)


def answering_context(context: Context | None = None) -> Context:
    """Return a context in which something else is answered: as this one, or as another."""
    own = copy_context() if context is None else context.copy()
    own.run(_ANSWERED.set, Answered())
    return own


def is_recorded() -> bool:
    """Say whether a refusal of what is being answered was recorded, or counted."""
    answered = _ANSWERED.get()
    return answered is not None and answered.recorded


def set_recorded() -> None:
    """Say that what is being answered is told in a record of another kind."""
    _set_recorded(_ANSWERED.get())


@dataclass(slots=True)
class _Reason:
    """Refusals of one reason. ``facts`` are what those that were left out have in common, None where there are none."""

    began: float
    tenant: str | None
    told: int = 0
    left_out: int = 0
    facts: dict[str, Any] | None = None
    addresses: set[str] = field(default_factory=set)

    def leave_out(self, facts: Mapping[str, Any]) -> None:
        """Count one."""
        self.left_out += 1
        self.facts = dict(facts) if self.facts is None else _alike(self.facts, facts)
        if "from" in facts and len(self.addresses) < MOST_ADDRESSES:
            self.addresses.add(facts["from"])

    def late(self) -> dict[str, Any] | None:
        """Return the facts of those that were left out until now, None where there are none."""
        if self.facts is None:
            return None
        found = self.facts | {"times": self.left_out}
        if len(self.addresses) > 1:
            found["addresses"] = len(self.addresses)
        self.left_out, self.facts, self.addresses = 0, None, set()
        return found


class RefusalLog:
    """Tells of refusals, the log at INFO. ``ticks`` is a clock that never goes back, in seconds."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic, *, trail: Trail | None = None) -> None:
        self._ticks = ticks
        self._trail = trail
        self._reasons: OrderedDict[object, _Reason] = OrderedDict()

    def note(
        self,
        what: str,
        why: str,
        client: str,
        *,
        code: str = "refused",
        key: object = None,
        most: int = MOST,
        facts: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Tell that ``what``, such as a token, was refused to a client's address; or count it.

        Those of one ``key`` are counted together, of one ``why`` where there is none; ``most`` of them are told.
        ``facts`` are what else is known.
        """
        refusal = {"code": code, "message": one_line(why)}
        record = {"caller": None, "from": one_line(client), "what": what, **facts, "refusal": refusal}
        told = self._tell(why if key is None else key, None, record, most=most)
        if told is not None:
            more = "".join(f", {value}" for value in facts.values())
            _log.info("refused %s from %s%s: %s%s", what, client, more, why, told)

    def note_caller(
        self,
        caller: Principal,
        code: str,
        why: str,
        log: Callable[[], None] = lambda: None,
        *,
        recorded: bool = False,
        facts: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Tell that a known caller was refused, in the log by ``log``; or count it.

        ``recorded`` says that ``log`` puts a record of its own into the trail, which says more. ``facts`` are what else
        is known.
        """
        facts = {"caller": of_caller(caller), **facts, "refusal": {"code": code, "message": one_line(why)}}
        key = (code, caller.issuer, caller.subject, caller.tenant)
        if self._tell(key, caller.tenant, facts, recorded=recorded) is not None:
            log()

    def close(self) -> None:
        """Tell how many were only counted."""
        for reason in self._reasons.values():
            self._told_late(reason)
        self._reasons.clear()

    def _tell(
        self, key: object, tenant: str | None, facts: Mapping[str, Any], *, most: int = MOST, recorded: bool = False
    ) -> str | None:
        """Record a refusal and return what the log says beside it; None where it is only counted."""
        _set_recorded(_ANSWERED.get())
        now = self._ticks()
        reason = self._reasons.get(key)
        words = ""
        if reason is None or now - reason.began >= SECONDS:
            if reason is not None and reason.left_out:
                words = f"; {reason.left_out:,} more before it were only counted"
                self._told_late(reason)
            reason = self._reasons[key] = _Reason(now, tenant)
            self._reasons.move_to_end(key)
            if len(self._reasons) > _REMEMBERED:
                self._told_late(self._reasons.popitem(last=False)[1])
        if reason.told >= most:
            reason.leave_out(facts)
            return None
        reason.told += 1
        if reason.told == most:
            words += f"; more of them are only counted for {SECONDS - (now - reason.began):.0f} s"
        if not recorded:
            self._put(tenant, facts)
        return words

    def _told_late(self, reason: _Reason) -> None:
        if (facts := reason.late()) is not None:
            self._put(reason.tenant, facts)

    def _put(self, tenant: str | None, facts: Mapping[str, Any]) -> None:
        if self._trail is not None:
            self._trail.put([Entry(Kind.CALL_REFUSED, tenant, time.time(), facts)])


def _set_recorded(answered: Answered | None) -> None:
    if answered is not None:
        answered.recorded = True


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is the same in both: nothing that is true of one alone may stand for many."""
    found: dict[str, Any] = {}
    for name in one.keys() & other.keys():
        mine, its = one[name], other[name]
        if isinstance(mine, Mapping) and isinstance(its, Mapping):
            found[name] = _alike(mine, its)
        elif mine == its:
            found[name] = mine
    return found
