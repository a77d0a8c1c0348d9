"""Services that are units of a systemd, over D-Bus.

Owns what is asked of systemd, in which order, and what a job's result says of a restart. Never decides whether a
service is well: that a job is done means for most units only that a process was made.

A restart is one job of systemd's. Once it is accepted, systemd stops the unit and starts it again whatever becomes of
who asked, so that a cancelled restart leaves nothing to bring back, but for one case: a unit that is stopped and whose
start its start limit then forbids.
"""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Final

import anyio
from dbus_fast import Message

from guideway.interpreter.drivers.base import Fault, Observation, Phase, bring_back
from guideway.interpreter.drivers.systemd.bus import MANAGER, MANAGER_PATH, PROPERTIES, Bus, Link, Lost, Refusal
from guideway.interpreter.drivers.systemd.rights import fault_of, polkit_rule, user_name
from guideway.interpreter.drivers.systemd.unit import NEW_INSTANCE, NO_JOB, NOT_BY_HAND, START_LIMIT, Unit
from guideway.interpreter.results import Reason, State

logger = logging.getLogger(__name__)

# A digit at the beginning is one of them.
_OTHERS: Final = re.compile(rb"\A[0-9]|[^A-Za-z0-9]")
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_GROWTH = 0.05, 0.25, 1.5

_RESULTS: Final = {
    "canceled": (Reason.START_FAILED, "another job for the unit, such as a stop, took the place of the restart"),
    "timeout": (Reason.START_TIMED_OUT, "systemd gave the restart up: it took longer than its unit allows a job"),
    "dependency": (Reason.START_FAILED, "a unit that it requires did not start"),
    "assert": (Reason.START_FAILED, "an assertion of its unit was not met, so systemd did not start it"),
    "skipped": (Reason.START_FAILED, "systemd skipped the restart"),
    "invalid": (Reason.START_FAILED, "systemd could not apply the restart to the unit"),
    "unsupported": (Reason.START_FAILED, "this system cannot run the unit"),
    "collected": (Reason.START_FAILED, "systemd dropped the restart"),
    "once": (Reason.START_FAILED, "its unit may be started once only, and was"),
}
_ALIAS: Final = (
    "systemd has a unit of the configured name, but that is another name (`Alias=`) of the one in the output: it is "
    "restarted only under its own name"
)
_NEW: Final = (
    f"{NEW_INSTANCE}; to have it started, enable it (`systemctl enable`), or set `start_new = true` of the service"
)
_NOT_STARTED: Final = "a condition of its unit was not met, so systemd stopped it and did not start it again"


class SystemdDriver:
    """One unit of the systemd on a bus. ``users`` says whether that is a user's own and not the system's.

    ``start_new``: a restart may start an instance of a template that systemd knows of by its name alone.
    """

    def __init__(self, unit: str, bus: Bus, *, users: bool = False, start_new: bool = False) -> None:
        self._unit = unit
        self._bus = bus
        self._users = users
        self._start_new = start_new
        self._path = f"{MANAGER_PATH}/unit/{_label(unit)}"

    async def observe(self) -> Observation:
        """Return what systemd says now. Raises ``Fault``."""
        return (await self._look()).observation()

    async def restart(self, enter: Callable[[Phase], None], end: float) -> Observation:
        """Have systemd restart the unit, and return what it is once the job is over. Raises ``Fault``."""
        before = await self._look()
        before.observation()
        self._require_restartable(before)
        if (obstacle := before.obstacle()) is not None:  # nothing is stopped that could not be started again
            raise Fault(Reason.START_FAILED, obstacle, before.description())
        owed = False
        try:
            result = await self._replace(enter, before)
            after = await self._look()
            if before.is_up and after.was_not_started_since(before):
                owed = True
                await self._lift_start_limit()
                result = await self._replace(enter, after)
                after = await self._look()
        except (Lost, anyio.get_cancelled_exc_class()):
            if before.is_up:
                with bring_back(end):
                    await self._leave_it_up(before, owed=owed)
            raise
        if result == "failed" and after.was_not_started_since(before):
            raise _fault(Reason.START_FAILED, START_LIMIT, after)
        return _judged(result, after)

    async def tail(self) -> str:
        """Return where the end of its log is: the journal is not on the bus."""
        return f"its log: journalctl {'--user ' if self._users else ''}-u {self._unit}"

    async def check_restart(self) -> None:
        """Return where nothing is known to keep this process from restarting the unit. Raises ``Fault``.

        systemd is asked for a restart in a mode that is for stops only: it checks the rights, with unit and verb, and
        refuses the mode before it does anything; before 246 it does not know the mode, and refuses without a check.
        polkit itself tells nobody but root whether a rule for one unit holds.
        """
        self._require_restartable(await self._look())
        try:
            await self._manager("RestartUnit", "ss", self._unit, "triggering", returns="o")
        except Refusal as refusal:
            if refusal.name == "org.freedesktop.DBus.Error.InvalidArgs":
                return
            fault = fault_of(refusal)
            if fault.reason is not Reason.NO_PERMISSION:
                raise fault from None
            rule = polkit_rule(self._unit, self._bus.way.user or user_name(self._bus.uid))
            message = "systemd does not let this process restart it"
            mend = f"in a file in /etc/polkit-1/rules.d, this allows it: {rule}"
            raise Fault(Reason.NO_PERMISSION, message, refusal.text, mend) from None

    async def longest_restart(self) -> float | None:
        """Return how long its unit lets stop and start take, where it says that itself. Raises ``Fault``."""
        link = await self._bus.link(self)
        try:
            usual = await link.call("GetAll", "s", MANAGER, path=MANAGER_PATH, interface=PROPERTIES, returns="a{sv}")
        except Refusal as refusal:
            raise fault_of(refusal) from None
        said = usual.body[0]
        limits = (said[key].value for key in ("DefaultTimeoutStartUSec", "DefaultTimeoutStopUSec"))
        return (await self._look()).seconds_allowed(*limits) or None

    async def close(self) -> None:
        """Leave the bus; with its last driver the connection ends."""
        await self._bus.leave(self)

    def _require_restartable(self, unit: Unit) -> None:
        """Raise ``Fault`` where the unit is not to be restarted, whoever asks.

        Not under an alias: what is stated of a unit, its locks and its quotas go by its own name, and whoever may
        choose names of a pattern would get around them by another one. Nor one that systemd makes of any name: a
        slip in a name would start a new process.
        """
        if unit.name != self._unit:
            raise Fault(Reason.NOT_FOUND, _ALIAS, unit.name)
        if unit.is_new_instance and not self._start_new:
            raise Fault(Reason.NOT_FOUND, _NEW)
        if not unit.by_hand:  # systemd asks polkit first, and tells who has no rights only that
            raise _fault(Reason.NO_PERMISSION, NOT_BY_HAND, unit)

    async def _look(self) -> Unit:
        """Return all properties in one answer, so that they are of one moment."""
        link = await self._bus.link(self)
        try:
            reply = await link.call("GetAll", "s", "", path=self._path, interface=PROPERTIES, returns="a{sv}")
        except Refusal as refusal:
            raise fault_of(refusal) from None
        return Unit.of(reply.body[0])

    async def _manager(self, method: str, signature: str, *arguments: str, returns: str = "") -> Message:
        """Call a method of systemd's. Raises ``Refusal`` and ``Fault``."""
        link = await self._bus.link(self)
        return await _call(link, method, signature, *arguments, returns=returns)

    async def _replace(self, enter: Callable[[Phase], None], before: Unit) -> str | None:
        """Ask for a restart, and return the result of its job; None where nothing told it. Raises ``Fault``."""
        phase = Phase.REPLACING if before.is_up else Phase.STARTING
        enter(phase)
        link = await self._bus.link(self)
        with link.jobs() as jobs:
            try:
                reply = await _call(link, "RestartUnit", "ss", self._unit, "replace", returns="o")
            except Refusal as refusal:
                raise fault_of(refusal) from None
            (job,) = reply.body
            pauses = _pauses()
            while (result := jobs.result(reply.sender, job)) is None:
                with anyio.move_on_after(next(pauses)):
                    await jobs.news()
                    continue
                now = await self._look()  # on another connection, where the one that listens ended
                if phase is Phase.REPLACING and now.active in {"activating", "inactive", "failed"}:
                    phase = Phase.STARTING
                    enter(phase)
                if now.job != job:  # its end was told before this answer, unless it got lost
                    result = jobs.result(reply.sender, job)
                    break
        if phase is Phase.REPLACING:
            enter(Phase.STARTING)
        return result

    async def _lift_start_limit(self) -> None:
        """Let systemd start the unit again: a restart stopped it, and its start limit must not keep it down."""
        logger.warning("%s: its start limit was reached by a restart; it is lifted and the unit started", self._unit)
        try:
            await self._manager("ResetFailedUnit", "s", self._unit)
        except Refusal as refusal:
            fault = fault_of(refusal)
            raise Fault(
                fault.reason,
                "the restart ran into its start limit and left it stopped, and systemd does not let this process lift "
                f"that (`systemctl reset-failed {self._unit}`)",
                fault.output,
            ) from None

    async def _leave_it_up(self, before: Unit, *, owed: bool) -> None:
        """Start what a restart that was broken off stopped and its start limit keeps down. Nothing mends the break.

        ``owed``: the limit was about to be lifted, or is lifted already.
        """
        try:
            pauses = _pauses()
            while True:
                now = await self._look()
                if now.was_not_started_since(before):
                    await self._lift_start_limit()
                    owed = True
                if owed and not now.is_up and now.job == NO_JOB:
                    await self._manager("RestartUnit", "ss", self._unit, "replace", returns="o")
                if now.active == "activating" or (now.job == NO_JOB and now.active != "deactivating"):
                    return
                await anyio.sleep(next(pauses))
        except (Fault, Refusal) as fault:
            logger.warning("%s: whether it was started again is not known: %s", self._unit, fault)
        except anyio.get_cancelled_exc_class():
            logger.warning("%s: still stopping when the restart was given up; systemd goes on with it", self._unit)
            raise


async def _call(link: Link, method: str, signature: str, *arguments: str, returns: str) -> Message:
    return await link.call(method, signature, *arguments, path=MANAGER_PATH, interface=MANAGER, returns=returns)


def _judged(result: str | None, after: Unit) -> Observation:
    """Return what a restart came to, by its job's result and what systemd says afterwards. Raises ``Fault``."""
    if result in _RESULTS:
        raise _fault(*_RESULTS[result], after)
    if result == "failed":
        late = after.result == "timeout"
        raise _fault(Reason.START_TIMED_OUT if late else Reason.START_FAILED, _failed("it did not start", after), after)
    if result not in {"done", None}:
        raise Fault(Reason.UNKNOWN, "systemd ended the restart with a result that is not known here", result or "")
    if after.ended_and_returns:
        raise _fault(Reason.START_FAILED, _failed("it ended, and systemd is about to start it again", after), after)
    if after.state is State.FAILED:
        raise _fault(Reason.START_FAILED, _failed("it started and ended", after), after)
    if after.active == "inactive" and after.job == NO_JOB:
        return _ended(result, after)
    return after.observation()


def _ended(result: str | None, after: Unit) -> Observation:
    """Return what became of a unit that a restart left inactive and not failed. Raises ``Fault``."""
    if after.condition_checked and not after.condition_met:
        raise _fault(Reason.START_FAILED, _NOT_STARTED, after)
    forgotten = after.has_conditions and not after.condition_checked
    if not after.is_task:
        what = "it started and ended" + (", or a condition of its unit was not met" if forgotten else "")
        raise _fault(Reason.START_FAILED, what, after)
    if result is None or forgotten:
        raise _fault(
            Reason.UNKNOWN, "it is not running, and systemd keeps no record of whether it ran to its end", after
        )
    return Observation(State.STOPPED, None, "it ran to its end, with success", completed=True)


def _fault(reason: Reason, message: str, unit: Unit) -> Fault:
    return Fault(reason, message, unit.description())


def _failed(what: str, unit: Unit) -> str:
    why = unit.why()
    return f"{what}: {why}" if why else what


def _label(name: str) -> str:
    """Return a unit's name as a part of an object path: what is no ASCII letter or digit stands as ``_`` and hex."""
    return _OTHERS.sub(lambda found: f"_{found[0][0]:02x}".encode(), name.encode()).decode()


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * _PAUSE_GROWTH, _LONGEST_PAUSE)
