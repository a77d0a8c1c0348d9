"""A server that is told to stop: runs finish or are cancelled, each is told of by its id, and nobody is sent there."""

import json
import logging
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from guideway.server.app import serve_http
from tests.server.oauth.door import a_call, message
from tests.server.world import World

pytestmark = pytest.mark.anyio
SLOW = '[services.slow]\ndriver = "memory"\nimpact = "low"\nreversibility = "easy"\nstart_seconds = 1.0\n'
IDS = r"(?: \((.*?)\))?"
TOLD = re.compile(rf"of the runs that went on: (\d+) finished{IDS}, (\d+) cancelled{IDS}$", re.MULTILINE)


class Stdio:
    """``guideway serve --stdio`` with a client that writes lines and reads lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def call(self, program: str, identifier: int) -> None:
        body, _ = a_call(program)
        body["id"] = identifier
        body["params"]["_meta"]["progressToken"] = identifier
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(body) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def until_it_runs(self) -> None:
        while self.read().get("method") != "notifications/progress":
            pass

    def answer(self) -> dict[str, Any]:
        while "id" not in (line := self.read()):
            pass
        return line

    def ended(self) -> str:
        """Wait for the end; return what it logged."""
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        assert self.process.wait(30) == 0, said
        return said


@contextmanager
def stdio(folder: Path, more: str = "") -> Iterator[Stdio]:
    command = World().command(folder)
    file = folder / "guideway.toml"
    file.write_text(file.read_text() + SLOW + more)
    pipe = subprocess.PIPE
    with subprocess.Popen([command.command, *command.args], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Stdio(process)
        finally:
            process.kill()


def test_over_stdio_a_run_has_its_grace(tmp_path: Path) -> None:
    """Its answer still comes, what is asked after the signal is turned away, and the log has the run."""
    with stdio(tmp_path) as client:
        client.call('RESTART "slow"', 1)
        client.until_it_runs()
        client.process.send_signal(signal.SIGTERM)
        turned_away = None
        for identifier in range(2, 100):  # the signal may be on its way for a while
            client.call('PING "api.internal"', identifier)
            answer = client.answer()
            if answer["id"] == 1:
                break
            if "the server is stopping" in str(answer["result"]["content"]):
                turned_away = answer
                break
        assert turned_away is not None
        assert turned_away["result"]["isError"]
        report = client.answer()["result"]["structuredContent"]
        assert report["status"] == "completed"
        [(finished, ids, cancelled, _)] = TOLD.findall(client.ended())
        assert (finished, ids, cancelled) == ("1", report["run_id"], "0")


def test_over_stdio_a_run_that_outlives_the_grace_is_cancelled_and_answered(tmp_path: Path) -> None:
    with stdio(tmp_path, "[server]\ngrace_seconds = 0.1\n") as client:
        client.call('RESTART "stuck"', 1)
        client.until_it_runs()
        client.process.send_signal(signal.SIGTERM)
        report = client.answer()["result"]["structuredContent"]
        assert report["status"] == "cancelled"
        [(finished, _, cancelled, ids)] = TOLD.findall(client.ended())
        assert (finished, cancelled, ids) == ("0", "1", report["run_id"])


def test_over_stdio_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with stdio(tmp_path, "[server]\ngrace_seconds = 3600.0\n") as client:
        client.call('RESTART "stuck"', 1)
        client.until_it_runs()
        client.process.send_signal(signal.SIGTERM)
        client.call('PING "api.internal"', 2)
        while "stopping" not in str(client.answer()):  # until it has noticed
            client.call('PING "api.internal"', 2)
        client.process.send_signal(signal.SIGINT)
        assert client.answer()["result"]["structuredContent"]["status"] == "cancelled"
        assert "1 cancelled" in client.ended()


async def test_over_http_each_run_that_went_on_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """One finishes in the grace, one is cancelled."""
    caplog.set_level(logging.INFO)
    world = World()
    world.database.start_seconds = 0.3
    reports = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:

            async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
                await serve_http(world.server, signals=False, grace=1.0, task_status=task_status)

            async with anyio.create_task_group() as stops:
                url = await stops.start(serve)

                async def call(service: str) -> None:
                    body, headers = a_call(f'RESTART "{service}"')
                    async with httpx2.AsyncClient(timeout=30) as http:
                        answer = await http.post(url, json=body, headers=headers)
                    reports.append(answer.json()["result"]["structuredContent"])

                for service in ("database", "stuck"):
                    tasks.start_soon(call, service)
                while len(world.server.runs) < 2:
                    await anyio.sleep(0.01)
                stops.cancel_scope.cancel()
    by_status = {report["status"]: report["run_id"] for report in reports}
    [(finished, done, cancelled, ended)] = TOLD.findall(caplog.text)
    assert (finished, done, cancelled, ended) == ("1", by_status["completed"], "1", by_status["cancelled"])


async def test_a_server_that_drains_is_not_ready_and_still_answers(caplog: pytest.LogCaptureFixture) -> None:
    """Balancers find out that it goes before it turns anybody away."""
    caplog.set_level(logging.INFO)
    world = World()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as stops, httpx2.AsyncClient(timeout=30) as http:

            async def serve(*, task_status: anyio.abc.TaskStatus[str]) -> None:
                await serve_http(world.server, signals=False, grace=5, drain=0.5, task_status=task_status)

            url = await stops.start(serve)
            ready = str(httpx2.URL(url).join("/readyz"))
            assert (await http.get(ready)).status_code == 200
            stops.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                while not world.server.stopping:
                    await anyio.sleep(0.01)
                not_ready = await http.get(ready)
                assert (not_ready.status_code, not_ready.text) == (503, "not ok: stopping\n")
                body, headers = a_call('PING "api.internal"')
                answer = await http.post(url, json=body, headers=headers)
                assert answer.json()["result"]["structuredContent"]["status"] == "completed"
                body, headers = message("tools/list")
                status = 200
                while status == 200:
                    status = (await http.post(url, json=body, headers=headers)).status_code
                assert status == 503
