"""Services that are programs of a supervisord.

Owns the translation between supervisord's states and ours, and in which order it is asked. Never decides whether a
service is well: that supervisord calls a process RUNNING means only that it has lived for its ``startsecs``.
"""

import logging
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import anyio

from guideway.interpreter.drivers.base import Fault, Observation, Phase, bring_back
from guideway.interpreter.drivers.supervisord.rpc import BrokeDown, Code, Refused, Server, Unsent, as_sent
from guideway.interpreter.drivers.ways import WayLost
from guideway.interpreter.results import Reason, State

logger = logging.getLogger(__name__)

TAIL_BYTES: Final = 4096
_MOST_NAMED: Final = 5
_POLL_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 0.25


class _Process(IntEnum):
    """Process states (supervisor/states.py, ProcessStates)."""

    STOPPED = 0
    STARTING = 10
    RUNNING = 20
    BACKOFF = 30
    STOPPING = 40
    EXITED = 100
    FATAL = 200
    UNKNOWN = 1000


class SupervisordDriver:
    """One program of a supervisord."""

    def __init__(self, program: str, server: Server) -> None:
        self._program = program
        self._server = server

    async def observe(self) -> Observation:
        """Return what supervisord says now. Raises ``Fault``."""
        try:
            info = await self._info()
        except Refused as fault:
            if fault.code == Code.BAD_NAME:
                fault.mend = await self._other_names()
            raise
        output = as_sent(info.get("spawnerr")) or as_sent(info.get("description"))
        pid = info.get("pid")
        identity = f"{pid}@{info.get('start')}" if pid else None
        match _Process(info["state"]):
            case _Process.RUNNING:
                return Observation(State.RUNNING, identity, output)
            case _Process.STARTING | _Process.BACKOFF:  # BACKOFF: it ended, and supervisord is about to try again
                return Observation(State.STARTING, identity, output)
            case _Process.STOPPING:
                return Observation(State.STOPPING, identity, output)
            case _Process.STOPPED:
                return Observation(State.STOPPED, None, output)
            case _Process.EXITED:  # supervisord notes an error only where the exit status was not an expected one
                return Observation(State.FAILED if info.get("spawnerr") else State.STOPPED, None, output)
            case _Process.FATAL:
                return Observation(State.FAILED, None, output)
            case _Process.UNKNOWN:
                raise Fault(Reason.UNKNOWN, "supervisord has lost track of the process", output)

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:
        """Stop, start, and return once supervisord says RUNNING. Raises ``Fault``."""
        enter(Phase.STOPPING)
        try:
            await self._accept(Code.NOT_RUNNING, "stopProcess", True)
        except (Unsent, Refused):  # nothing was stopped
            raise
        except Fault as fault:
            raise await self._broken_off(fault, enter, end) from fault
        except anyio.get_cancelled_exc_class():
            await self._leave_it_up(enter, end)
            raise
        try:
            # It was being stopped already, perhaps: that is waited for too, because a start in the midst of it is
            # answered with an internal error.
            await self._leave_stopping()
            enter(Phase.STARTING)
            await self._accept(Code.ALREADY_STARTED, "startProcess", True)
        except Fault as fault:
            # What supervisord itself says of the program holds, and asking once more would not change it.
            if isinstance(fault, Refused) and fault.code != Code.SHUTDOWN_STATE:
                raise
            raise await self._broken_off(fault, enter, end) from fault
        except anyio.get_cancelled_exc_class():
            await self._leave_it_up(enter, end)
            raise

    async def tail(self) -> str:
        """Return the end of the program's standard error, else of its standard output. Raises ``Fault``."""
        return await self._log("tailProcessStderrLog") or await self._log("tailProcessStdoutLog")

    async def longest_restart(self) -> float | None:
        """Return how long supervisord lets stop and start take, None where it does not say. Raises ``Fault``."""
        try:
            programs = await self._server.call("getAllConfigInfo", member=self)
        except Refused as fault:
            if fault.code == Code.UNKNOWN_METHOD:  # before 4.0
                return None
            raise
        for one in programs if isinstance(programs, list) else ():
            if isinstance(one, dict) and self._program in {one.get("name"), f"{one.get('group')}:{one.get('name')}"}:
                spans = [one.get("stopwaitsecs"), one.get("startsecs")]
                return float(sum(span for span in spans if isinstance(span, int)))
        return None

    async def close(self) -> None:
        """Leave its place; with the last driver its connections are closed."""
        await self._server.place.leave(self)

    async def _info(self) -> dict[str, Any]:
        info = await self._call("getProcessInfo")
        # A truth value and a decimal number can equal a state too.
        if not isinstance(info, dict) or type(info.get("state")) is not int or info["state"] not in list(_Process):
            raise Fault(Reason.UNKNOWN, "what answers at the socket does not speak as supervisord does")
        return info

    async def _other_names(self) -> str:
        """Return what could have been meant, for operators: a program in a group goes by both names."""
        try:
            found = await self._server.call("getAllProcessInfo", member=self)
        except Fault:  # that there is no such program stays the answer
            return ""
        meant = [
            f"`{as_sent(one.get('group'))}:{as_sent(one.get('name'))}`"
            for one in (found if isinstance(found, list) else ())
            if isinstance(one, dict) and self._program in {one.get("name"), one.get("group")}
        ]
        more = f" and {len(meant) - _MOST_NAMED} more" if len(meant) > _MOST_NAMED else ""
        return f"supervisord has {', '.join(meant[:_MOST_NAMED])}{more}: write `program` so" if meant else ""

    async def _leave_stopping(self) -> _Process:
        """Return the state, once that is not STOPPING."""
        while True:
            if (state := _Process((await self._info())["state"])) is not _Process.STOPPING:
                return state
            await anyio.sleep(_POLL_SECONDS)

    async def _broken_off(self, fault: Fault, enter: Callable[[Phase], None], end: float) -> Fault:
        """Start what was stopped, and return the fault of a restart that was broken off, with what is known of that."""
        return Fault(fault.reason, f"{fault.message}; {await self._leave_it_up(enter, end)}", fault.output)

    async def _leave_it_up(self, enter: Callable[[Phase], None], end: float) -> str:
        """Ask for the start of what a restart that was broken off may have stopped; return what came of it.

        Nothing here mends the break. A machine or a supervisord that went away for a moment is waited for.
        """
        left = "it was still stopping when the restart was given up, and nothing starts it again"
        waits = False
        enter(Phase.LEFT_DOWN)
        with bring_back(end):
            while True:
                try:
                    if await self._leave_stopping() in {_Process.STOPPED, _Process.EXITED, _Process.FATAL}:
                        await self._accept(Code.ALREADY_STARTED, "startProcess", False)
                except Fault as fault:
                    left = f"it may be stopped, and nothing starts it again: {fault.message}"
                    waits = waits or _went_away(fault)
                    if not waits:
                        break
                else:
                    enter(Phase.BROUGHT_BACK)
                    return "its start was asked for"
                await anyio.sleep(_AGAIN_SECONDS)
        logger.warning("%s: %s", self._program, left)
        return left

    async def _accept(self, code: Code, method: str, *arguments: int) -> None:
        """Call, and take one fault for success: what was asked for is so already."""
        try:
            await self._call(method, *arguments)
        except Refused as fault:
            if fault.code != code:
                raise

    async def _log(self, method: str) -> str:
        """Return the end of a log, empty where there is none.

        supervisord cuts at a byte and then fails on the rest of a character: a few bytes less, and it is whole.
        """
        for length in range(TAIL_BYTES, TAIL_BYTES - 4, -1):
            try:
                answer = await self._call(method, 0, length)
            except BrokeDown:
                continue
            return as_sent(answer[0]) if isinstance(answer, list) and answer else ""
        raise Fault(Reason.UNKNOWN, "supervisord cannot hand out its log, which is not UTF-8 text")

    async def _call(self, method: str, *arguments: int) -> Any:
        """Call one method for our program. Raises ``Fault``."""
        return await self._server.call(method, self._program, *arguments, member=self)


def _went_away(fault: Fault) -> bool:
    """Say whether it was the machine, or a supervisord that ends or reloads, and not supervisord's own answer."""
    match fault:
        case Refused(code=code):
            return code == Code.SHUTDOWN_STATE
        case Unsent(may_pass=may_pass):
            return may_pass
        case _:
            return isinstance(fault, WayLost)
