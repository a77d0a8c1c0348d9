"""Many reads in one program: 500 over 50 hosts that each take 20 ms, against what so many at once allow.

In turns over the hosts, and host by host, where ten reads of one wait for each other. Beside them the same with nothing
begun ahead; what one PING costs by itself, in a small inventory, in one of 10,000 services and in one with patterns
of names; and how long a
configuration of 10,000 services takes to load, against what `tomllib` alone takes for the file.
"""

import math
import tempfile
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time

import anyio

from bench import Figure
from guideway.dsl.patterns import read_pattern
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.interpreter.drivers.base import Echo
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.fleet import HostPattern
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.reads import READS_OF_A_PROGRAM
from guideway.interpreter.risk import HARMLESS
from guideway.interpreter.service import Service
from guideway.server import config, wiring

READS, HOSTS, SECONDS = 500, 50, 0.02
MOST = 1.3
RUNS = 5
SERVICES = 10_000
PATTERNS = 50
CALLER = Principal("bench", PROGRAM_SCOPES)


def main() -> list[Figure]:
    """Measure reads, a call, and loading."""
    return [*anyio.run(reads), *anyio.run(calls), *loading()]


class Takes:
    """A host that answers after its time, by the clock of the loop."""

    async def probe(self) -> Echo:
        """Answer."""
        await anyio.sleep(SECONDS)
        return Echo("bench", SECONDS)


async def reads() -> list[Figure]:
    """Return the figures of a program of many reads."""
    each = READS // HOSTS
    in_turns = [f"host-{number % HOSTS}" for number in range(READS)]
    # By hosts, ten reads in a row of each: a host's reads follow each other, so rounds of hosts are what can be done.
    rounds = math.ceil(HOSTS / READS_OF_A_PROGRAM) * each
    cases = (
        ("in turns over the hosts", in_turns, READS / READS_OF_A_PROGRAM * SECONDS),
        ("host by host", sorted(in_turns), rounds * SECONDS),
    )
    figures = []
    inventory = Inventory(Host(f"host-{number}", Takes()) for number in range(HOSTS))
    for case, names, allowed in cases:
        program = " ".join(f'PING "{name}"' for name in names)
        took = [await seconds_of(Pipeline(inventory), program) for _ in range(RUNS)]
        ratio = median(took) / allowed
        what = f"{READS} reads, {HOSTS} hosts, {SECONDS * 1000:g} ms each, {case}"
        figures += [
            Figure(f"{what}: {READS_OF_A_PROGRAM} at once allow", f"{allowed:.3f} s"),
            Figure(f"{what}: guideway", f"{median(took):.3f} s"),
            Figure(f"{what}: ratio", f"{ratio:.2f}", f"at most {MOST}", ratio <= MOST),
        ]
    alone = await seconds_of(Pipeline(inventory, reads_at_once=1), " ".join(f'PING "{name}"' for name in in_turns))
    return [*figures, Figure("the same, nothing begun ahead", f"{alone:.2f} s")]


async def seconds_of(pipeline: Pipeline, program: str) -> float:
    """Run a program; return how long it took."""
    since = perf_counter()
    report = await pipeline.run(program, CALLER)
    assert report.status == "completed"
    return perf_counter() - since


async def calls() -> list[Figure]:
    """Return what one command costs, with few names, with many, and with names that patterns mean."""
    hosts = [Host("api.internal", MemoryProbe())]
    few = Pipeline(Inventory(hosts, [Service("unit-0", MemoryDriver(), risk=HARMLESS)]))
    many = Pipeline(Inventory(hosts, [Service(f"unit-{number}", MemoryDriver()) for number in range(SERVICES)]))
    patterns = [HostPattern(read_pattern(f"web{number}-*.prod"), _host) for number in range(PATTERNS)]
    fleet = Pipeline(Inventory(hosts, [Service("unit-0", MemoryDriver(), risk=HARMLESS)], host_patterns=patterns))
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "one PING, 1 service": lambda: few.run('PING "api.internal"', CALLER),
        f"one PING, {SERVICES:,} services": lambda: many.run('PING "api.internal"', CALLER),
        f"one PING, {PATTERNS} patterns beside it": lambda: fleet.run('PING "api.internal"', CALLER),
        f"one PING of a name that one of {PATTERNS} patterns means": lambda: fleet.run('PING "web7-3.prod"', CALLER),
    }
    spent: dict[str, list[float]] = {what: [] for what in ways}
    for number in range(-100, 2_000):
        for what in ways if number % 2 else reversed(ways):
            since = thread_time()
            await ways[what]()
            if number >= 0:
                spent[what].append(thread_time() - since)
    base, large, beside, meant = (median(times) for times in spent.values())
    return [
        *(Figure(f"{what}, in process", f"{median(times) * 1e6:.0f} us") for what, times in spent.items()),
        Figure("many services / one", f"{large / base:.2f}", "at most 1.05", large / base <= 1.05),
        Figure("patterns beside it / none", f"{beside / base:.2f}", "at most 1.05", beside / base <= 1.05),
        Figure("a name that a pattern means / a name of its own", f"{meant / base:.2f}"),
    ]


def _host(name: str, _: tuple[str, ...]) -> Host:
    return Host(name, MemoryProbe())


def loading() -> list[Figure]:
    """Return how long it takes until a pipeline of many configured services is there."""
    tables = {
        "systemd": 'driver = "systemd"\nunit = "unit-{0}.service"\n',
        "supervisord, with a health check": (
            'driver = "supervisord"\nsocket = "/run/supervisor.sock"\nprogram = "unit-{0}"\n'
            'health = {{ probe = "tcp", address = "10.0.0.1", port = 5432 }}\n'
        ),
    }
    figures = []
    for what, table in tables.items():
        text = "".join(f"[services.unit-{number}]\n{table.format(number)}" for number in range(SERVICES))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "guideway.toml")
            file.write_text(text)
            load = median(timed(lambda file=file: wiring.build(config.load(file))) for _ in range(RUNS))  # type: ignore[misc]
        parse = median(timed(lambda text=text: tomllib.loads(text)) for _ in range(RUNS))  # type: ignore[misc]
        case = f"{SERVICES:,} services of {what}"
        figures += [
            Figure(f"{case}: tomllib alone", f"{parse:.2f} s"),
            Figure(f"{case}: loaded", f"{load:.2f} s", "under 1 s", load < 1),
        ]
    return figures


def timed(work: Callable[[], object]) -> float:
    """Do something; return how long it took."""
    since = perf_counter()
    work()
    return perf_counter() - since
