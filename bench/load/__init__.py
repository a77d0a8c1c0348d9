"""A thousand callers at once for a minute: what is answered, how soon, what is refused, and that nothing is lost.

``guideway serve --http`` runs as users have it: an issuer, a token for each caller, a store in a folder with the audit
trail in it. Its services are in memory, so that the server is what is measured. The callers are a process of their own
on the same cores (``bench.load.callers``): each calls again as soon as it is answered, and some keep more calls open
than they may. Of the calls 75 in 100 read, 20 are refused (by the syntax, by name), and 5 restart something.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import mean, median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from bench import Figure
from bench.authorization import Issuers
from guideway.server.load_bounds import DEFAULT_BOUNDS

CALLERS: Final = 1_000
SECONDS: Final = 60.0
GREEDY: Final = 10  # of the callers, each with more calls open than it may have
COMING: Final = 5.0  # seconds until all callers have come
EDGE: Final = 15.0  # seconds after that, and at the end, whose memory is compared
MOST_GROWTH: Final = 1.05

READS: Final = ('PING "api.internal"', 'GET_STATUS "s1"', 'IF_RUNNING "s2" THEN { PING "api.internal" }')
REFUSED: Final = ('PING "api.internl"', 'PING "api.internal" THEN')
RESTART: Final = 'TRY {{ IF_RUNNING "{0}" THEN {{ RESTART "{0}" }} }} CATCH {{ GET_STATUS "{0}" }}'
SERVICES: Final = tuple(f"s{number}" for number in range(100))


def main(seconds: float = SECONDS, callers: int = CALLERS) -> list[Figure]:
    """Measure it."""
    with TemporaryDirectory() as folder, Issuers(1) as issuers:
        return measured(Path(folder), issuers, seconds, callers)


def programs() -> list[str]:
    """Return the programs of many calls, well mixed: each hundred has 75 that read, 20 refused, and 5 restarts."""
    mixed = []
    for number in range(100 * len(SERVICES) // 5):
        place = number * 37 % 100
        if place < 75:
            mixed.append(READS[place % len(READS)])
        elif place < 95:
            mixed.append(REFUSED[place % len(REFUSED)])
        else:
            mixed.append(RESTART.format(SERVICES[number // 20 % len(SERVICES)]))
    return mixed


def configuration(folder: Path, issuers: Issuers) -> str:
    """Return the file."""
    services = "".join(
        f'[services.{name}]\ndriver = "memory"\nimpact = "low"\nreversibility = "easy"\nsettle_seconds = 0.05\n'
        for name in SERVICES
    )
    return (
        f'[issuers.few]\nissuer = "{issuers.url("few")}"\n[store]\nfolder = "{folder / "store"}"\n'
        f'[hosts."api.internal"]\nprobe = "memory"\nseconds = 0.005\n{services}'
    )


def measured(folder: Path, issuers: Issuers, seconds: float, callers: int) -> list[Figure]:
    """Serve, let the callers call, stop the server, and compare what both sides have counted."""
    file, log = folder / "guideway.toml", folder / "log"
    file.write_text(configuration(folder, issuers))
    command = [str(Path(sys.executable).with_name("guideway")), "serve", "--http", "127.0.0.1:0", "--json"]
    with (
        log.open("w") as err,
        subprocess.Popen([*command, "--config", str(file)], stdout=subprocess.PIPE, stderr=err, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
            order = ordered(issuers, url, seconds, callers)
            seen, memory, cpu = called(folder, order, server.pid)
        finally:
            server.terminate()
    assert server.returncode == 0, log.read_text()[-2_000:]
    return [
        *answered(seen, seconds),
        *kept(seen, log.read_text(), recorded(folder)),
        *waited(seen, log.read_text()),
        *spent(seen, memory, cpu, min(EDGE, seconds / 4), min(COMING, seconds / 4)),
    ]


def ordered(issuers: Issuers, url: str, seconds: float, callers: int) -> dict[str, Any]:
    """Return what the callers are to do."""
    address = urlsplit(url)
    kinds = ["greedy" if number % (callers // GREEDY) == 0 else "plain" for number in range(callers)]
    return {
        "host": address.hostname,
        "port": address.port,
        "seconds": seconds,
        "programs": programs(),
        "open": {"plain": 1, "greedy": DEFAULT_BOUNDS.calls_at_once_of_caller * 5 // 4},
        "callers": [(kind, issuers.token(url, subject=f"caller-{place}")) for place, kind in enumerate(kinds)],
    }


def called(folder: Path, order: dict[str, Any], pid: int) -> tuple[dict[str, Any], list[tuple[float, int]], float]:
    """Run the callers; return what they saw, the server's memory by the second, and the processor time it took."""
    (folder / "order").write_text(json.dumps(order))
    memory: list[tuple[float, int]] = []
    over = threading.Event()

    def watch() -> None:
        since = time.monotonic()
        while not over.wait(0.5):
            memory.append((time.monotonic() - since, resident(pid)))

    watching = threading.Thread(target=watch)
    before = processor_seconds(pid)
    watching.start()
    try:
        command = [sys.executable, "-m", "bench.load.callers", str(folder / "order")]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        over.set()
        watching.join()
    return json.loads(told), memory, processor_seconds(pid) - before


def resident(pid: int) -> int:
    """Return the memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, in all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def recorded(folder: Path) -> set[str]:
    """Return the runs that the audit trail has a record of."""
    [file] = [file for file in (folder / "store").iterdir() if file.name.endswith((".sqlite", ".sqlite3", ".db"))]
    connection = sqlite3.connect(file)
    try:
        return {run for (run,) in connection.execute("SELECT DISTINCT run_id FROM guideway_trail") if run}
    finally:
        connection.close()


def answered(seen: dict[str, Any], seconds: float) -> list[Figure]:
    """Return what was answered."""
    statuses = dict(sorted(seen["statuses"].items()))
    total = sum(statuses.values())
    errors = sum(times for status, times in statuses.items() if not status.startswith(("200 ", "429 ", "503 ")))
    return [
        Figure("calls answered", f"{total:,} in {seconds:.0f} s, {total / seconds:,.0f} a second"),
        *(Figure(f"  {status}", f"{times:,}") for status, times in statuses.items()),
        Figure("calls sent and not answered", str(len(seen["lost"])), "0", not seen["lost"]),
        *(Figure(f"  {why}", str(times)) for why, times in Counter(seen["lost"]).most_common(5)),
        Figure("errors other than 429 and 503", str(errors), "0", not errors),
    ]


def kept(seen: dict[str, Any], log: str, trail: set[str]) -> list[Figure]:
    """Return what one side has of the other's runs."""
    runs = set(seen["runs"])
    ended = set(re.findall(r"run ([0-9a-f-]{36}): ", log))
    missed = {
        "runs answered that the server's log does not have": runs - ended,
        "runs that the server's log has and nobody was told of": ended - runs,
        "runs answered that the audit trail does not have": runs - trail,
    }
    return [Figure(what, str(len(found)), "0", not found) for what, found in missed.items()]


def waited(seen: dict[str, Any], log: str) -> list[Figure]:
    """Return how long calls took."""
    lines = []
    for kind, each in sorted(seen["seconds"].items()):
        p99 = quantiles(each, n=100)[98]
        value = f"{median(each) * 1000:,.0f} ms, {p99 * 1000:,.0f} ms, {max(each) * 1000:,.0f} ms"
        lines.append(Figure(f"a call of a {kind} caller: median, p99, longest", value))
    wait = re.search(r"the longest wait for a place was ([0-9.]+) s", log)
    return [*lines, Figure("the longest wait for a place", f"{float(wait[1]):.2f} s" if wait else "not told")]


def spent(
    seen: dict[str, Any], memory: list[tuple[float, int]], cpu: float, edge: float, coming: float
) -> list[Figure]:
    """Return what it took of the machine. ``edge`` are the seconds at either end whose memory is compared."""
    first = mean(size for at, size in memory if coming <= at <= coming + edge)
    last = mean(size for at, size in memory if at >= memory[-1][0] - edge)
    sizes = f"{first / 1e6:.1f} MB, {last / 1e6:.1f} MB"
    return [
        Figure(f"memory of the server, the first {edge:.0f} s and the last", sizes),
        Figure("  ratio", f"{last / first:.3f}", f"<= {MOST_GROWTH}", last <= first * MOST_GROWTH),
        Figure("  every tenth of the time", " ".join(f"{size / 1e6:.0f}" for _, size in memory[:: len(memory) // 10])),
        Figure("processor time of the server, of the callers", f"{cpu:.0f} s, {seen['cpu']:.0f} s"),
        Figure("load of the machine at the end (1 minute)", f"{os.getloadavg()[0]:.1f}"),
    ]
