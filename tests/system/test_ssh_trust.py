"""Services over SSH, on a real sshd: whom the host is to be, with which key it is asked, and what it lets through."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.system.ssh_drivers import fault_of, program
from tests.system.sshd import ME, Sshd, fingerprint, make_key, need_sshd, public
from tests.system.supervisord import Supervisord, wait_for
from tests.system.test_supervisord import soon

from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.drivers.ways import Way
from guideway.interpreter.results import Reason, State

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


# ---- who is trusted


async def test_a_host_whose_key_is_not_known_is_not_spoken_with(sshd: Sshd, supervisord: Supervisord) -> None:
    sshd.known_hosts.write_text("")
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert fault.reason is Reason.UNREACHABLE
    assert fault.message == f"the key of its SSH host ({fingerprint(sshd.folder / 'host')}) is not in `known_hosts`"
    assert "`ssh-keyscan " in fault.mend
    assert sshd.accepted() == 0


async def test_a_host_with_another_key_than_the_known_one_is_not_spoken_with(
    sshd: Sshd, supervisord: Supervisord
) -> None:
    sshd.know(make_key(sshd.folder / "other"))
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert fault.reason is Reason.UNREACHABLE
    assert "another key" in fault.message
    assert "somebody else answers" in fault.message
    assert sshd.accepted() == 0


async def test_a_host_with_a_key_that_was_revoked_is_not_spoken_with(sshd: Sshd, supervisord: Supervisord) -> None:
    sshd.known_hosts.write_text(f"{sshd.known_hosts.read_text()}@revoked * {public(sshd.folder / 'host')}")
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert (fault.reason, fault.message) == (
        Reason.UNREACHABLE,
        "its SSH host shows a key that `known_hosts` has as revoked",
    )
    assert sshd.accepted() == 0


async def test_a_host_with_a_key_of_another_kind_than_the_known_one_is_not_spoken_with(
    sshd: Sshd, supervisord: Supervisord
) -> None:
    sshd.know(make_key(sshd.folder / "other", "ecdsa"))
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert fault.reason is Reason.UNREACHABLE
    assert "another key" in fault.message


async def test_of_a_host_with_keys_of_several_kinds_one_has_to_be_known(supervisord: Supervisord) -> None:
    need_sshd()
    sshd = Sshd()
    more = make_key(sshd.folder / "more", "ecdsa")
    with (sshd.folder / "config").open("a") as config:
        config.write(f"HostKey {more}\n")
    with sshd:
        for known in (more, sshd.folder / "host"):
            sshd.know(known)
            driver = program(supervisord, "good", sshd.way())
            await driver.observe()
            await driver.close()


async def test_a_key_that_the_host_does_not_accept(sshd: Sshd, supervisord: Supervisord) -> None:
    other = make_key(sshd.folder / "other")
    fault = await fault_of(program(supervisord, "good", sshd.way(key_file=str(other))))
    assert (fault.reason, fault.message) == (
        Reason.NO_PERMISSION,
        "its SSH host does not let the user in with this key",
    )


async def test_a_user_whom_the_host_does_not_let_in(shared_sshd: Sshd, supervisord: Supervisord) -> None:
    fault = await fault_of(program(supervisord, "good", shared_sshd.way(user="daemon")))
    assert fault.reason is Reason.NO_PERMISSION


def spoil_mode(sshd: Sshd) -> None:
    sshd.key.chmod(0o640)


def spoil_key(sshd: Sshd) -> None:
    sshd.key.write_text("nothing of the kind\n")


def spoil_passphrase(sshd: Sshd) -> None:
    sshd.key.unlink()
    make_key(sshd.key, passphrase="marker")  # noqa: S106  # of no worth


def spoil_folder(sshd: Sshd) -> None:
    sshd.key.unlink()
    sshd.key.mkdir()


def spoil_known(sshd: Sshd) -> None:
    sshd.known_hosts.chmod(0o666)


def spoil_known_text(sshd: Sshd) -> None:
    sshd.known_hosts.write_bytes(b"\xff\n")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda sshd: sshd.key.unlink(), "`key_file` of its SSH host cannot be read: no such file or directory"),
        (spoil_mode, "`key_file` of its SSH host is open to other users: `chmod go= FILE`"),
        (spoil_key, "`key_file` of its SSH host holds no private key"),
        (spoil_passphrase, "`key_file` of its SSH host has a passphrase: use an agent, or a key without"),
        (spoil_folder, "`key_file` of its SSH host is no regular file"),
        (
            lambda sshd: sshd.known_hosts.unlink(),
            "`known_hosts` of its SSH host cannot be read: no such file or directory",
        ),
        (spoil_known, "`known_hosts` of its SSH host is open to other users: `chmod go-w FILE`"),
        (spoil_known_text, "`known_hosts` of its SSH host has a line that does not belong there"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named_by_its_key(
    sshd: Sshd, supervisord: Supervisord, spoil: Any, told: str
) -> None:
    spoil(sshd)
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert (fault.reason, fault.message) == (Reason.NO_PERMISSION, told)
    assert sshd.accepted() == 0


@contextmanager
def agent(folder: Path, *keys: Path) -> Iterator[Path]:
    """Run an agent that holds keys."""
    where = folder / "agent"
    running = subprocess.Popen(["ssh-agent", "-D", "-a", str(where)], stdout=subprocess.DEVNULL)
    try:
        wait_for(where.exists, "the agent to listen")
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], check=True, env={**os.environ, "SSH_AUTH_SOCK": str(where)})
        yield where
    finally:
        running.terminate()
        running.wait()


async def test_a_key_of_the_agent(sshd: Sshd, supervisord: Supervisord, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisord_runs = program(supervisord, "good", way := sshd.way(key_file=None, agent=True))
    with agent(sshd.folder, sshd.key) as where:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(where))
        await supervisord_runs.observe()
    assert way.user == ME
    await supervisord_runs.close()


async def test_an_agent_that_is_no_help(sshd: Sshd, supervisord: Supervisord, monkeypatch: pytest.MonkeyPatch) -> None:
    def way() -> Way:
        return sshd.way(key_file=None, agent=True)

    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "SSH_AUTH_SOCK is not set" in (await fault_of(program(supervisord, "good", way()))).message
    monkeypatch.setenv("SSH_AUTH_SOCK", str(sshd.folder / "none"))
    assert "does not answer" in (await fault_of(program(supervisord, "good", way()))).message
    with agent(sshd.folder) as where:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(where))
        assert "holds no key" in (await fault_of(program(supervisord, "good", way()))).message


async def test_nothing_of_the_users_own_ssh_configuration_counts(
    sshd: Sshd, supervisord: Supervisord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither a configuration that trusts everybody, nor a key or an agent that would be let in."""
    home = tmp_path / ".ssh"
    home.mkdir(mode=0o700)
    (home / "config").write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  User nobody\n")
    sshd.key.rename(home / "id_ed25519")
    monkeypatch.setenv("HOME", str(tmp_path))
    with agent(sshd.folder, home / "id_ed25519") as where:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(where))
        wrong = sshd.way(key_file=str(make_key(sshd.folder / "other")))
        assert (await fault_of(program(supervisord, "good", wrong))).reason is Reason.NO_PERMISSION
        sshd.known_hosts.write_text("")
        unknown = sshd.way(key_file=str(home / "id_ed25519"))
        assert "not in `known_hosts`" in (await fault_of(program(supervisord, "good", unknown))).message
    assert sshd.accepted() == 0


async def test_the_known_hosts_of_the_user_are_those_that_count_by_default(
    sshd: Sshd, supervisord: Supervisord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    sshd.known_hosts.rename(tmp_path / ".ssh/known_hosts")
    monkeypatch.setenv("HOME", str(tmp_path))
    driver = program(supervisord, "good", sshd.way(known_hosts=None))
    await driver.observe()
    await driver.close()


# ---- what the host lets through


@pytest.mark.parametrize("by", ["authorized_keys", "sshd_config"])
async def test_the_least_rights_suffice_and_open_no_other_socket(supervisord: Supervisord, by: str) -> None:
    """As docs/services.md shows them; nobody asks for a session."""
    need_sshd()
    socket = f"[{supervisord.socket}]:*"
    key_options, settings = f'restrict,port-forwarding,permitopen="{socket}"', []
    if by == "sshd_config":
        key_options = "restrict,port-forwarding"
        settings = [f"Match User {ME}", "AllowStreamLocalForwarding local", "AllowTcpForwarding local"]
        settings += [f"PermitOpen {socket} [/run/dbus/system_bus_socket]:*", "MaxSessions 0"]
    with Sshd(*settings, key_options=key_options) as sshd:
        way = sshd.way()
        good = program(supervisord, "good", way)
        await good.restart(lambda _: None, soon(20))
        assert (await good.observe()).state is State.RUNNING
        other = SupervisordOptions(program="good", socket=Path("/run/other"), ssh="there").build_over(way)
        assert (await fault_of(other)).reason is Reason.UNREACHABLE
        await good.close()
        assert "the request was denied" in sshd.log()
        assert "session" not in sshd.log()


@pytest.mark.parametrize(
    ("settings", "key_options", "reason", "told"),
    [
        (
            ["AllowStreamLocalForwarding no"],
            "restrict,port-forwarding",
            Reason.UNREACHABLE,
            "does not allow forwarding",
        ),
        (["AllowTcpForwarding no"], "restrict,port-forwarding", Reason.UNREACHABLE, "does not allow forwarding"),
        (["PermitOpen none"], "restrict,port-forwarding", Reason.UNREACHABLE, "does not allow forwarding"),
        ([], "restrict", Reason.NO_PERMISSION, "its line in `authorized_keys` needs `port-forwarding`"),
    ],
)
async def test_a_host_that_refuses_to_forward(
    supervisord: Supervisord, settings: list[str], key_options: str, reason: Reason, told: str
) -> None:
    need_sshd()
    with Sshd(*settings, key_options=key_options) as sshd:
        fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert fault.reason is reason
    assert told in fault.message


async def test_a_socket_that_does_not_exist_on_the_host(shared_sshd: Sshd) -> None:
    driver = SupervisordOptions(program="good", socket=Path("/run/none"), ssh="there").build_over(shared_sshd.way())
    fault = await fault_of(driver)
    assert fault.reason is Reason.UNREACHABLE
    assert "it does not exist there, nobody listens at it, the SSH user may not use it" in fault.message


async def test_a_host_that_is_not_there(sshd: Sshd, supervisord: Supervisord) -> None:
    sshd.end()
    fault = await fault_of(program(supervisord, "good", sshd.way()))
    assert (fault.reason, fault.message) == (
        Reason.UNREACHABLE,
        "its SSH host cannot be reached: connection refused",
    )


async def test_a_host_whose_name_cannot_be_resolved(shared_sshd: Sshd, supervisord: Supervisord) -> None:
    fault = await fault_of(program(supervisord, "good", shared_sshd.way(host="nowhere.invalid")))
    assert (fault.reason, fault.message) == (Reason.UNREACHABLE, "the name of its SSH host cannot be resolved")
