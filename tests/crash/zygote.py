"""A process that has loaded everything and forks replicas from itself: ``python -m tests.crash.zygote ORDER``.

On standard input a line is an order, and standard output has a line once it is done: ``fork NUMBER SEED BEGAN``,
``kill NUMBER``, ``hold-all NUMBER``. It has no thread, no event loop and no database before a fork, nor ever after.
When its input ends it kills what is left, and ends.

ORDER is JSON: ``where`` the store is, the file of the ``truth``, ``reads_without_trail``, and one of ``faults``, or an
empty ``fault``.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio

# What the first call of a store would load.
import psycopg  # noqa: F401
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite  # noqa: F401

import guideway.interpreter.store.calls
import guideway.interpreter.store.database
import guideway.interpreter.store.work  # noqa: F401
from guideway.interpreter.leases import Busy, Place
from guideway.interpreter.store import soon, stored_trail
from guideway.interpreter.store.sql_leases import SqlLeases
from tests.crash.faults import FAULTS
from tests.crash.load import Load
from tests.crash.truth import Truth, Writer
from tests.crash.world import AT_ONCE, LEASE_SECONDS, open_world
from tests.store.holder import where


async def replica(order: dict[str, Any], number: int, seed: int, began: float) -> None:
    """Run the load for ever."""
    writer, random = Writer(Path(order["truth"]), number), Random(seed)
    world = open_world(where(order["where"]), writer, random, reads_without_trail=order["reads_without_trail"])
    await Load(world, writer, random, began).run()


async def hold_all(order: dict[str, Any], number: int) -> None:
    """Hold whatever those who died may have held: of files at once, of rows when the time of a lease is over."""
    writer, truth = Writer(Path(order["truth"]), number), Truth(Path(order["truth"]))
    truth.read()
    places = {key: Place(f"service {key}", 1, key) for key in {effect.key for effect in truth.effects}}
    places |= {bound: Place(bound, most, bound) for bound, most in AT_ONCE.items()}
    world = open_world(where(order["where"]), writer, Random(0))
    if isinstance(world.leases, SqlLeases):
        await anyio.sleep(LEASE_SECONDS)
    while places:
        some = list(places)[:100]
        try:
            async with world.leases.hold([places[name] for name in some], f"afterwards-{number}", wait=0.0):
                writer.write("freed", places=some)
        except Busy as busy:
            some = [str(busy.waited.label)]
            writer.write("stuck", place=some[0])
        for name in some:
            del places[name]
    await world.close()


def fork(order: dict[str, Any], number: int, main: Callable[..., Awaitable[None]], *arguments: object) -> int:
    """Fork a process; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        anyio.run(main, order, number, *arguments)
        os._exit(0)
    except BaseException:  # noqa: BLE001  # a replica does not end by itself
        Writer(Path(order["truth"]), number).write("failed", error=traceback.format_exc())
    finally:
        os._exit(1)


def main(order: dict[str, Any]) -> None:
    """Follow orders."""
    if order["fault"]:
        FAULTS[order["fault"]]()
    stored_trail.RETRY = soon.RETRY = 0.5  # type: ignore[misc]
    gc.collect()
    gc.freeze()  # what is collected in a child would be copied first
    children: dict[int, int] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["fork", number, seed, began]:
                children[int(number)] = fork(order, int(number), replica, int(seed), float(began))
            case ["hold-all", number]:
                os.waitpid(fork(order, int(number), hold_all), 0)
            case ["kill", number]:
                _kill(children.pop(int(number)))
            case words:
                raise ValueError(words)
        print("done", flush=True)
    for child in children.values():
        _kill(child)


def _kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
