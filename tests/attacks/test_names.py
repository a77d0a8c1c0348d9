"""The name server keeps silent, as in a broken network, or because somebody wants a host to look as if it were down.

Nothing has been sent to the host then, so no probe may say that it did not answer; and what waits for the resolver,
which nobody can stop, may hold up neither the step nor the end of the process.
"""

import json
import os
import subprocess
import sys

_ASK = """
import json, socket, sys
import anyio
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.inventory import Host
from guideway.interpreter.probes.http import HttpProbe
from guideway.interpreter.probes.icmp import IcmpProbe
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.service import Service

silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
name = "database.example"
probes = [TcpProbe(name, 80), IcmpProbe(name), HttpProbe("http://database.example/")]

async def reason(ask):
    try:
        await ask(0.5)
    except Fault as fault:
        return fault.reason
    return "answered"

async def main():
    hosts = [Host("database", probe) for probe in probes for _ in range(10)]  # more than any pool of threads takes
    health = Service("database", MemoryDriver(), health=probes[0], health_seconds=0.5)
    found = {}
    async def note(number, ask):
        found[number] = await reason(ask)
    async with anyio.create_task_group() as tasks:
        for number, host in enumerate(hosts):
            tasks.start_soon(note, number, host.ping)
    found["health"] = await reason(lambda _: health.state(5))
    # With every one of those lookups still out there, a name that needs no name server is found.
    found["local"] = await reason(Host("local", TcpProbe("localhost", 1)).ping)
    print(json.dumps(found))

anyio.run(main)
"""


def test_a_silent_name_server_says_nothing_about_a_host() -> None:
    """The resolver would wait for minutes: that the process ends before the test's own bound shows that nobody does."""
    unshare = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    prepare = (
        "mount -t tmpfs none /mnt && ip link set lo up && "
        "printf 'nameserver 127.0.0.1\\noptions timeout:30 attempts:5\\n' > /mnt/resolv.conf && "
        'mount --bind /mnt/resolv.conf /etc/resolv.conf && exec "$@"'
    )
    done = subprocess.run(
        [*unshare, "sh", "-c", prepare, "sh", sys.executable, "-c", _ASK],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("local") == "no_answer"
    assert set(found.values()) == {"cannot_probe"}
    assert not done.stderr
