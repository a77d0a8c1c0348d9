"""Many who ask the store at once are answered by one look: five hundred that wait for a person cost as one does."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

import anyio

from guideway.interpreter.records import StoreUnavailable

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Look(Generic[Key, Value]):
    """What was asked for together, and once it is over what was found, or why nothing could be."""

    def __init__(self) -> None:
        self.keys = set[Key]()
        self.found: Mapping[Key, Value] | None = None
        self.error: StoreUnavailable | None = None

    @property
    def is_over(self) -> bool:
        return self.found is not None or self.error is not None


class Together(Generic[Key, Value]):
    """Looks for whatever is asked for. Who asks while it looks is answered by the next look: it begins later.

    ``look`` takes keys, and the time of whoever came first.
    """

    def __init__(self, look: Callable[[Collection[Key], float], Awaitable[Mapping[Key, Value]]]) -> None:
        self._look = look
        self._next = _Look[Key, Value]()
        self._turn = anyio.Lock()

    async def get(self, key: Key, now: float) -> Value | None:
        """Return what there is under a key. Raises ``StoreUnavailable``."""
        look = self._next
        look.keys.add(key)
        async with self._turn:
            if not look.is_over:  # nor is it where whoever came first was cancelled
                if look is self._next:
                    self._next = _Look()
                try:
                    look.found = await self._look(look.keys, now)
                except StoreUnavailable as error:
                    look.error = error
        if look.error is not None:
            raise StoreUnavailable(str(look.error)) from look.error
        return (look.found or {}).get(key)
