"""Status through each driver over SSH, beside the same on this machine and a plain client through OpenSSH's own tunnel.

The tunnel is `ssh -L` from one unix socket to the other, open all the time. In turns, on one sshd. Medians.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
from dbus_fast.aio import MessageBus
from tests.system.sshd import ME, Sshd
from tests.system.supervisord import Supervisord, wait_for
from tests.system.systemd import Systemd

from bench import Figure
from bench.drivers import STATUSES, UNIT, UNITS, Ask, PlainSystemd, compare, plain_supervisord
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.systemd import SystemdOptions
from guideway.interpreter.drivers.ways import HERE, SocketOptions


def main() -> list[Figure]:
    """Measure what can be started here."""
    if shutil.which("sshd") is None and not Path("/usr/sbin/sshd").exists():
        return [Figure("ssh", "needs an sshd")]
    figures: list[Figure] = []
    with Sshd() as sshd:
        with Supervisord({"good": ["sleep", "1000"]}) as supervisord:
            supervisord.run("good")
            figures += anyio.run(on_supervisord, supervisord, sshd)
        if os.geteuid() != 0 or shutil.which("systemd-nspawn") is None:
            return [*figures, Figure("systemd over SSH", "needs root and systemd-nspawn")]
        with Systemd(UNITS) as systemd:
            systemd.run(UNIT)
            figures += anyio.run(on_systemd, systemd, sshd)
    return figures


async def on_supervisord(world: Supervisord, sshd: Sshd) -> list[Figure]:
    """Return the figures of a program."""
    options = SupervisordOptions(program="good", socket=world.socket, ssh="there")
    with tunnel(sshd, world.socket) as near, plain_supervisord(near) as client:

        async def plain() -> object:
            return client.supervisor.getProcessInfo("good")

        return await three("supervisord", options, sshd, plain)


async def on_systemd(world: Systemd, sshd: Sshd) -> list[Figure]:
    """Return the figures of a unit."""
    options = SystemdOptions(unit=UNIT, bus=world.bus, ssh="there")
    with tunnel(sshd, world.bus) as near:
        plain = PlainSystemd(await MessageBus(f"unix:path={near}").connect())
        figures = await three("systemd", options, sshd, plain.status)
        plain.bus.disconnect()
    return figures


async def three(what: str, options: SocketOptions, sshd: Sshd, plain: Ask) -> list[Figure]:
    """Compare a driver over SSH with a plain client through the tunnel, and with the driver of this machine."""
    far, here = options.build_over(sshd.way()), options.build_over(HERE)
    figures = await compare(f"{what} over SSH: status", STATUSES, plain, far.observe)
    local = await compare(f"{what} here: status", STATUSES, here.observe, here.observe)
    await far.close()
    await here.close()
    return [*figures, Figure(f"{what} here: status: the driver", local[1].value)]


@contextlib.contextmanager
def tunnel(sshd: Sshd, socket: Path) -> Iterator[Path]:
    """Keep OpenSSH's own tunnel to a socket open; return its near end."""
    near = sshd.folder / "near"
    options = ("-F", "none", "-o", f"UserKnownHostsFile={sshd.known_hosts}", "-o", "ExitOnForwardFailure=yes")
    words = ["ssh", "-N", *options, "-i", str(sshd.key), "-p", str(sshd.port), "-L", f"{near}:{socket}"]
    running = subprocess.Popen([*words, f"{ME}@127.0.0.1"], stdin=subprocess.DEVNULL)
    try:
        wait_for(near.exists, "the tunnel to be open")
        yield near
    finally:
        running.terminate()
        running.wait()
        near.unlink(missing_ok=True)
