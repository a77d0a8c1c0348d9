"""What patterns of names mean: hosts and services that are made when a program names them, and given up when idle.

Owns which of those are there, and that there is never a second one of a name while somebody has the first: what two
programs must share of a service, its lock above all, is the service's. Never knows how one is made.
"""

import asyncio
import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import anyio

from guideway.dsl.patterns import NamePattern

if TYPE_CHECKING:
    from guideway.interpreter.inventory import Host
    from guideway.interpreter.service import Service

logger = logging.getLogger(__name__)

#: How many services that patterns made are kept when nobody uses them, and so how many connections of theirs.
KEPT: Final = 128
#: After so long without a call such a service gives back what it holds, its connections above all.
IDLE_SECONDS: Final = 60.0

_Stars = tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class HostPattern:
    """Hosts by a pattern. ``make`` makes one of its name and of what the stars stand for in that.

    ``deadline`` is in seconds, for each of them; None takes the default of the command.
    """

    pattern: NamePattern
    make: "Callable[[str, _Stars], Host]"
    deadline: float | None = None
    _made: "Callable[[str, _Stars], Host]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", lru_cache(maxsize=KEPT)(self.make))  # a host holds nothing

    def host(self, name: str, stars: _Stars) -> "Host":
        """Return the host of a name."""
        return self._made(name, stars)


@dataclass(frozen=True, eq=False, slots=True)
class ServicePattern:
    """Services by a pattern, made as hosts are. What is said here holds for each of them.

    ``fleet`` keeps them: one for all inventories in which a name means the same.
    """

    pattern: NamePattern
    make: "Callable[[str, _Stars], Service]"
    fleet: "Fleet"
    restartable: bool = True
    deadline: float | None = None

    def service(self, name: str, stars: _Stars) -> "Service":
        """Return the service of a name: always the same one while anybody has it."""
        return self.fleet.service(self, name, stars)


@dataclass(slots=True)
class _Kept:
    service: "Service"
    used: float


_Key = tuple[ServicePattern, str]


class Fleet:
    """The services that patterns made. One for a process; used by one event loop at a time.

    One that is in use is never given up. Of the others ``most`` are kept, each for ``idle_seconds``: then what they
    hold is given back. Whoever has a fleet closes it.
    """

    def __init__(self, *, most: int = KEPT, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._kept: dict[_Key, _Kept] = {}  # in the order of their last use
        # Somebody may still have one that was given up: whoever names it gets that one again.
        self._there: weakref.WeakValueDictionary[_Key, Service] = weakref.WeakValueDictionary()
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def service(self, pattern: ServicePattern, name: str, stars: _Stars) -> "Service":
        """Return the service of a name, made where there is none."""
        key = (pattern, name)
        service = self._there.get(key)
        if service is None:
            service = self._there[key] = pattern.make(name, stars)
            service.when_called = partial(self._called, key)
        self._keep(key, service)
        return service

    async def close(self) -> None:
        """Give back what all of them hold."""
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        there = list(self._there.values())
        self._kept.clear()
        async with anyio.create_task_group() as tasks:
            for service in there:
                tasks.start_soon(service.close)
        while self._closing:
            await asyncio.wait(self._closing)  # which cancels nothing when it is cancelled

    def _called(self, key: _Key) -> None:
        """Keep one again that a run had, and that was given up before the run came to it: it connects anew."""
        self._keep(key, self._there[key])

    def _keep(self, key: _Key, service: "Service") -> None:
        if self._kept.pop(key, None) is None:
            self._make_room()
        self._kept[key] = _Kept(service, time.monotonic())
        self._look_again()

    def _make_room(self) -> None:
        """Give up those that were used the longest ago, so that there is room for one more."""
        for key in list(self._kept):
            if len(self._kept) < self._most:
                break
            self._give_up(key)

    def _give_up(self, key: _Key) -> None:
        if not self._kept[key].service.in_use:
            service = self._kept.pop(key).service
            try:
                closing = asyncio.get_running_loop().create_task(_close(service))
            except RuntimeError:  # without a loop nothing was asked yet
                return
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _look_again(self) -> None:
        """See to it that idle ones are looked for."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is None or self._timer[0] is not loop:
            self._timer = (loop, loop.call_later(self._idle_seconds, self._sweep))

    def _sweep(self) -> None:
        self._timer = None
        now = time.monotonic()
        for key, kept in list(self._kept.items()):
            if kept.service.in_use:
                kept.used = now
            elif now - kept.used >= self._idle_seconds:
                self._give_up(key)
        if self._kept:
            self._look_again()


async def _close(service: "Service") -> None:
    if service.in_use:  # it was named again meanwhile
        return
    try:
        await service.close()
    except Exception:  # nobody waits for this, and what is wrong with its driver must be seen
        logger.exception("%s: its driver did not close", service.name)
