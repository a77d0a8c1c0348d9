"""Pings hosts where it is started, all at once, as a walk does: a program for tests, run in network namespaces.

Reads JSON from standard input: by any key, a probe with its options and the seconds that it has. Writes ``asking``,
and when all are over a line of JSON with what came of each, by the same keys.
"""

import json
import sys
import time
from typing import Any

import anyio

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.inventory import Host
from guideway.interpreter.probes import PROBES


async def main() -> None:
    asked: dict[str, dict[str, Any]] = json.loads(sys.stdin.readline())
    found: dict[str, dict[str, Any]] = {}

    async def ping(key: str, probe: str, seconds: float, options: dict[str, Any]) -> None:
        host = Host("host", PROBES[probe].model_validate(options).build())
        began = time.monotonic()
        try:
            echo = await host.ping(seconds)
            found[key] = {"reason": "", "message": "", "method": echo.method, "seconds": echo.seconds}
        except Fault as fault:
            found[key] = {"reason": fault.reason, "message": fault.message}
        found[key]["took"] = time.monotonic() - began

    async with anyio.create_task_group() as tasks:
        for key, arguments in asked.items():
            tasks.start_soon(ping, key, arguments["probe"], arguments["seconds"], arguments["options"])
        await anyio.sleep(0.1)
        sys.stdout.write("asking\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    anyio.run(main)
