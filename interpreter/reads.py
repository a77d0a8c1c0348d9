"""Reads ahead: PINGs and GET_STATUSes that stand next to each other are begun before their turn comes.

Owns which read is begun when, and how many are open. What a read means stays with the walk: it checks, logs and counts
each when its turn comes, in the order of the program, and never learns from here of a failure ahead of its turn. Only
reads are begun here, and when their sequence is left, none of them is open any more.
"""

import heapq
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from guideway.dsl.ast import GetStatus, Ping
from guideway.interpreter.begun import Begun
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.results import State

#: A read is begun ahead only where fewer than so many of all programs are open then, if nothing else is configured.
READS_AT_ONCE: Final = 64
#: How many reads one program has begun ahead at once.
READS_OF_A_PROGRAM: Final = 16

Read = Ping | GetStatus
#: The state that a command found, this program's words for it, and the backend's.
Answer = tuple[State, str, str]


class Places:
    """The open reads of all programs of a process. A read whose turn has come always has a place; others wait.

    So no program waits for another, whatever that does: where places are short, each runs as if nothing were ever begun
    ahead. A read is begun ahead only where fewer than ``most`` are open then: of one program alone never more than that
    are, with the one whose turn it is. Of the programs that wait, each is given one place in its turn.
    """

    def __init__(self, most: int = READS_AT_ONCE) -> None:
        self.open = 0
        self._most_ahead = most - 1
        self._waiting: deque[anyio.Event] = deque()

    def enter(self) -> None:
        """Take a place for a read whose turn has come."""
        self.open += 1

    async def enter_ahead(self) -> None:
        """Take a place for a read that is begun ahead, once there is one."""
        if self.open < self._most_ahead and not self._waiting:
            self.open += 1
            return
        given = anyio.Event()
        self._waiting.append(given)
        try:
            await given.wait()
        except anyio.get_cancelled_exc_class():
            if given.is_set():
                self.leave()
            else:
                self._waiting.remove(given)
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.open -= 1
        while self._waiting and self.open < self._most_ahead:
            self.open += 1
            self._waiting.popleft().set()


@dataclass(slots=True)
class Ahead:
    """A read that was begun ahead of its turn. Once it is over, one of ``answer`` and ``fault`` says how it ended, or
    neither where its driver gave up without a word.
    """

    begun: Begun
    answer: Answer | None = None
    fault: Fault | None = None
    over: anyio.Event = field(default_factory=anyio.Event)


class Neighbours:
    """Reads that stand next to each other. Of each target at most one is open, and they are begun in their order.

    ``begin`` says that a read is begun, and gives None where it may not be; ``ask`` does it. The walk goes through
    them: it calls ``take`` when the turn of each comes, and ``done`` when it has made that read itself.
    """

    def __init__(
        self,
        reads: Sequence[Read],
        places: Places,
        begin: Callable[[int], Begun | None],
        ask: Callable[[Read], Awaitable[Answer]],
    ) -> None:
        self._reads = reads
        self._places = places
        self._begin = begin
        self._ask = ask
        self._turn = 0
        self._waited = False
        self._ahead: dict[int, Ahead] = {}
        self._asking = 0  # tasks that make reads, or wait for a place to
        self._queueing = anyio.Lock(fast_acquire=True)  # a program waits for one place at a time
        self._ready: list[int] = []  # a heap: the next read of each target of which none is open
        self._next: dict[int, int] = {}  # from each read to the next of the same target
        last: dict[tuple[type[Read], str], int] = {}
        for index, read in enumerate(reads):
            target = (type(read), read.target)
            if target in last:
                self._next[last[target]] = index
            else:
                self._ready.append(index)
            last[target] = index

    def begin(self, tasks: TaskGroup) -> None:
        """Begin reads ahead as soon as the walk waits: where its own reads take no time, none is begun in vain."""
        self._tasks = tasks
        tasks.start_soon(self._begin_ready)

    def take(self, index: int) -> Ahead | None:
        """Return a read whose turn has come, where it is open or was answered; None where the walk has to make it.

        One that failed ahead of its turn is made again: what failed then may be well now, and what asked for too much
        at once does not any more.
        """
        self._turn = index
        ahead = self._ahead.pop(index, None)
        return None if ahead is None or (ahead.over.is_set() and ahead.answer is None) else ahead

    def done(self, index: int) -> None:
        """Say that the walk made a read itself, and that the next of its target may be begun."""
        self._release(index)
        if self._waited:
            self._begin_another()

    def end(self) -> None:
        """Begin nothing any more, and cancel what was begun in vain."""
        self._ready.clear()
        self._turn = len(self._reads)
        self._tasks.cancel_scope.cancel()

    async def _begin_ready(self) -> None:
        self._waited = True
        for _ in self._ready[:READS_OF_A_PROGRAM]:
            self._begin_another()

    def _release(self, index: int) -> None:
        if index in self._next:
            heapq.heappush(self._ready, self._next[index])

    def _begin_another(self) -> None:
        if self._ready and self._asking < READS_OF_A_PROGRAM:
            self._asking += 1
            self._tasks.start_soon(self._make_reads)

    async def _make_reads(self) -> None:
        """Make reads ahead, the earliest first, for as long as there is one to make."""
        try:
            while self._ready:
                async with self._queueing:
                    await self._places.enter_ahead()
                try:
                    await self._make_one()
                finally:
                    self._places.leave()
        finally:
            self._asking -= 1

    async def _make_one(self) -> None:
        index = self._turn
        while index <= self._turn:  # what the walk makes or has made itself
            if not self._ready:
                return
            index = heapq.heappop(self._ready)
        begun = self._begin(index)
        if begun is None:
            return
        ahead = self._ahead[index] = Ahead(begun)
        try:
            ahead.answer = await self._ask(self._reads[index])
            self._release(index)
        except Fault as fault:
            ahead.fault = fault  # the next of this target has to wait: this one may be made again
        except anyio.get_cancelled_exc_class():
            # A driver that cancels itself, when nobody else did, must not end the sequence as if it were its caller.
            if anyio.current_effective_deadline() == -math.inf:
                raise
        finally:
            begun.end()
            ahead.over.set()
