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

MOST: Final = 10_000
"""Items that wait while the store cannot be used; of more, the oldest are lost, and said to be."""


class Soon(Generic[Item]):
    """Keeps items by ``write``, which is called in a thread and raises ``StoreUnavailable`` where it cannot."""

    def __init__(self, what: str, write: Callable[[Sequence[Item]], None]) -> None:
        self._what = what
        self._write = write
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
        if self._ending.is_set():
            self._lose(items, "the store is closed")
            return
        with self._lock:
            self._pending.extend(items)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"store of {self._what}", daemon=True)
                self._thread.start()
        if not self._wake.is_set():
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
                    lost = len(self._pending) - MOST
                    if lost > 0:
                        del self._pending[:lost]
                if lost > 0:
                    _log.error("%d %s were lost: the store cannot be used and too many wait", lost, self._what)
                raise

    def close(self) -> None:
        """Write what waits, and end the thread. What cannot be written is logged, and lost."""
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.flush()
        except StoreUnavailable as error:
            self._lose(self._pending, str(error))

    def _lose(self, items: Sequence[Item], why: str) -> None:
        _log.error("%d %s were lost: %s", len(items), self._what, why)
        for item in items:
            _log.error("lost of %s: %r", self._what, item)

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
