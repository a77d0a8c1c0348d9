"""Proofs of possession that replicas remember together. This module loads no database."""

import time
from typing import Final

from guideway.interpreter.store.opened import Opened

PRUNE_SECONDS: Final = 30.0
"""Seconds after which a process that is shown proofs clears away those that have expired."""


class StoredProofs:
    """Proofs that were shown to whichever replica; ``put`` may raise ``StoreUnavailable``."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._pruned = time.monotonic()

    async def put(self, digest: str, until: float) -> bool:
        """Remember a proof until a time; say whether no replica has been shown it, and the time is to come."""
        is_first = await self._opened.add(lambda calls, connection: calls.put_proof(connection, digest, until))
        if time.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = time.monotonic()
            await self._opened.change(lambda calls, connection: calls.prune_proofs(connection))
        return is_first
