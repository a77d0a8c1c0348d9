"""A real systemd that goes away, comes back or hangs, what is no bus; and the systemd of a user."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream
from tests.attacks.cancelling import cancelled_at
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd, need_containers
from tests.system.systemd_drivers import GUEST, as_guest
from tests.system.test_supervisord import restart_fails, soon
from tests.system.units import UNITS

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.systemd import bus as bus_module
from guideway.interpreter.drivers.systemd.bus import Bus
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

GOOD, STUBBORN, OTHER = "good.service", "stubborn.service", "other.service"


@pytest.fixture
def world() -> Iterator[Systemd]:
    need_containers()
    with Systemd({name: UNITS[name] for name in (GOOD, OTHER, STUBBORN)}) as running:
        yield running


# ---- a bus that dies


async def test_a_systemd_that_is_down_and_one_that_comes_back(world: Systemd) -> None:
    one = Service("good", SystemdDriver(GOOD, Bus(world.bus)), settle=0)
    assert (await one.restart(30)).state is State.RUNNING
    world.end()
    with pytest.raises(Fault) as caught:
        await one.state()
    assert caught.value.reason is Reason.UNREACHABLE
    assert (await restart_fails(one)).reason is Reason.UNREACHABLE
    world.start()
    assert (await one.state()).state is State.STOPPED
    assert (await one.restart(30)).state is State.RUNNING
    await one.close()


async def test_a_bus_that_dies_during_a_restart(world: Systemd, caplog: pytest.LogCaptureFixture) -> None:
    world.run(STUBBORN)
    one = Service("stubborn", SystemdDriver(STUBBORN, Bus(world.bus)))
    async with anyio.create_task_group() as tasks:

        async def fails() -> None:
            assert (await restart_fails(one)).reason is Reason.UNREACHABLE

        tasks.start_soon(fails)
        await anyio.to_thread.run_sync(world.wait_until, STUBBORN, "deactivating")
        world.end()
    assert "whether it was started again is not known" in caplog.text
    await one.close()


async def test_a_systemd_that_hangs_is_not_waited_for_longer_than_allowed(world: Systemd) -> None:
    pid = world.run(GOOD)
    one = Service("good", SystemdDriver(GOOD, Bus(world.bus)), settle=0)
    await one.state()
    world.freeze("systemd")
    assert (await restart_fails(one, deadline=0.5)).reason is Reason.TIMED_OUT
    with pytest.raises(Fault) as caught:
        await one.state(0.2)
    assert caught.value.reason is Reason.TIMED_OUT
    world.freeze("systemd", stop=False)
    assert (await one.restart(30)).state is State.RUNNING
    assert world.pid(GOOD) not in {0, pid}
    await one.close()


async def test_a_bus_that_hangs_is_unreachable(world: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "CONNECT_SECONDS", 0.2)
    world.freeze("dbus-daemon")
    made = SystemdDriver(GOOD, Bus(world.bus))
    with pytest.raises(Fault, match=r"did not answer within 0\.2 s") as caught:
        await made.observe()
    assert caught.value.reason is Reason.UNREACHABLE
    world.freeze("dbus-daemon", stop=False)
    assert (await made.observe()).state is State.STOPPED
    await made.close()


async def test_a_bus_that_is_not_there(tmp_path: Path) -> None:
    made = SystemdDriver(GOOD, Bus(tmp_path / "bus"))
    for call in (made.observe(), made.restart(lambda _: None, soon(5)), made.check_restart()):
        with pytest.raises(Fault, match="its socket does not exist") as caught:
            await call
        assert caught.value.reason is Reason.UNREACHABLE
    await made.close()


async def test_a_bus_without_a_systemd(tmp_path: Path) -> None:
    path = tmp_path / "bus"
    daemon = shutil.which("dbus-daemon")
    if daemon is None:
        pytest.skip("needs dbus-daemon")
    async with await anyio.open_process([daemon, "--session", "--nofork", f"--address=unix:path={path}"]) as running:
        await anyio.to_thread.run_sync(wait_for, lambda: listens(path), "the bus")
        made = SystemdDriver(GOOD, Bus(path))
        with pytest.raises(Fault, match="systemd is not on this bus") as caught:
            await made.observe()
        assert caught.value.reason is Reason.UNREACHABLE
        await made.close()
        running.terminate()


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(path)) == 0


# ---- what is no bus


OK = b"OK 0123456789abcdef0123456789abcdef\r\n"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], Reason.UNREACHABLE),
        ([b"REJECTED EXTERNAL\r\n"], Reason.NO_PERMISSION),
        ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], Reason.UNREACHABLE),
        ([OK], Reason.UNREACHABLE),
        ([OK, b"\0" * 64], Reason.UNREACHABLE),
        ([OK, b"l\2\1\1\xff\xff\xff\xff" + b"\1" * 64], Reason.UNREACHABLE),
    ],
)
async def test_what_answers_otherwise_than_a_bus_is_told_from_one(
    tmp_path: Path, answers: list[bytes], reason: Reason
) -> None:
    async def one(stream: SocketStream) -> None:
        async with stream:
            for answer in answers:
                await stream.receive()
                await stream.send(answer)

    async with await anyio.create_unix_listener(tmp_path / "s") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, one)
        made = SystemdDriver(GOOD, Bus(tmp_path / "s"))
        with pytest.raises(Fault) as caught:
            await made.observe()
        assert caught.value.reason is reason
        await made.close()
        tasks.cancel_scope.cancel()


async def test_connecting_that_is_cancelled_wherever_it_waits_leaves_no_socket(world: Systemd) -> None:
    before, step = world.connections(), 1
    while True:
        made = SystemdDriver(GOOD, Bus(world.bus))
        cut = await cancelled_at(step, made.observe())
        await made.close()
        if not cut:
            break
        step += 1
    assert step > 5
    wait_for(lambda: world.connections() == before, "the bus to notice")


# ---- the systemd of a user


async def test_the_systemd_of_a_user() -> None:
    need_containers()
    shared = "/run/dbus/user"  # the folder that the container and this machine both see
    bus = f"unix:path={shared}/bus"
    units = {
        "user-bus.service": (f"[Service]\nUser={GUEST}\nExecStart=dbus-daemon --session --nofork --address={bus}\n"),
        "user-systemd.service": (
            "[Unit]\nAfter=user-bus.service\nRequires=user-bus.service\n"
            f"[Service]\nUser={GUEST}\nType=notify\nDelegate=yes\n"
            "ExecStart=/lib/systemd/systemd --user --unit=basic.target\n"
            f"Environment=XDG_RUNTIME_DIR={shared} DBUS_SESSION_BUS_ADDRESS={bus} HOME={shared}\n"
        ),
    }
    with Systemd(units) as world:
        folder = world.bus.parent / "user"
        (folder / "systemd/user").mkdir(parents=True)
        (folder / "systemd/user" / GOOD).write_text(UNITS[GOOD] or "")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, GUEST, GUEST)
        world.run("user-systemd.service")
        wait_for((folder / "bus").exists, "the user's bus")
        one = Service("good", SystemdDriver(GOOD, Bus(folder / "bus", GUEST), users=True), settle=0)
        with as_guest():
            assert (await one.state()).state is State.STOPPED
            await one.check_restart()
            first = await one.restart(30)
            assert first.state is State.RUNNING
            assert (await one.restart(30)).identity != first.identity
        await one.close()
