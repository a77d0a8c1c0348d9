"""Services that are containers of Docker or Podman.

Owns what is asked of an engine, in which order, and what its answer says of a restart. Never decides whether a service
is well: that an engine has restarted a container means only that its process was made.

A restart is one request. Once an engine has begun, it stops the container and starts it again whatever becomes of who
asked, but for Docker 23.0 to 24.0.6, which gives up where its client does; and an engine can end on the way.
"""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Final

import anyio

from guideway.interpreter.drivers.base import Fault, Observation, Phase, bring_back
from guideway.interpreter.drivers.container.engine import Engine, Lost, Refusal, TooMuch
from guideway.interpreter.drivers.container.inspected import Container, text_of
from guideway.interpreter.results import Reason, State

logger = logging.getLogger(__name__)

_TAIL_LINES: Final = (50, 1)  # as many as go into an answer that is read: one line can be long
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_GROWTH = 0.05, 0.25, 1.5
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+")
_CHECKS_NUMBERS: Final = ("Docker/", "Libpod/")
# Podman leaves the removal to a process of its own, which may be quicker than the start.
_REMOVES_AMID: Final = "Libpod/"
_REMOVED: Final = (
    "it is removed when it ends (`--rm`), and Podman may do that before it starts it again: nothing was done"
)


class ContainerDriver:
    """One container of an engine, by its name. ``is_task`` says whether it is there to run to its end."""

    def __init__(self, name: str, engine: Engine, *, is_task: bool = False) -> None:
        self._name = name
        self._is_task = is_task
        self._engine = engine
        self._turn = engine.turn(name)

    async def observe(self) -> Observation:
        """Return what the engine says now. Raises ``Fault``."""
        return (await self._look()).observation()

    async def restart(self, enter: Callable[[Phase], None], end: float) -> Observation:
        """Have the engine restart the container; return once its health, where it has one, is known. Raises ``Fault``.

        Of a container that its restart policy starts over and over it never is. A task has to have run to its end.
        """
        async with self._turn:
            before = await self._look()
            await self._replace(before, enter, end)
            return await self._come_up(before)

    async def tail(self) -> str:
        """Return the end of what it wrote, of both streams in their order. Raises ``Fault``."""
        tty = (await self._look()).config.tty
        for lines in _TAIL_LINES:
            query = {"stdout": "1", "stderr": "1", "tail": str(lines)}
            try:
                return text_of(await self._engine.call("GET", self._path("logs"), self, query=query), tty=tty)
            except TooMuch:
                continue
        raise Fault(Reason.UNKNOWN, "the last line of its log is too long to be read")

    async def check_restart(self) -> None:
        """Return where nothing is known to keep this process from restarting the container. Raises ``Fault``.

        Whoever stands before the engine, a plugin or a proxy, decides by method and path. So the engine is asked for
        just that restart, with a number that is none: both Docker and Podman read it, and refuse, before they do
        anything. Of another engine that is not known, and it is not asked.
        """
        if not (await self._engine.name(self)).startswith(_CHECKS_NUMBERS):
            return
        path = self._path("restart", self._acted_on(await self._look()))
        try:
            await self._engine.call("POST", path, self, query={"t": "none"})
        except Refusal as refusal:
            if refusal.reason is not Reason.UNKNOWN:
                raise Fault(refusal.reason, refusal.message, refusal.output, refusal.mend) from None

    async def close(self) -> None:
        """Leave its engine; with the last driver its connections are closed."""
        await self._engine.place.leave(self)

    async def _look(self) -> Container:
        return Container.of(await self._engine.call("GET", self._path("json"), self), self._name)

    def _path(self, what: str, who: str | None = None) -> str:
        return f"/containers/{who or self._name}/{what}"

    def _acted_on(self, container: Container) -> str:
        """Return by what a container is acted on: its name, which whoever restricts paths can know beforehand.

        A name that could be the beginning of an id would be taken for one, if its container went away just now.
        """
        return container.id if _HEXADECIMAL.fullmatch(self._name) else self._name

    async def _replace(self, before: Container, enter: Callable[[Phase], None], end: float) -> None:
        """Ask for a restart, and return when it is done. Raises ``Fault``."""
        if before.is_paused:  # by somebody's wish, and not every engine would restart it
            raise _fault(Reason.START_FAILED, "it is paused: nothing restarts it until it is unpaused", before)
        if before.is_up and before.is_removed_at_end and (await self._engine.name(self)).startswith(_REMOVES_AMID):
            raise _fault(Reason.START_FAILED, _REMOVED, before)
        asked = False

        def sent() -> None:
            nonlocal asked
            asked = True

        enter(Phase.REPLACING if before.is_up else Phase.STARTING)
        # Podman kills at once where it is not told how long to wait, whatever the container says.
        query = {"t": str(before.stop_seconds)}
        try:
            await self._engine.call("POST", self._path("restart", self._acted_on(before)), self, query=query, sent=sent)
        except Refusal as refusal:
            if refusal.reason is Reason.NO_PERMISSION:
                raise
            raise _refused(before, await self._look(), refusal) from None
        except (Lost, anyio.get_cancelled_exc_class()):
            if asked and before.is_up:
                with bring_back(end):
                    await self._leave_it_up(before, enter)
            raise
        if before.is_up:
            enter(Phase.STARTING)

    async def _come_up(self, before: Container) -> Observation:
        """Return what it is once its health, where it has one, is known. Raises ``Fault`` where it ends before."""
        first = seen = await self._look()
        for pause in _pauses():
            if not (seen.is_up or seen.is_ending):
                if seen.ended_well and seen.now.started != before.now.started:
                    if self._is_task:
                        return Observation(State.STOPPED, None, "it ran to its end, with success", completed=True)
                    raise _fault(Reason.START_FAILED, "it started and ended (`task = true`, if it is to)", seen)
                what = "it ended, and its restart policy starts it again" if seen.returns else "it started and ended"
                why = seen.why()
                raise _fault(Reason.START_FAILED, f"{what}: {why}" if why else what, seen)
            if seen.is_up and first.is_up and seen.identity != first.identity:
                raise _fault(Reason.START_FAILED, "it started, ended, and was started again", seen)
            if seen.is_up and seen.state is not State.STARTING and not self._is_task:
                break
            await anyio.sleep(pause)
            seen = await self._look()
        return seen.observation()

    async def _leave_it_up(self, before: Container, enter: Callable[[Phase], None]) -> None:
        """Start what a restart that was broken off has stopped, if its engine does not. Nothing mends the break."""
        try:
            for pause in _pauses():
                now = await self._look()
                if now.identity != before.identity and now.state is not State.STOPPING:
                    enter(Phase.STARTING)
                    if not now.is_up:  # which the engine may be about to do: it is done once
                        await self._engine.call("POST", self._path("start", self._acted_on(now)), self)
                    return
                await anyio.sleep(pause)
        except Fault as fault:
            logger.warning("%s: whether it was started again is not known: %s", self._name, fault.message)
        except anyio.get_cancelled_exc_class():
            logger.warning("%s: still stopping when the restart was given up; the engine goes on with it", self._name)
            raise


def _refused(before: Container, now: Container, refusal: Refusal) -> Fault:
    """Return what a restart came to that the engine refused, or did not do to its end."""
    if now.state is State.STOPPING or (now.is_up and now.identity != before.identity):
        return Fault(Reason.START_FAILED, "somebody else stops or restarts it at the same time", refusal.output)
    if now.is_up:
        return Fault(Reason.UNKNOWN, "the engine could not stop it, and it runs as before", refusal.output)
    return Fault(Reason.START_FAILED, "the engine could not start it", refusal.output)


def _fault(reason: Reason, message: str, container: Container) -> Fault:
    return Fault(reason, message, container.description())


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * _PAUSE_GROWTH, _LONGEST_PAUSE)
