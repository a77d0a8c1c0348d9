"""Callers of ``bench.load``, in a process of their own that is light enough not to be what is measured.

``python -m bench.load.callers FILE`` reads what to do from a file of JSON, and writes what came of it to standard
output. Each caller keeps one connection and one call open; a greedy one keeps many. Whoever is told to come again later
does.
"""

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

_ANSWER_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 4.0
_HEAD: Final = """\
POST /mcp HTTP/1.1
Host: {host}
Authorization: Bearer {token}
Accept: application/json, text/event-stream
Content-Type: application/json
MCP-Protocol-Version: 2026-07-28
Mcp-Method: tools/call
Mcp-Name: execute_diagnostic_pipeline
Content-Length: """
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Seen:
    """What came of all calls."""

    sent: int = 0
    lost: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    runs: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    retries_told: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {"plain": Counter(), "greedy": Counter()})


class Caller:
    """One connection of one caller."""

    def __init__(self, order: dict[str, Any], kind: str, token: str, seen: Seen) -> None:
        self._at = order["host"], order["port"]
        self._head = _HEAD.format(host="{}:{}".format(*self._at), token=token).replace("\n", "\r\n").encode()
        self._kind = kind
        self._programs = order["programs"]
        self._seen = seen
        self._numbers = count(1)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def go(self, first: int, ends: float) -> None:
        """Call until it is time to end."""
        turn = first
        while time.monotonic() < ends:
            turn += 1
            await self._call(self._programs[turn % len(self._programs)], ends)
        if self._streams is not None:
            self._streams[1].close()

    async def _call(self, program: str, ends: float) -> None:
        seen, number = self._seen, next(self._numbers)
        params = {"name": "execute_diagnostic_pipeline", "arguments": {"program": program}, "_meta": _META}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
        since = time.monotonic()
        seen.sent += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                status, headers, answer = await self._exchange(body)
        except (OSError, EOFError, TimeoutError) as error:
            self._streams = None
            seen.lost.append(f"{type(error).__name__}: {error}")
            return
        message = json.loads(answer)
        if message.get("id") != number:
            seen.lost.append(f"the answer of {number} has the id {message.get('id')}")
        if status == "200" and "result" in message:
            report = message["result"].get("structuredContent", {})
            seen.runs.append(report.get("run_id", ""))
            seen.statuses[f"200 {report.get('status')}"] += 1
            seen.seconds[self._kind].append(time.monotonic() - since)
            seen.counts[self._kind]["200"] += 1
            return
        seen.statuses[f"{status} {message.get('error', {}).get('data', {}).get('bound', answer[:100])}"] += 1
        seen.counts[self._kind][status] += 1
        if "retry-after" in headers:
            seen.retries_told += 1
            seconds = float(headers["retry-after"])
            if seconds >= _IDLE_SECONDS and self._streams is not None:  # the server would close it meanwhile
                self._streams[1].close()
                self._streams = None
            await asyncio.sleep(min(seconds, max(0.0, ends - time.monotonic())))

    async def _exchange(self, body: bytes) -> tuple[str, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._at)
        reader, writer = self._streams
        writer.write(self._head + str(len(body)).encode() + b"\r\n\r\n" + body)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            if "content-length" in headers:
                answer = await reader.readexactly(int(headers["content-length"]))
            else:
                answer = b"".join([chunk async for chunk in _chunks(reader)])
        except BaseException:
            writer.close()
            raise
        if headers.get("connection") == "close":
            writer.close()
            self._streams = None
        if headers.get("content-type", "").startswith("text/event-stream"):
            answer = next(line[6:] for line in answer.splitlines() if line.startswith(b"data: {"))
        return head[0].split(" ")[1], headers, answer


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readline()


async def run(order: dict[str, Any]) -> Seen:
    """Let all callers call."""
    seen = Seen()
    ends = time.monotonic() + order["seconds"]
    async with asyncio.TaskGroup() as tasks:
        for place, (kind, token) in enumerate(order["callers"]):
            for number in range(order["open"][kind]):
                caller = Caller(order, kind, token, seen)
                tasks.create_task(caller.go(place + number, ends))
            if place % 20 == 19:
                await asyncio.sleep(0.02)  # not all in one instant: a listener's backlog is short
    return seen


def main() -> None:
    """Read the order, call, and tell."""
    seen = asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
    json.dump(
        {
            "sent": seen.sent,
            "lost": seen.lost,
            "statuses": seen.statuses,
            "runs": seen.runs,
            "seconds": seen.seconds,
            "retries_told": seen.retries_told,
            "counts": seen.counts,
            "cpu": time.process_time(),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
