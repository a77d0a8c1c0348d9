"""A process that holds leases again and again: ``python -m tests.store.holder WHERE LOG TIMES PLACES…``.

WHERE is JSON for ``open_store``, a place is KEY=AT_ONCE. While it holds them, LOG has a line ``+`` for each; when it
has given them back, ``-``. With TIMES 0 it holds them until it is killed.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from guideway.interpreter.leases import Place
from guideway.interpreter.store import open_store


def where(text: str) -> dict[str, Any]:
    """Return the arguments of ``open_store``."""
    found: dict[str, Any] = json.loads(text)
    return {name: Path(value) if name == "folder" else value for name, value in found.items()}


async def main(store_at: str, log_at: str, times: int, places: list[Place]) -> None:
    """Hold and give back."""
    store, leases = open_store(**where(store_at))
    log = os.open(log_at, os.O_WRONLY | os.O_APPEND)
    for _ in range(times or 1):
        async with leases.hold(places, f"run-{os.getpid()}", 60):
            for place in places:
                os.write(log, f"+ {place.key}\n".encode())
            await (anyio.sleep(0.001) if times else anyio.sleep_forever())
            for place in places:
                os.write(log, f"- {place.key}\n".encode())
    await leases.close()
    await store.close()


if __name__ == "__main__":
    wanted = [Place(key, int(most), key) for key, most in (each.split("=") for each in sys.argv[4:])]
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), wanted)
