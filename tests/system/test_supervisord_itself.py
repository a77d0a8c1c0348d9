"""A real supervisord that asks for a password, shuts down, reloads, or was killed; and what it says of its times."""

import base64
import logging
import os
import signal
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.system.remains import closed_later
from tests.system.supervisord import Supervisord, wait_for
from tests.system.test_supervisord import driver, ignoring, restart_fails, service, unused_port

from guideway.interpreter.drivers.base import BoundsRestart, Fault
from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.interpreter.results import Reason, State

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

PROGRAMS = {"good": ["sleep", "1000"], "stubborn": ["sh", "-c", "trap '' TERM; exec sleep 1000"]}
SETTINGS = {"good": {"stopwaitsecs": "1"}, "stubborn": {"stopwaitsecs": "60", "startsecs": "2"}}


@pytest.fixture(scope="module")
def world() -> Iterator[Supervisord]:
    with Supervisord(PROGRAMS, SETTINGS) as running:
        yield running


SECRET = "marker-of-a-password"  # noqa: S105  # of no worth


@pytest.mark.parametrize("over", ["inet", "unix"])
@pytest.mark.parametrize("key", ["password_file", "password_env"])
async def test_supervisord_that_asks_for_a_password(
    over: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read when it is needed, and stands in no log, no error and no representation."""
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PASSWORD_OF_SUPERVISORD", SECRET)
    password = {key: str(file) if key == "password_file" else "PASSWORD_OF_SUPERVISORD"}
    port = unused_port()
    asks = f"username=operator\npassword={SECRET}\n"
    inet = f"[inet_http_server]\nport=127.0.0.1:{port}\n{asks}"
    sections: dict[str, Any] = {"asks": ("operator", SECRET)} if over == "unix" else {"inet": inet}
    with Supervisord({"one": ["sleep", "1000"]}, **sections) as world:
        place = {"socket": str(world.socket)} if over == "unix" else {"url": f"http://127.0.0.1:{port}"}
        options = SupervisordOptions.model_validate({"program": "one", **place, "username": "operator", **password})
        driver = closed_later(options.build())
        assert (await driver.observe()).state is State.STOPPED
        nobody = closed_later(SupervisordOptions.model_validate({"program": "one", **place}).build())
        with pytest.raises(Fault, match="asks for a user and a password: set `username`") as asked:
            await nobody.observe()
        stranger = SupervisordOptions.model_validate({"program": "one", **place, "username": "other", **password})
        with pytest.raises(Fault, match="does not take this user and password") as refused:
            await closed_later(stranger.build()).observe()
    assert {asked.value.reason, refused.value.reason} == {Reason.NO_PERMISSION}
    encoded = base64.b64encode(f"operator:{SECRET}".encode()).decode()
    for text in (caplog.text, repr(options), repr(driver), repr(vars(driver)), repr(refused.value)):
        assert SECRET not in text
        assert encoded not in text


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (None, 0, "cannot be read: no such file or directory"),
        ("x\n", 0o604, "can be read or written by anybody: chmod o= FILE"),
        ("\n", 0o600, "is empty or not set"),
        ("a\nb\n", 0o600, "holds no secret"),
    ],
)
async def test_a_password_that_cannot_be_read_is_not_sent(
    world: Supervisord, tmp_path: Path, content: str | None, mode: int, told: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    options = SupervisordOptions(program="good", socket=world.socket, username="operator", password_file=file)
    with pytest.raises(Fault) as caught:
        await closed_later(options.build()).observe()
    assert caught.value.reason is Reason.NO_PERMISSION
    assert caught.value.message.startswith(f"what `password_file` names {told}")
    assert str(file) not in caught.value.message


async def test_a_supervisord_that_shuts_down_is_unreachable_and_stops_nothing_for_us() -> None:
    programs = {"stubborn": PROGRAMS["stubborn"], "good": PROGRAMS["good"]}
    with Supervisord(programs, {"stubborn": {"stopwaitsecs": "60"}}) as world:
        stubborn = ignoring(world, "stubborn")
        world.run("good")
        world.shut_down()  # which waits for the stubborn one
        wait_for(lambda: _shuts_down(world), "supervisord to shut down")
        for call in (service(world, "good").state(), service(world, "good").restart(10)):
            with pytest.raises(Fault, match="supervisord is shutting down or reloading") as caught:
                await call
            assert caught.value.reason is Reason.UNREACHABLE
        os.kill(stubborn, signal.SIGKILL)


def _shuts_down(world: Supervisord) -> bool:
    try:
        world.state("good")
    except xmlrpc.client.Fault:
        return True
    return False


async def test_a_program_whose_supervisord_reloads_amid_its_restart_is_started_again() -> None:
    """It was stopped, and supervisord goes away for a moment: its start is asked for when it is back."""
    with Supervisord({"stubborn": PROGRAMS["stubborn"]}, {"stubborn": {"stopwaitsecs": "1"}}) as world:
        ignoring(world, "stubborn")
        faults: list[Fault] = []

        async def fails() -> None:
            faults.append(await restart_fails(service(world, "stubborn")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fails)
            await anyio.to_thread.run_sync(world.wait_until, "stubborn", "STOPPING")
            world.reload()
        assert faults[0].reason is Reason.UNREACHABLE
        assert faults[0].message.endswith("; its start was asked for")
        await anyio.to_thread.run_sync(world.wait_until, "stubborn", "RUNNING")


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"


async def test_a_supervisord_that_was_killed_leaves_its_programs_and_the_next_one_does_not_know_them() -> None:
    """What can be known is told: that it was killed, then that the program is stopped, which for its own it is."""
    with Supervisord({"one": ["sleep", "1000"]}) as world:
        assert world.server is not None
        orphan = world.run("one")
        wait_for(lambda: _lives(orphan), "the program to be what it is to run")
        world.server.kill()
        world.server.wait()
        with pytest.raises(Fault, match="a supervisord that was killed leaves the programs running") as caught:
            await service(world, "one").state()
        assert caught.value.reason is Reason.UNREACHABLE
        assert _lives(orphan)
        world.start()
        assert (await service(world, "one").state()).state is State.STOPPED
        assert (await service(world, "one").restart(30)).state is State.RUNNING
        assert world.pid("one") != orphan
        os.killpg(orphan, signal.SIGKILL)


async def test_how_long_a_restart_may_take_is_read_from_supervisord(world: Supervisord) -> None:
    asked = driver(world, "stubborn")
    assert isinstance(asked, BoundsRestart)
    assert await asked.longest_restart() == 62
