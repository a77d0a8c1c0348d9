"""Units of a systemd behind a real sshd: who is let do what, and what becomes of a restart without its connection."""

from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.attacks.cancelling import cancelled_at
from tests.system.ssh_drivers import unit
from tests.system.sshd import Sshd, need_sshd
from tests.system.supervisord import wait_for
from tests.system.systemd import Systemd, need_containers
from tests.system.test_supervisord import restart_fails, soon
from tests.system.units import UNITS

from guideway.interpreter.drivers.base import Fault, ServiceDriver
from guideway.interpreter.drivers.systemd.bus import Lost
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(scope="module")
def units() -> Iterator[Systemd]:
    need_containers()
    need_sshd()
    rule = """polkit.addRule(function(action, subject) { return polkit.Result.NO; });"""
    with Systemd({"good.service": UNITS["good.service"]}, rules=rule) as running:
        yield running


async def test_a_unit_is_restarted_by_whom_the_host_lets_in(shared_sshd: Sshd, units: Systemd) -> None:
    await anyio.to_thread.run_sync(units.run, "good.service")
    driver = unit(units, "good.service", shared_sshd.way())
    one = Service("good", driver, settle=0.1)
    before = await one.state()
    assert (await one.restart(30)).identity != before.identity
    await one.check_restart()
    await one.close()


async def test_whom_polkit_does_not_let_is_the_user_of_ssh(shared_sshd: Sshd, units: Systemd) -> None:
    await anyio.to_thread.run_sync(units.run, "good.service")
    driver = unit(units, "good.service", shared_sshd.way(user="nobody"))
    assert isinstance(driver, SystemdDriver)
    assert (await driver.observe()).state is State.RUNNING
    fault = await restart_fails(Service("good", driver))
    assert fault.reason is Reason.NO_PERMISSION
    with pytest.raises(Fault) as caught:
        await driver.check_restart()
    assert 'subject.user == "nobody"' in caught.value.mend
    await driver.close()


async def restart(driver: ServiceDriver) -> None:
    with suppress(Lost):
        await driver.restart(lambda _: None, soon(20))


async def test_a_unit_whose_restart_loses_its_connection_comes_up(sshd: Sshd, units: Systemd) -> None:
    await anyio.to_thread.run_sync(units.run, "good.service")
    for cut in range(3):
        driver = unit(units, "good.service", sshd.way())
        await driver.observe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(restart, driver)
            await anyio.sleep(0.004 * cut)
            await anyio.to_thread.run_sync(sshd.cut)
        await anyio.to_thread.run_sync(units.wait_until, "good.service", "active")
        await driver.close()


async def test_cancelled_at_every_await_of_a_unit_nothing_is_left(shared_sshd: Sshd, units: Systemd) -> None:
    await anyio.to_thread.run_sync(units.run, "good.service")
    at, cut = 0, True
    before = units.connections()
    while cut:
        at += 1
        driver = unit(units, "good.service", shared_sshd.way())
        cut = await cancelled_at(at, driver.observe())
        await driver.close()
    assert at > 3
    await anyio.to_thread.run_sync(lambda: wait_for(lambda: units.connections() == before, "the bus to notice"))
    assert (await _state(units, shared_sshd)) is State.RUNNING


async def _state(units: Systemd, sshd: Sshd) -> State:
    driver = unit(units, "good.service", sshd.way())
    seen = await driver.observe()
    await driver.close()
    return seen.state
