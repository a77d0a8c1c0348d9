"""Refusals at a door: each in the log and in the audit trail, with where it came from, and never too much.

Whoever reaches the port can be refused as often as they like. So of each reason a few are told a minute; the others are
counted, and told with the next one or when the server stops. An anonymous reason is this program's own words, so there
are not many; of callers there may be, and those who were refused last are remembered.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
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

_REMEMBERED: Final = 2_000


@dataclass(slots=True)
class _Reason:
    began: float
    told: int = 0
    left_out: int = 0
    tenant: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class RefusalLog:
    """Tells of refusals, the log at INFO. ``ticks`` is a clock that never goes back, in seconds."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic, *, trail: Trail | None = None) -> None:
        self._ticks = ticks
        self._trail = trail
        self._reasons: OrderedDict[object, _Reason] = OrderedDict()

    def note(self, what: str, why: str, client: str) -> None:
        """Tell that ``what``, a token or a proof, was refused to a client's address; or count it."""
        facts = {"caller": None, "from": one_line(client), "what": what, "refusal": {"code": "refused", "message": why}}
        told = self._tell(why, None, facts)
        if told is not None:
            _log.info("refused %s from %s: %s%s", what, client, why, told)

    def note_caller(
        self, caller: Principal, code: str, why: str, log: Callable[[], None], *, recorded: bool = False
    ) -> None:
        """Tell that a known caller was refused, in the log by ``log``; or count it.

        ``recorded`` says that ``log`` puts a record of its own into the trail, which says more.
        """
        facts = {"caller": of_caller(caller), "refusal": {"code": code, "message": why}}
        key = (code, caller.issuer, caller.subject, caller.tenant)
        if self._tell(key, caller.tenant, facts, recorded=recorded) is not None:
            log()

    def close(self) -> None:
        """Tell how many were only counted."""
        for reason in self._reasons.values():
            self._told_late(reason)
        self._reasons.clear()

    def _tell(self, key: object, tenant: str | None, facts: Mapping[str, Any], *, recorded: bool = False) -> str | None:
        """Record a refusal and return what the log says beside it; None where it is only counted."""
        now = self._ticks()
        reason = self._reasons.get(key)
        words = ""
        if reason is None or now - reason.began >= SECONDS:
            if reason is not None and reason.left_out:
                words = f"; {reason.left_out:,} more before it were only counted"
                self._told_late(reason)
            reason = self._reasons[key] = _Reason(now, tenant=tenant, facts=facts)
            self._reasons.move_to_end(key)
            if len(self._reasons) > _REMEMBERED:
                self._told_late(self._reasons.popitem(last=False)[1])
        if reason.told >= MOST:
            reason.left_out += 1
            return None
        reason.told += 1
        if reason.told == MOST:
            words += f"; more of them are only counted for {SECONDS - (now - reason.began):.0f} s"
        if not recorded:
            self._put(tenant, facts)
        return words

    def _told_late(self, reason: _Reason) -> None:
        if reason.left_out:
            self._put(reason.tenant, {**reason.facts, "times": reason.left_out})
            reason.left_out = 0

    def _put(self, tenant: str | None, facts: Mapping[str, Any]) -> None:
        if self._trail is not None:
            self._trail.put([Entry(Kind.CALL_REFUSED, tenant, time.time(), facts)])
