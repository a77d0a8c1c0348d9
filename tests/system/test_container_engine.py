"""Docker and Podman that are not there, go away, hang, or do not let everybody in; and what a configuration may say."""

import grp
import http.server
import json
import os
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import ValidationError
from tests.system.container_drivers import driver, service
from tests.system.containers import CONTAINERS
from tests.system.engines import KINDS, Engine, need_engine
from tests.system.supervisord import wait_for
from tests.system.systemd_drivers import as_guest
from tests.system.test_supervisord import restart_fails

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.container import ContainerOptions
from guideway.interpreter.results import Reason, State
from guideway.server import wiring
from guideway.server.cli.inventory import look
from guideway.server.config import load

pytestmark = pytest.mark.anyio


# ---- what a configuration may say


@pytest.mark.parametrize(
    "name", ["", "/web", "web/json", "..", ".web", "-web", "web?force=1", "web%2f", "a b", "web\n", "wéb", "w" * 256]
)
def test_a_name_is_a_container_s_and_nothing_more(name: str) -> None:
    with pytest.raises(ValidationError, match="must be a container's whole name"):
        ContainerOptions(container=name)


def test_the_socket_is_docker_s_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/elsewhere.sock")
    assert str(ContainerOptions(container="web").socket) == "/run/docker.sock"


# ---- an engine that goes away


@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_that_goes_away_in_a_restart_and_comes_back(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    need_engine(kind)
    with Engine(kind, {name: CONTAINERS[name] for name in ("good", "stubborn")}) as world:
        world.run("stubborn")
        stubborn, good = service(world, "stubborn"), service(world, "good", settle=0)
        async with anyio.create_task_group() as tasks:

            async def fails() -> None:
                assert (await restart_fails(stubborn)).reason is Reason.UNREACHABLE

            tasks.start_soon(fails)
            waits = "the restart to be asked for"
            await anyio.to_thread.run_sync(wait_for, lambda: world.connections() > 0, waits)
            await anyio.sleep(0.5)  # until it is the restart that is open: it is for ten minutes
            await anyio.to_thread.run_sync(world.end)
        assert "stubborn: whether it was started again is not known" in caplog.text
        with pytest.raises(Fault) as caught:
            await good.state()
        assert caught.value.reason is Reason.UNREACHABLE
        assert (await restart_fails(good)).reason is Reason.UNREACHABLE
        await anyio.to_thread.run_sync(world.start)
        assert (await good.restart(30)).state is State.RUNNING


async def test_an_engine_that_hangs_is_not_waited_for_longer_than_allowed(engine: Engine) -> None:
    started = engine.run("good")
    engine.freeze(True)
    try:
        with pytest.raises(Fault) as caught:
            await service(engine, "good").state(0.3)
        assert caught.value.reason is Reason.TIMED_OUT
        assert (await restart_fails(service(engine, "good"), deadline=0.5)).reason is Reason.TIMED_OUT
    finally:
        engine.freeze(False)
    assert engine.started("good") == started


# ---- rights


async def test_a_socket_that_lets_this_user_not_in_says_whom_it_does(engine: Engine) -> None:
    engine.folder.chmod(0o755)
    os.chown(engine.socket, 0, grp.getgrnam("daemon").gr_gid)
    engine.socket.chmod(0o660)
    with as_guest(), pytest.raises(Fault) as caught:
        await service(engine, "good").state()
    assert caught.value.reason is Reason.NO_PERMISSION
    assert caught.value.message == "this process may not connect to the socket of the container engine"
    assert caught.value.mend.startswith(
        f"members of the group `daemon` may: `{engine.socket}` (srw-rw---- root daemon); "
    )
    engine.socket.chmod(0o600)
    with as_guest(), pytest.raises(Fault) as caught:
        await service(engine, "good").state()
    assert caught.value.mend.startswith(f"nobody but its owner may: `{engine.socket}` (srw------- root daemon); ")
    engine.run("good")
    assert (await service(engine, "good").state()).state is State.RUNNING


async def test_asking_whether_a_restart_is_allowed_restarts_nothing(engine: Engine) -> None:
    started = engine.run("good")
    for _ in range(3):
        await service(engine, "good").check_restart()
    assert engine.started("good") == started
    await service(engine, "never").check_restart()
    assert engine.state("never") == "created"
    with pytest.raises(Fault) as caught:
        await service(engine, "unknown").check_restart()
    assert caught.value.reason is Reason.NOT_FOUND


async def test_what_an_authorization_plugin_forbids_is_told_with_what_to_allow(tmp_path: Path) -> None:
    need_engine("docker")
    folder = tempfile.mkdtemp(prefix="gw-", dir="/tmp")
    with (
        plugin(f"{folder}/s") as policy,
        Engine("docker", {"good": CONTAINERS["good"]}, plugin=policy.socket) as world,
    ):
        started = world.run("good")
        file = tmp_path / "guideway.toml"
        file.write_text(f'[services.good]\ndriver = "container"\ncontainer = "good"\nsocket = "{world.socket}"\n')
        config = load(file)
        (found,) = await look(config, wiring.build(config))
        assert (found.state, found.reason, found.found) == (State.RUNNING, None, "is running")
        policy.forbidden = "/restart"
        (found,) = await look(config, wiring.build(config))
        assert (found.state, found.reason) == (State.RUNNING, Reason.NO_PERMISSION)
        assert "is running, and cannot be restarted: the engine does not let this process do that" in found.found
        assert found.mend is not None
        assert "/containers/good/restart`" in found.mend
        fault = await restart_fails(service(world, "good"))
        assert fault.reason is Reason.NO_PERMISSION
        assert "by the tests' policy" in fault.output
        policy.forbidden = "/json"
        with pytest.raises(Fault) as caught:
            await driver(world, "good").observe()
        assert caught.value.reason is Reason.NO_PERMISSION
        policy.forbidden = ""
        assert world.started("good") == started
        assert set(policy.versions) == {"v1.41"}  # which this engine and this program both speak


class Policy:
    """An authorization plugin (docs.docker.com/engine/extend/plugins_authorization): forbids what has a text in it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.forbidden = ""
        self.versions: list[str] = []

    def decide(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        if path == "/Plugin.Activate":
            return {"Implements": ["authz"]}
        uri = str(asked.get("RequestUri", ""))
        if uri.startswith("/v"):
            self.versions.append(uri.split("/")[1])
        if path == "/AuthZPlugin.AuthZReq" and self.forbidden and self.forbidden in uri:
            return {"Allow": False, "Msg": "forbidden by the tests' policy"}
        return {"Allow": True}


@contextmanager
def plugin(path: str) -> Iterator[Policy]:
    policy = Policy(Path(path))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            said = json.dumps(policy.decide(self.path, json.loads(asked or b"{}"))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            pass

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            return super().get_request()[0], ("", 0)  # the handler wants an address

    with Server(path, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield policy
        server.shutdown()
        thread.join()
    shutil.rmtree(policy.socket.parent)
