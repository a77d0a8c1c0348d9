"""The programs that the demo's supervisord runs: a database, a cache, a web API that needs the database, and a worker.

Each is a real server on loopback, small enough to read. The API's health check answers 503 while the database does not
accept connections, as such health checks do. The worker cannot start without the cache. All of them end when
their supervisor is gone, so that nothing is left behind.
"""

import argparse
import asyncio
import os
import signal
import sys

LOOPBACK = "127.0.0.1"


async def serve_store(port: int) -> asyncio.Server:
    """Serve a key-value store: one command a line, ``GET key``, ``SET key value`` or ``PING``."""
    values: dict[str, str] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            match line.decode(errors="replace").split():
                case ["GET", key]:
                    answer = values.get(key, "")
                case ["SET", key, value]:
                    values[key] = value
                    answer = "OK"
                case ["PING"]:
                    answer = "PONG"
                case _:
                    answer = "ERROR"
            writer.write(f"{answer}\n".encode())
            await writer.drain()
        writer.close()

    return await asyncio.start_server(talk, LOOPBACK, port)


async def serve_api(port: int, database_port: int) -> asyncio.Server:
    """Serve ``GET /health``: 200 where the database accepts connections, else 503."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        while (await reader.readline()).strip():
            pass  # the headers say nothing that matters here
        if not request.startswith(b"GET /health "):
            status, body = "404 Not Found", "no such page"
        elif await _accepts(database_port):
            status, body = "200 OK", "healthy"
        else:
            status, body = "503 Service Unavailable", "the database does not answer"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(talk, LOOPBACK, port)


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(LOOPBACK, port), timeout=1)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _run(options: argparse.Namespace) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server: asyncio.Server | None = None
    match options.role:
        case "store":
            server = await serve_store(options.port)
        case "api":
            server = await serve_api(options.port, options.needs)
        case "worker":
            if not await _accepts(options.needs):
                print("worker: the cache does not answer; giving up", file=sys.stderr)
                return 1
        case unknown:
            raise ValueError(unknown)
    supervisor = os.getppid()
    while not stopped.is_set() and os.getppid() == supervisor:
        try:
            await asyncio.wait_for(stopped.wait(), timeout=0.5)
        except TimeoutError:
            continue
    if server is not None:
        server.close()
    return 0


def main() -> int:
    """Run one of the programs until it is told to stop."""
    parser = argparse.ArgumentParser(prog="python -m guideway.server.demo.processes", description=__doc__)
    parser.add_argument("role", choices=["store", "api", "worker"])
    parser.add_argument("--port", type=int, default=0, help="where to listen")
    parser.add_argument("--needs", type=int, default=0, help="the port of the service that this one cannot do without")
    return asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
