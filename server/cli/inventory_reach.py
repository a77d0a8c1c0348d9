"""What of an inventory can be tried without a name: SSH machines, and of a pattern what is the same for all its names.

Connects and closes, and asks nothing of whoever answers. Owns neither the findings nor how they are shown.
"""

from pathlib import Path

import anyio

from guideway.interpreter.children.trust import distrust
from guideway.interpreter.drivers.base import Fault, only_faults
from guideway.interpreter.drivers.causes import unreachable
from guideway.interpreter.drivers.kubernetes import KubernetesOptions
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.probes.command import NOT_STARTED
from guideway.interpreter.results import Reason
from guideway.server.cli.inventory_target import probe_in, probed_by
from guideway.server.config import Config
from guideway.server.entries import HostEntry, HostPatternEntry, ServiceEntry, ServicePatternEntry
from guideway.server.ssh_ways import SshHosts
from guideway.server.templates import TRIED

_PLACEHOLDER = "{"


async def try_machine(name: str, options: SshOptions) -> str:
    """Connect to a machine as its user, and return what came of it. Raises ``Fault``."""
    from guideway.interpreter.drivers.ssh.connection import connect  # noqa: PLC0415  # 0.3 s, for who needs it

    with only_faults(name):
        connection = await connect(options)
        connection.close()
        await connection.ended()
    return f"lets `{options.user}` in"


def require_trusted(entry: HostEntry | HostPatternEntry | ServiceEntry | ServicePatternEntry) -> None:
    """See that the program that an entry names may be run, also where nothing runs it now.

    Raises ``Fault`` (``cannot_probe``).
    """
    for program in probed_by(probe_in(entry)).values():
        if (why := distrust(program)) is not None:
            raise Fault(Reason.CANNOT_PROBE, NOT_STARTED, "", f"{why} (`program` {program})")


async def try_pattern(config: Config, entry: ServicePatternEntry, seconds: float) -> str | None:
    """Try what all names of a pattern share, and return what came of it; None where there is nothing to try.

    That is the socket of a service manager on a machine that no name changes, or the file that says how to reach a
    cluster. Raises ``Fault``.
    """
    model, table = entry.driver.model, entry.driver.table
    if issubclass(model, KubernetesOptions):
        from guideway.interpreter.drivers.kubernetes.kubeconfig import read  # noqa: PLC0415  # loads the library

        file = table.get("kubeconfig")
        with only_faults(entry.pattern.text):
            read(Path(file) if file else None, table.get("context"))
        return "its cluster's address and credentials can be read"
    ssh = table.get("ssh")
    if not issubclass(model, SocketOptions) or _PLACEHOLDER in str(ssh):
        return None
    socket = _socket(entry)
    if socket is None:
        return None
    try:
        with anyio.fail_after(seconds):
            await _connect(socket, SshHosts(config.ssh, config.ssh_patterns.values()).options(ssh) if ssh else None)
    except TimeoutError:
        raise Fault(Reason.TIMED_OUT, f"no word from its socket within {seconds:g} s") from None
    return "its socket takes connections"


def _socket(entry: ServicePatternEntry) -> Path | None:
    for star in TRIED:
        try:
            options = entry.driver.fill(entry.pattern.example(star), (star,) * entry.pattern.stars)
        except ValueError:  # no such name can be meant: another one may
            continue
        return options.listens_at() if isinstance(options, SocketOptions) else None
    return None


async def _connect(socket: Path, machine: SshOptions | None) -> None:
    if machine is None:
        try:
            stream = await anyio.connect_unix(socket)
        except OSError as error:
            raise unreachable(error, "its service manager", socket) from error
        await stream.aclose()
        return
    way, member = machine.build(), object()
    try:
        with only_faults(machine.host):
            passage = await way.open(socket, member)
            await passage.close()
    finally:
        with anyio.CancelScope(shield=True):
            await way.leave(member)
