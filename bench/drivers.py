"""Status and restart through each driver, against the plainest client of the same service manager.

systemd: a dbus-fast client that asks for the same properties, and for the same job and then for the properties again,
since a job that is done is no answer; and `systemctl`, which runs in the container beside it, and whose restart does
not look. supervisord: its own XML-RPC client. Docker and Podman: the standard library's HTTP client, which looks after
a restart too; and the `docker` command, whose restart does not. Each plain client keeps its connection, as the drivers
do. All in turns, against services that start at once. Medians, and the load of the machine.
"""

import contextlib
import json
import os
import shutil
import subprocess
import xmlrpc.client
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import anyio
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from supervisor.xmlrpc import SupervisorTransport
from tests.system.engines import KINDS, NEEDS, Connection, Engine
from tests.system.machine import program
from tests.system.supervisord import Supervisord
from tests.system.systemd import Systemd

from bench import Figure
from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import ServiceDriver

STATUSES, RESTARTS = 300, 40
MOST = 1.2
UNIT = "good.service"
UNITS = {UNIT: "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep 100000\n"}
SYSTEMD = "org.freedesktop.systemd1"

Ask = Callable[[], Awaitable[object]]


def main() -> list[Figure]:
    """Measure each service manager that can be started here."""
    figures = [Figure("load of the machine before", f"{os.getloadavg()[0]:.2f}")]
    with Supervisord({"good": ["sleep", "1000"]}) as supervisord:
        supervisord.run("good")
        figures += anyio.run(on_supervisord, supervisord)
    for kind in KINDS:
        if os.geteuid() != 0 or not all(map(program, NEEDS[kind])):
            figures.append(Figure(kind, f"needs root, {', '.join(NEEDS[kind])}"))
            continue
        with Engine(kind, {"quick": {"Cmd": ["sleep", "100000"], "StopTimeout": 0}}) as engine:
            engine.run("quick")
            figures += anyio.run(on_engine, engine)
            figures += by_docker(engine)
    if os.geteuid() != 0 or shutil.which("systemd-nspawn") is None:
        return [*figures, Figure("systemd", "needs root and systemd-nspawn")]
    with Systemd(UNITS) as systemd:
        systemd.run(UNIT)
        figures += anyio.run(on_systemd, systemd)
        figures += by_systemctl(systemd)
    return figures


async def on_supervisord(world: Supervisord) -> list[Figure]:
    """Return the figures of programs of a supervisord."""
    driver = DRIVERS["supervisord"].model_validate({"program": "good", "socket": str(world.socket)}).build()
    with plain_supervisord(world.socket) as client:

        async def status() -> object:
            return client.supervisor.getProcessInfo("good")

        async def restart() -> object:
            client.supervisor.stopProcess("good", True)
            return client.supervisor.startProcess("good", True)

        figures = await compare("supervisord: status", STATUSES, status, driver.observe)
        figures += await compare("supervisord: restart", RESTARTS, restart, restarting(driver))
    await driver.close()
    return figures


@contextlib.contextmanager
def plain_supervisord(socket: Path) -> Iterator[Any]:
    """Return supervisord's own client, on a connection that it keeps."""
    transport = SupervisorTransport(None, None, f"unix://{socket}")
    with xmlrpc.client.ServerProxy("http://localhost", transport) as client:
        yield client


async def on_systemd(world: Systemd) -> list[Figure]:
    """Return the figures of units of a systemd."""
    driver = DRIVERS["systemd"].model_validate({"unit": UNIT, "bus": str(world.bus)}).build()
    plain = await PlainSystemd.connected(world)
    figures = await compare("systemd: status", STATUSES, plain.status, driver.observe)
    figures += await compare("systemd: restart", RESTARTS, plain.restart, restarting(driver))
    plain.bus.disconnect()
    await driver.close()
    return figures


async def on_engine(world: Engine) -> list[Figure]:
    """Return the figures of containers of an engine."""
    driver = DRIVERS["container"].model_validate({"container": "quick", "socket": str(world.socket)}).build()
    plain = Connection(world.socket)

    def asked(method: str, path: str) -> bytes:
        plain.request(method, f"/v1.41/containers/quick/{path}")
        return plain.getresponse().read()

    async def status() -> object:
        return json.loads(asked("GET", "json"))

    async def restart() -> object:
        asked("POST", "restart?t=0")
        return json.loads(asked("GET", "json"))

    figures = await compare(f"{world.kind}: status", STATUSES, status, driver.observe)
    figures += await compare(f"{world.kind}: restart", RESTARTS, restart, restarting(driver))
    plain.close()
    await driver.close()
    return figures


def by_docker(world: Engine) -> list[Figure]:
    """Return what the command takes, one process a call."""
    figures = []
    for what, runs, words in (
        ("status", STATUSES // 10, ("inspect", "quick")),
        ("restart", RESTARTS // 2, ("restart", "quick")),
    ):
        command = ["docker", "--host", f"unix://{world.socket}", *words]
        if shutil.which("docker") is None:
            return []
        spent = []
        for _ in range(runs):
            since = perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            spent.append(perf_counter() - since)
        figures.append(Figure(f"{world.kind}: {what}: docker {words[0]}", f"{median(spent) * 1000:.2f} ms"))
    return figures


class PlainSystemd:
    """What one writes who wants a unit's state, or its restart and when that is done, and nothing else."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self._ended: set[str] = set()
        self._news = anyio.Event()
        bus.add_message_handler(self._heard)

    @classmethod
    async def connected(cls, world: Systemd) -> "PlainSystemd":
        """Return a client that listens for the ends of jobs."""
        plain = cls(await MessageBus(f"unix:path={world.bus}").connect())
        bus = "org.freedesktop.DBus"
        rule = f"type='signal',sender='{SYSTEMD}',member='JobRemoved'"
        await plain._call("AddMatch", "s", rule, path="/org/freedesktop/DBus", interface=bus, to=bus)
        return plain

    async def status(self) -> object:
        """Return a unit's properties."""
        path = "/org/freedesktop/systemd1/unit/good_2eservice"
        return await self._call("GetAll", "s", "", path=path, interface="org.freedesktop.DBus.Properties")

    async def restart(self) -> object:
        """Restart a unit, wait for the job, and look."""
        path, interface = "/org/freedesktop/systemd1", f"{SYSTEMD}.Manager"
        (job,) = await self._call("RestartUnit", "ss", UNIT, "replace", path=path, interface=interface)
        while job not in self._ended:
            await self._news.wait()
        return await self.status()

    async def _call(self, member: str, signature: str, *body: str, path: str, interface: str, to: str = SYSTEMD) -> Any:
        reply = await self.bus.call(
            Message(destination=to, path=path, interface=interface, member=member, signature=signature, body=list(body))
        )
        assert reply.message_type is MessageType.METHOD_RETURN, reply.body
        return reply.body

    def _heard(self, message: Message) -> None:
        if message.member == "JobRemoved":
            self._ended.add(message.body[1])
            self._news.set()
            self._news = anyio.Event()


def restarting(driver: ServiceDriver) -> Ask:
    """Return a restart through a driver, until its service manager says that it is done."""
    return lambda: driver.restart(lambda _: None, anyio.current_time() + 60)


async def compare(what: str, runs: int, plain: Ask, ours: Ask) -> list[Figure]:
    """Do both in turns; return what each takes, and the ratio."""
    spent: dict[Ask, list[float]] = {plain: [], ours: []}
    for run in range(-5, runs):
        for ask in (plain, ours) if run % 2 else (ours, plain):
            since = perf_counter()
            await ask()
            if run >= 0:
                spent[ask].append(perf_counter() - since)
    base, took = median(spent[plain]), median(spent[ours])
    return [
        Figure(f"{what}: a plain client", f"{base * 1000:.2f} ms"),
        Figure(f"{what}: the driver", f"{took * 1000:.2f} ms"),
        Figure(f"{what}: ratio", f"{took / base:.2f}", f"at most {MOST}", took / base <= MOST),
    ]


def by_systemctl(world: Systemd) -> list[Figure]:
    """Return what the command takes in the container, one process a call."""
    figures = []
    for what, runs, command in (
        ("status", STATUSES // 3, f"systemctl show {UNIT}"),
        ("restart", RESTARTS, f"systemctl restart {UNIT}"),
    ):
        loop = f"date +%s%N; i=0; while [ $i -lt {runs} ]; do {command} >/dev/null; i=$((i+1)); done; date +%s%N"
        ran = subprocess.run(
            ["nsenter", "-t", str(world.leader()), "-a", "sh", "-ec", loop], check=True, capture_output=True, text=True
        )
        began, ended = (int(line) for line in ran.stdout.split())
        figures.append(Figure(f"systemd: {what}: systemctl, mean", f"{(ended - began) / runs / 1e6:.2f} ms"))
    return figures
