"""How many calls there are at once and how often each caller may come: counted here, by caller, and nowhere else.

A call has a place while it does something, and gives it back while it waits for a person. Where all places are taken,
it waits in its caller's line; the lines have their turns one after the other, so that no caller waits for another
one's hundred calls. Nothing here looks into a request, and nothing outlives the calls but the rates, which are bounded.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import anyio

from guideway.server.load_bounds import DEFAULT_BOUNDS, LoadBounds
from guideway.server.rates import Rates
from guideway.server.too_much import Bound, TooMuch

_log: Final = logging.getLogger(__name__)

_WEIGHT: Final = 0.1
"""What the latest call counts in the mean of how long a place is taken."""


class Load:
    """The calls of one server. A caller of None is the only one there is: it has all the places, at any rate.

    ``refused`` counts what was refused, by the bound. ``longest_wait`` is in seconds, of those who got a place.
    """

    def __init__(self, bounds: LoadBounds = DEFAULT_BOUNDS, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds
        self.running = 0
        self.queued = 0
        self.longest_wait = 0.0
        self.refused = Counter[Bound]()
        self._ticks = ticks
        self._requests = Rates(bounds.calls_per_minute_of_caller, ticks=ticks)
        self._notes = Rates(bounds.calls_per_minute_of_caller, ticks=ticks)
        self._own = Counter[Hashable]()
        self._lines: dict[Hashable, deque[_Waiting]] = {}
        self._taken_for = 0.0
        self._stopping = False

    async def place(self, caller: Hashable | None) -> "Place":
        """Count a request, and return the place for it. Raises ``TooMuch``."""
        self._charge(self._requests, caller)
        place = Place(self, caller)
        await self.take(place)
        return place

    @asynccontextmanager
    async def run(self) -> AsyncIterator["Place"]:
        """Hold a run's place: its request's, or one that is got now where no door gave any. Raises ``TooMuch``."""
        lent = PLACE.get()
        place = await self.place(None) if lent is None else lent
        try:
            await place.enter()
            yield place
        finally:
            place.leave()
            if lent is None:
                place.close()

    def tell(self) -> None:
        """Log what the load was until now, where anything waited or was refused."""
        if not (self.longest_wait or self.refused):
            return
        refused = ", ".join(f"{bound} {times:,}" for bound, times in sorted(self.refused.items()))
        _log.info("load: the longest wait for a place was %.3f s; refused: %s", self.longest_wait, refused or "none")

    def note(self, caller: Hashable | None) -> None:
        """Count what needs no place, such as a notification: it may end a call. Raises ``TooMuch``."""
        self._charge(self._notes, caller)

    def let_in(self) -> None:
        """Let calls begin, after a server was stopped and is served again."""
        self._stopping = False

    def turn_away(self) -> None:
        """Let no call begin any more. Those that wait for a place are told so."""
        self._stopping = True
        for line in list(self._lines.values()):
            for waiting in list(line):
                self._drop(waiting, Bound.STOPPING)

    async def take(self, place: "Place", *, again: bool = False) -> None:
        """Give a call its place, after a wait for it. Raises ``TooMuch``.

        ``again`` is for one that had a place before: it is refused for want of time alone.
        """
        caller, most = place.caller, self.bounds.calls_at_once_of_caller
        if self._stopping:
            raise self._too_much(Bound.STOPPING)
        if caller is not None and not again and self._own[caller] >= most:
            raise self._too_much(Bound.CALLER_AT_ONCE, self._taken_for / most)
        self._own[caller] += 1
        try:
            if self.running < self.bounds.calls_at_once and not self._lines:
                self.running += 1
            else:
                await self._wait(caller, bounded=not again)
        except BaseException:
            self.leave(caller)
            raise
        place.has(self._ticks())

    def give_back(self, taken: float) -> None:
        """Take a place back, and give it to whoever is next. ``taken`` is when it was taken, by ``ticks``."""
        self._taken_for += _WEIGHT * (self._ticks() - taken - self._taken_for)
        self.running -= 1
        self._next()

    def leave(self, caller: Hashable | None) -> None:
        """Count one call of a caller less."""
        self._own[caller] -= 1
        if not self._own[caller]:
            del self._own[caller]

    def refuse(self, bound: Bound, message: str, seconds: float | None, *, own: bool = False) -> TooMuch:
        """Count a refusal, and return it. ``own`` is whether it is the caller's own doing."""
        self.refused[bound] += 1
        return TooMuch(bound, message, seconds, own=own)

    def _charge(self, rates: Rates, caller: Hashable | None) -> None:
        if caller is not None and (seconds := rates.take(caller)):
            raise self._too_much(Bound.CALLER_RATE, seconds)

    def _next(self) -> None:
        """Let the first of the next line have a place, and put that line behind the others."""
        while self._lines and self.running < self.bounds.calls_at_once:
            caller = next(iter(self._lines))
            line = self._lines.pop(caller)
            waiting = line.popleft()
            if line:
                self._lines[caller] = line
            self.queued -= 1
            self.running += 1
            waiting.granted = True
            waiting.over.set()
            for other in line:
                other.passed = True

    async def _wait(self, caller: Hashable | None, *, bounded: bool) -> None:
        """Wait for a place. ``bounded`` is whether the queue may be full."""
        if bounded and self.queued >= self.bounds.queue:
            self._make_room(caller)
        waiting = _Waiting(caller)
        self._lines.setdefault(caller, deque()).append(waiting)
        self.queued += 1
        since = self._ticks()
        try:
            with anyio.move_on_after(self.bounds.queue_seconds):
                await waiting.over.wait()
        except BaseException:
            if waiting.granted:
                self.running -= 1
                self._next()
            else:
                self._remove(waiting)
            raise
        if not waiting.granted:
            self._remove(waiting)
            bound = waiting.dropped or Bound.QUEUE_SECONDS
            own = caller is not None and (waiting.passed or waiting.dropped is Bound.QUEUE)
            raise self._too_much(bound, self._until_free(), own=own)
        self.longest_wait = max(self.longest_wait, self._ticks() - since)

    def _make_room(self, caller: Hashable | None) -> None:
        """Have the last of the longest line give way to a caller who has fewer there. Raises ``TooMuch``."""
        longest = max(self._lines.values(), key=len, default=None)
        own = len(self._lines.get(caller, ()))
        if longest is None or len(longest) <= own + 1:
            raise self._too_much(Bound.QUEUE, self._until_free(), own=caller is not None and own > 0)
        self._drop(longest[-1], Bound.QUEUE)

    def _drop(self, waiting: "_Waiting", bound: Bound) -> None:
        self._remove(waiting)
        waiting.dropped = bound
        waiting.over.set()

    def _remove(self, waiting: "_Waiting") -> None:
        line = self._lines.get(waiting.caller)
        with suppress(ValueError):  # who was dropped is not in it any more
            if line is not None:
                line.remove(waiting)
                self.queued -= 1
                if not line:
                    del self._lines[waiting.caller]

    def _until_free(self) -> float:
        """Return the seconds until there is a place again, as things have gone of late."""
        return self._taken_for * (self.queued + 1) / self.bounds.calls_at_once

    def _too_much(self, bound: Bound, seconds: float = 0.0, *, own: bool = False) -> TooMuch:
        bounds = self.bounds
        match bound:
            case Bound.CALLER_AT_ONCE:
                why = f"this caller has {bounds.calls_at_once_of_caller} calls at once, which is as many as may be"
            case Bound.CALLER_RATE:
                most = bounds.calls_per_minute_of_caller
                why = f"this caller has made {most} calls in a minute, which is as many as may be"
            case Bound.QUEUE | Bound.QUEUE_SECONDS if own:
                why = "this caller has more calls that wait than its share: others have their turns too"
            case Bound.QUEUE:
                why = f"{bounds.calls_at_once} calls run at once and {bounds.queue} wait, which is as many as may be"
            case Bound.QUEUE_SECONDS:
                why = f"{bounds.calls_at_once} calls run at once, and none ended in time for this one"
            case _:
                return self.refuse(bound, "the server is stopping", None)
        return self.refuse(bound, why, seconds, own=own)


class Place:
    """The place of one call: of the request that brings it, then of the run that it becomes.

    In older revisions a run goes on when its request has gone, so each of the two is told of by itself.
    """

    def __init__(self, load: Load, caller: Hashable | None) -> None:
        self.caller = caller
        self._load = load
        self._taken: float | None = None
        self._counted = False
        self._open = True
        self._inside = self._ran = self._waits = False

    def has(self, taken: float) -> None:
        """Note that the place was given, and when."""
        self._taken, self._counted = taken, True

    async def enter(self) -> None:
        """Begin the run. Where the request has gone already, it needs a place like any other. Raises ``TooMuch``."""
        if self._taken is None:
            await self._load.take(self)
        self._inside = self._ran = True

    def leave(self) -> None:
        """End the run. What is left is its answer, which needs no place, and counts for its caller until it is read."""
        self._inside = False
        self._settle()

    def close(self) -> None:
        """End the request."""
        self._open = False
        self._settle()

    def rest(self) -> None:
        """Give the place back while the call waits for a person, who may take long: it counts for nothing then."""
        self._waits = True
        self._settle()

    async def resume(self) -> None:
        """Have a place again after ``rest``. Raises ``TooMuch``."""
        if self._waits:
            self._waits = False
            await self._load.take(self, again=True)

    def _settle(self) -> None:
        if self._taken is not None and (self._waits or not (self._inside or (self._open and not self._ran))):
            taken, self._taken = self._taken, None
            self._load.give_back(taken)
        if self._counted and (self._waits or not (self._inside or self._open)):
            self._counted = False
            self._load.leave(self.caller)


@dataclass(eq=False, slots=True)
class _Waiting:
    """One that waits: until it is granted a place, or dropped for a bound.

    ``passed`` is whether another call of its caller got a place meanwhile.
    """

    caller: Hashable | None
    over: anyio.Event = field(default_factory=anyio.Event)
    granted: bool = False
    passed: bool = False
    dropped: Bound | None = None


PLACE: Final[ContextVar[Place | None]] = ContextVar("guideway_place", default=None)
"""The place of the request that is being answered; None where no door gave it one."""
