"""Containers of a real Docker and a real Podman behind a real sshd."""

import anyio
import anyio.to_thread
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.engines import Engine
from tests.system.remains import closed_later, in_quiet, nothing_more_than
from tests.system.sshd import Sshd
from tests.system.supervisord import wait_for
from tests.system.test_supervisord import restart_fails, soon

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.drivers.container import ContainerOptions
from guideway.interpreter.drivers.ways import Way
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


def container(world: Engine, name: str, way: Way) -> ServiceDriver:
    """Return a driver as a configuration makes it."""
    options = ContainerOptions.model_validate({"container": name, "socket": str(world.socket), "ssh": "there"})
    return closed_later(options.build_over(way))


async def test_a_container_is_restarted_by_whom_the_host_lets_in(shared_sshd: Sshd, engine: Engine) -> None:
    await anyio.to_thread.run_sync(engine.run, "quick")
    one = Service("quick", container(engine, "quick", shared_sshd.way()), settle=0.1)
    before = await one.state()
    seen = await one.restart(30)
    assert (seen.state, seen.identity != before.identity) == (State.RUNNING, True)
    await one.check_restart()


async def test_looks_share_one_connection_and_one_channel(sshd: Sshd, engine: Engine) -> None:
    way = sshd.way()
    drivers = [container(engine, name, way) for name in ("good", "other", "never")]
    for one in drivers:
        for _ in range(3):
            await one.observe()
    assert sshd.accepted() == 1
    assert engine.connections() == 1


async def test_a_socket_that_the_user_may_not_use(shared_sshd: Sshd, engine: Engine) -> None:
    with pytest.raises(Fault, match="did not open the socket") as caught:
        await container(engine, "good", shared_sshd.way(user="nobody")).observe()
    assert caught.value.reason is Reason.UNREACHABLE


async def test_a_restart_that_loses_its_connection_leaves_the_container_up(sshd: Sshd, engine: Engine) -> None:
    """The engine stops it for a second, and the connection is cut meanwhile."""
    before = await anyio.to_thread.run_sync(engine.run, "dragging")
    one = Service("dragging", container(engine, "dragging", sshd.way()), settle=0)
    faults: list[Fault] = []

    async def fails() -> None:
        faults.append(await restart_fails(one))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fails)
        await anyio.sleep(0.4)
        await anyio.to_thread.run_sync(sshd.cut)
    assert faults[0].reason is Reason.UNREACHABLE
    await anyio.to_thread.run_sync(lambda: wait_for(lambda: engine.started("dragging") != before, "it to be back"))
    assert engine.state("dragging") == "running"


async def test_cancelled_at_every_await_nothing_is_left(shared_sshd: Sshd, engine: Engine) -> None:
    await anyio.to_thread.run_sync(engine.run, "quick")
    for restarts in (False, True):
        at, cut = 0, True
        while cut:
            at += 1
            driver = container(engine, "quick", shared_sshd.way())
            before = await in_quiet()
            call = driver.restart(lambda _: None, soon(30)) if restarts else driver.observe()
            cut = await cancelled_at(at, call)
            await driver.close()
            await nothing_more_than(before)
            await anyio.to_thread.run_sync(engine.wait_until, "quick", "running")
        assert at > 3
