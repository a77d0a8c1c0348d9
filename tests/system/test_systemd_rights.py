"""Who may restart a unit, who may not, and what would let them: with polkit and without."""

from pathlib import Path

import pytest
from tests.system.machine import need
from tests.system.systemd import Systemd, need_containers
from tests.system.systemd_drivers import GUEST, as_guest, driver_of_guest, service
from tests.system.test_supervisord import restart_fails
from tests.system.units import UNITS

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.systemd.bus import Bus
from guideway.interpreter.drivers.systemd.driver import SystemdDriver
from guideway.interpreter.drivers.systemd.rights import polkit_rule
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service
from guideway.server import wiring
from guideway.server.cli.inventory import look
from guideway.server.config import load

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


async def test_who_may_not_restart_is_told_so_and_may_still_look(systemd: Systemd) -> None:
    pid = systemd.run("good.service")
    with as_guest():
        one = Service("good", driver_of_guest(systemd, "good.service"), settle=0)
        assert (await one.state()).state is State.RUNNING
        assert (await restart_fails(one)).reason is Reason.NO_PERMISSION
        with pytest.raises(Fault) as caught:
            await one.check_restart()
    assert caught.value.reason is Reason.NO_PERMISSION
    assert 'action.lookup("unit") == "good.service"' in caught.value.mend
    assert systemd.pid("good.service") == pid


async def test_asking_whether_a_restart_is_allowed_restarts_nothing(systemd: Systemd) -> None:
    pid = systemd.run("good.service")
    await service(systemd, "good.service").check_restart()
    assert systemd.pid("good.service") == pid
    systemd.stop("other.service")
    await service(systemd, "other.service").check_restart()
    assert systemd.state("other.service") == "inactive"
    with pytest.raises(Fault) as caught:
        await service(systemd, "by_dependency.service").check_restart()
    assert caught.value.reason is Reason.NO_PERMISSION


async def test_who_has_no_rights_is_told_no_rule_for_a_unit_that_nobody_restarts(systemd: Systemd) -> None:
    with as_guest():
        one = Service("one", driver_of_guest(systemd, "by_dependency.service"), settle=0)
        with pytest.raises(Fault, match="by hand") as caught:
            await one.check_restart()
        assert "by hand" in (await restart_fails(one)).message
    assert (caught.value.reason, caught.value.mend) == (Reason.NO_PERMISSION, "")


async def test_a_user_that_the_bus_does_not_take_us_for(systemd: Systemd) -> None:
    made = SystemdDriver("good.service", Bus(systemd.bus, 12345))
    with as_guest(), pytest.raises(Fault) as caught:
        await made.observe()
    assert caught.value.reason is Reason.NO_PERMISSION
    await made.close()


async def test_the_inventory_says_what_may_not_be_restarted_and_what_would_allow_it(
    systemd: Systemd, tmp_path: Path
) -> None:
    pid = systemd.run("good.service")
    file = tmp_path / "guideway.toml"
    file.write_text(
        f'[services.good]\ndriver = "systemd"\nunit = "good.service"\nbus = "{systemd.bus}"\n'
        f'[services.watched]\ndriver = "systemd"\nunit = "good.service"\nbus = "{systemd.bus}"\nrestartable = false\n'
    )
    config = load(file)
    with as_guest():
        good, watched = await look(config, wiring.build(config))
    assert (good.state, good.reason) == (State.RUNNING, Reason.NO_PERMISSION)
    assert good.found == "is running, and cannot be restarted: systemd does not let this process restart it"
    assert good.mend is not None
    assert polkit_rule("good.service", "nobody") in good.mend
    assert (watched.state, watched.reason, watched.found) == (State.RUNNING, None, "is running")
    good, _ = await look(config, wiring.build(config))  # as root
    assert (good.reason, good.found) == (None, "is running")
    assert systemd.pid("good.service") == pid


async def test_the_inventory_says_where_a_unit_may_take_longer_than_its_restart(
    systemd: Systemd, tmp_path: Path
) -> None:
    units = ("good", "patient", "stubborn")
    file = tmp_path / "guideway.toml"
    file.write_text(
        "".join(
            f'[services.{unit}]\ndriver = "systemd"\nunit = "{unit}.service"\nbus = "{systemd.bus}"\n' for unit in units
        )
    )
    config = load(file)
    good, patient, stubborn = await look(config, wiring.build(config))
    assert "restart_seconds" not in good.found
    assert "lets a restart take 200 s, and `restart_seconds` 60 s" in patient.found
    assert "lets a restart take for ever, and `restart_seconds` 60 s" in stubborn.found


async def test_the_rule_that_is_named_lets_its_user_restart_its_unit_and_nothing_else() -> None:
    need_containers()
    need("who may restart what", {"polkitd": "polkitd"})
    names = ("good.service", "other.service", "limited.service")
    units = {name: UNITS[name] for name in names}
    rules = "\n".join(polkit_rule(unit, "nobody") for unit in ("good.service", "limited.service"))
    with Systemd(units, rules=rules) as world:
        pid = world.run("other.service")
        bus = Bus(world.bus, GUEST)
        good, other, limited = (Service(unit, SystemdDriver(unit, bus), settle=0) for unit in names)
        with as_guest():
            await good.check_restart()
            assert (await good.restart(30)).state is State.RUNNING
            for _ in range(5):  # three starts are allowed: the rule lets the limit be lifted, too
                assert (await limited.restart(30)).state is State.RUNNING
            with pytest.raises(Fault) as caught:
                await other.check_restart()
            assert (await restart_fails(other)).reason is Reason.NO_PERMISSION
        assert caught.value.reason is Reason.NO_PERMISSION
        assert polkit_rule("other.service", "nobody") in caught.value.mend
        assert world.pid("other.service") == pid
        for one in (good, other, limited):
            await one.close()
