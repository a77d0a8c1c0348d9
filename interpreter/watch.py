"""Who watches what happens here, for metrics and traces. Where nobody was asked to, it is None.

What is watched tells what it did and how long that took; it never waits for whoever watches, and never looks at what
they do. Watching changes nothing: whoever watches returns at once and raises nothing of their own.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from guideway.interpreter.audit.entry import Entry
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.results import Report, Step

Given = TypeVar("Given")


class Gate(StrEnum):
    """What a program has to pass, in this order."""

    FORM = "form"  # it is a program
    AUTHORIZATION = "authorization"  # its caller may run it, on what it names
    IMPACT = "impact"  # quotas, windows, a person's ticket
    RECORD = "record"  # its intent is in the audit trail


class Watch(Protocol):
    """Watches runs, in their own tasks."""

    def gate(self, gate: Gate) -> AbstractContextManager[None]:
        """Surround a gate. A ``Refusal`` that comes out of it is the gate's answer, and goes on."""
        ...

    def stepped(self, step: Step) -> None:
        """Take a step that has ended."""
        ...

    def waited(self, seconds: float, *, got: bool) -> None:
        """Take how long a restart waited for what others held, and whether it got that."""
        ...

    def ran(self, report: Report) -> None:
        """Take how a run ended, a refused and a cancelled one too."""
        ...


class Transaction(StrEnum):
    """What a transaction of the store does."""

    READ = "read"
    WRITE = "write"


class StoreWatch(Protocol):
    """Watches a store, in any of its threads."""

    def transacted(self, kind: "Transaction", seconds: float, *, done: bool) -> None:
        """Take how long a transaction took, and whether it could be done."""
        ...

    def recorded(self, entries: Iterable[Entry]) -> None:
        """Take what was written to the audit trail."""
        ...

    def unrecorded(self) -> None:
        """Take that the audit trail could not be written."""
        ...


_UNWATCHED: Final = nullcontext()


def watched(watch: Watch | None, gate: Gate) -> AbstractContextManager[None]:
    """Return what surrounds a gate: nothing, where nobody watches."""
    return _UNWATCHED if watch is None else watch.gate(gate)


def timed(
    watch: StoreWatch | None, kind: Transaction, begin: Callable[[], AbstractContextManager[Given]]
) -> AbstractContextManager[Given]:
    """Return a transaction that is begun now, with whoever watches told how long it took. Raises what it raises."""
    return begin() if watch is None else _timed(watch, kind, begin)


@contextmanager
def _timed(watch: StoreWatch, kind: Transaction, begin: Callable[[], AbstractContextManager[Given]]) -> Iterator[Given]:
    since, done = time.perf_counter(), True
    try:
        with begin() as given:
            yield given
    except StoreUnavailable:  # whatever else comes out of it is an answer
        done = False
        raise
    finally:
        watch.transacted(kind, time.perf_counter() - since, done=done)
