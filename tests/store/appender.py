"""A process that adds to a trail: ``python -m tests.store.appender WHERE NAME TIMES``, a record a transaction.

WHERE is JSON for ``open_store``. With TIMES 0 it goes on until it is killed.
"""

import itertools
import sys

import anyio

from guideway.interpreter.store import open_store
from tests.store.holder import where
from tests.store.trails import entry


async def main(store_at: str, name: str, times: int) -> None:
    """Add records."""
    store, _ = open_store(**where(store_at))
    for number in range(times) if times else itertools.count():
        store.trail.put([entry(number, by=name)])
        await store.trail.written()
        print(number, flush=True)
    await store.close()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
