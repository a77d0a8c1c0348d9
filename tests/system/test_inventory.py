"""``guideway inventory check`` against real services: machines without a service, what a pattern's names share."""

from pathlib import Path

import pytest
from tests.system.sshd import ME, Sshd
from tests.system.supervisord import Supervisord

from guideway.interpreter.results import Reason
from guideway.server import wiring
from guideway.server.cli.inventory import Finding, look
from guideway.server.config import load

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


def machine(name: str, sshd: Sshd, key: Path | None = None) -> str:
    return f"""
    [ssh.{name}]
    host = "127.0.0.1"
    port = {sshd.port}
    user = "{ME}"
    key_file = "{key or sshd.key}"
    known_hosts = "{sshd.known_hosts}"
    """


def pattern(name: str, socket: Path, more: str = "") -> str:
    return f"""
    [services."{name}-*"]
    driver = "supervisord"
    socket = "{socket}"
    program = "{{1}}"
    {more}
    """


async def checked(folder: Path, *parts: str) -> dict[str, Finding]:
    file = folder / "guideway.toml"
    file.write_text("".join(parts))
    config = load(file)
    return {f"{one.kind} {one.name}": one for one in await look(config, wiring.build(config))}


async def test_a_machine_on_which_no_service_is_asked_is_tried(tmp_path: Path) -> None:
    with Sshd() as sshd:
        used = f'[services.q]\ndriver = "supervisord"\nssh = "used"\nsocket = "{tmp_path / "none"}"\nprogram = "q"\n'
        found = await checked(
            tmp_path, machine("idle", sshd), machine("wrong", sshd, tmp_path / "no_key"), machine("used", sshd), used
        )
    assert (found["ssh idle"].reason, found["ssh idle"].found) == (None, f"lets `{ME}` in")
    assert found["ssh wrong"].reason is Reason.NO_PERMISSION
    assert "no_key" in (found["ssh wrong"].mend or "")
    assert "ssh used" not in found
    assert found["service q"].reason is Reason.UNREACHABLE


async def test_of_a_pattern_the_socket_that_its_names_share_is_connected_to(tmp_path: Path) -> None:
    with Sshd() as sshd, Supervisord({"one": ["sleep", "1000"]}) as world:
        found = await checked(
            tmp_path,
            machine("there", sshd),
            pattern("here", world.socket),
            pattern("none", tmp_path / "none"),
            pattern("far", world.socket, 'ssh = "there"'),
            pattern("lost", tmp_path / "none", 'ssh = "there"'),
        )
        pids = world.pids()
    for name in ("here", "far"):
        one = found[f"service {name}-*"]
        assert (one.reason, one.asked) == (None, False)
        assert one.found.startswith("its socket takes connections, and nothing was asked")
    assert found["service none-*"].reason is Reason.UNREACHABLE
    assert str(tmp_path / "none") in (found["service none-*"].mend or "")
    assert found["service lost-*"].reason is Reason.UNREACHABLE
    assert pids == []


async def test_of_a_pattern_the_kubeconfig_is_read(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    found = await checked(
        tmp_path,
        f'[services."k-*"]\ndriver = "kubernetes"\nnamespace = "shop"\nname = "{{1}}"\nkubeconfig = "{missing}"\n',
    )
    assert found["service k-*"].reason is Reason.UNREACHABLE
    assert str(missing) in (found["service k-*"].mend or "")
