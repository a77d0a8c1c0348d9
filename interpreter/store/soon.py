"""What is kept soon, and nobody waits for: a queue, and a thread that writes what has come together in it."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from guideway.interpreter.records import StoreUnavailable

_log = logging.getLogger(__name__)

Item = TypeVar("Item")

PAUSE: Final = 0.2
"""Seconds that the thread lets come together what it writes at once."""

RETRY: Final = 5.0
"""Seconds until it tries again where the store could not be used."""

NAMED: Final = 100
"""Items of those lost at once that the log names."""

MOST: Final = 10_000
"""Items that wait while the store cannot be used; of more, the oldest are lost, and said to be."""


class Soon(Generic[Item]):
    """Keeps items by ``write``, which is called in a thread and raises ``StoreUnavailable`` where it cannot.

    ``name`` says of one that is lost which it was. The log has no more of it: what it holds may be private.
    """

    def __init__(self, what: str, write: Callable[[Sequence[Item]], None], *, name: Callable[[Item], str]) -> None:
        self._what = what
        self._write = write
        self._name = name
        self._pending: list[Item] = []
        self._lock = threading.Lock()  # of what is pending: never held for long
        self._writing = threading.Lock()  # so that what came first is written first
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> bool:
        """Whether anything waits."""
        return bool(self._pending)

    def put(self, items: Sequence[Item]) -> None:
        """Let items be kept soon."""
        with self._lock:
            is_over = self._ending.is_set()
            if not is_over:
                self._pending.extend(items)
            if not is_over and self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"store of {self._what}", daemon=True)
                self._thread.start()
        if is_over:
            self._lose(items, "the store is closed")
        elif not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Write what waits. Raises ``StoreUnavailable``: then it goes on waiting."""
        with self._writing:
            with self._lock:
                batch, self._pending = self._pending, []
            if not batch:
                return
            try:
                self._write(batch)
            except StoreUnavailable:
                with self._lock:
                    self._pending[:0] = batch
                    lost = self._pending[: max(0, len(self._pending) - MOST)]
                    del self._pending[: len(lost)]
                if lost:
                    self._lose(lost, "the store cannot be used, and too many wait")
                raise

    def close(self) -> None:
        """Write what waits, and end the thread. What cannot be written is logged, and lost."""
        with self._lock:
            self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.flush()
        except StoreUnavailable as error:
            self._lose(self._pending, str(error))

    def _lose(self, items: Sequence[Item], why: str) -> None:
        names = ", ".join(map(self._name, items[:NAMED]))
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        _log.error("%d %s were lost: %s: %s%s", len(items), self._what, why, names, more)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait()
            self._wake.clear()
            pause = PAUSE
            while self.pending and not self._ending.wait(pause):
                try:
                    self.flush()
                except StoreUnavailable as error:
                    _log.error("%s wait for the store: %s", self._what, error)
                    pause = RETRY
