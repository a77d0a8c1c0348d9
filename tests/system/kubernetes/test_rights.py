"""Who may do what in Kubernetes, and what is said where it is not enough: on recorded answers, and on a real server."""

import ssl
from pathlib import Path

import anyio
import pytest
import yaml
from tests.server.certificates import Authority
from tests.system.kubernetes.world import World

from guideway.interpreter.drivers.base import ChecksRights, Fault, ServiceDriver
from guideway.interpreter.results import Reason, State

pytestmark = pytest.mark.anyio


async def fault_of_check(driver: ServiceDriver) -> Fault:
    assert isinstance(driver, ChecksRights)
    with pytest.raises(Fault) as raised:
        await driver.check_restart()
    return raised.value


async def fault_of_look(driver: ServiceDriver) -> Fault:
    with pytest.raises(Fault) as raised:
        await driver.observe()
    return raised.value


async def test_the_rights_of_the_example_are_enough(world: World) -> None:
    world.deploy()
    for user in ("guideway", "blind"):
        driver = world.driver(user=user)
        assert isinstance(driver, ChecksRights)
        await driver.check_restart()


async def test_the_rights_of_the_example_are_for_its_workloads_alone(world: World) -> None:
    """What is of another name is not even known to be missing."""
    fault = await fault_of_look(world.driver(name="other"))
    assert fault.reason is Reason.NO_PERMISSION
    assert (await fault_of_check(world.driver(name="other"))).reason is Reason.NO_PERMISSION


async def test_the_rule_that_is_told_is_the_one_that_is_missing(world: World) -> None:
    world.deploy()
    driver = world.driver(user="nobody")
    fault = await fault_of_check(driver)
    assert fault.reason is Reason.NO_PERMISSION
    head, _, rule = fault.mend.partition("with this rule allows it: ")
    assert f"namespace `{world.namespace}`" in head
    assert yaml.safe_load(rule) == {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "resourceNames": ["web"],
        "verbs": ["get", "patch"],
    }
    world.grant("nobody", [yaml.safe_load(rule)])
    assert isinstance(driver, ChecksRights)
    await driver.check_restart()
    assert (await driver.observe()).state is State.RUNNING


async def test_who_may_only_look_changes_nothing(world: World) -> None:
    world.deploy()
    driver = world.driver(user="viewer")
    assert (await driver.observe()).state is State.RUNNING
    with pytest.raises(Fault) as raised:
        await driver.restart(lambda _: None, anyio.current_time() + 30)
    assert raised.value.reason is Reason.NO_PERMISSION
    assert "guideway inventory check" in raised.value.message
    assert "cannot patch resource" in raised.value.output
    assert world.get()["metadata"]["generation"] == 1
    assert "does not let this process patch it" in (await fault_of_check(driver)).message


async def test_a_restart_that_would_replace_nothing_is_told_by_the_check(world: World) -> None:
    world.deploy("daemonset", updateStrategy={"type": "OnDelete"})
    fault = await fault_of_check(world.driver("daemonset"))
    assert (fault.reason, "OnDelete" in fault.message) == (Reason.START_FAILED, True)


async def test_a_token_that_is_not_accepted_is_no_permission_and_the_file_is_read_again(world: World) -> None:
    """Tokens run out; whoever writes a new one into the file need not restart anything."""
    world.deploy()
    good = world.kubeconfig("guideway")
    file = world.kubeconfig("guideway", token="not-a-token")  # noqa: S106
    driver = world.driver(kubeconfig=str(file))
    fault = await fault_of_look(driver)
    assert fault.reason is Reason.NO_PERMISSION
    assert "may have run out" in fault.message
    assert "not-a-token" not in fault.message + fault.output
    file.write_text(good.read_text())
    assert (await driver.observe()).state is State.RUNNING


async def test_a_token_of_a_file_is_read_from_beside_the_kubeconfig(world: World) -> None:
    world.deploy()
    told = yaml.safe_load(world.kubeconfig("guideway").read_text())
    (world.folder / "token").write_text(told["users"][0]["user"].pop("token") + "\n")
    file = world.kubeconfig("guideway")
    told["users"][0]["user"]["tokenFile"] = "token"
    file.write_text(yaml.safe_dump(told))
    assert (await world.driver(kubeconfig=str(file)).observe()).state is State.RUNNING


async def test_a_server_of_another_authority_is_told_nothing(world: World, tmp_path: Path) -> None:
    """Somebody answers at the address: the token is not for them."""
    other = tmp_path / "other"
    other.mkdir()
    world.authority = str(Authority(other).file)
    fault = await fault_of_look(world.driver())
    assert fault.reason is Reason.UNREACHABLE
    assert "certificate is not of the authority" in fault.message
    assert isinstance(fault.__cause__, Exception)
    assert any(isinstance(one, ssl.SSLError) for one in _causes(fault))


async def test_a_server_that_is_not_there_is_unreachable(world: World) -> None:
    world.address = "https://127.0.0.1:1"
    fault = await fault_of_look(world.driver())
    assert (fault.reason, "connection refused" in fault.message) == (Reason.UNREACHABLE, True)


def _causes(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
