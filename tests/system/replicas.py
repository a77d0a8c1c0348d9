"""Real replicas for tests: `guideway serve` on one PostgreSQL, behind HAProxy, configured as examples/deploy has it.

Of what is shipped there only addresses are changed, and what is restarted is services in each replica's memory.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import httpx2
from tests.server.certificates import Authority
from tests.server.oauth.door import message
from tests.server.oauth.issuer import Issuer
from tests.store import postgresql
from tests.system.machine import need, program
from tests.system.supervisord import wait_for

from guideway.server.tool import TOOL_NAME

DEPLOY: Final = Path(__file__).parents[2] / "examples" / "deploy"
GUIDEWAY: Final = Path(sys.executable).with_name("guideway")

INVENTORY: Final = """
[hosts."api.internal"]
probe = "memory"

[services.web]
driver = "memory"
settle_seconds = 0
impact = "low"
reversibility = "easy"

[services.counted]
driver = "memory"
settle_seconds = 0
impact = "high"
reversibility = "easy"
restarts_per_hour = 2
cooldown_seconds = 0

[services.database]
driver = "memory"
settle_seconds = 0
impact = "high"
reversibility = "hard"

[services.slow]
driver = "memory"
start_seconds = 40
restart_seconds = 60
impact = "low"
reversibility = "easy"
"""


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Return a text that is shipped with other addresses in it; each must be there."""
    for shown, here in pairs:
        assert shown in text, shown
        text = text.replace(shown, here)
    return text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Replica:
    """One server, which can be killed and started again at the same address."""

    def __init__(self, name: str, configuration: Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._configuration = configuration
        self._environment = environment
        self._log = configuration.with_name(f"{name}.log")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; it serves when ``serves`` says so."""
        command = [str(GUIDEWAY), "serve", "--http", f"127.0.0.1:{self.port}", "--config", str(self._configuration)]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
            )

    def serves(self) -> bool:
        """Say whether it is ready."""
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=3).status_code == 200
        except httpx2.HTTPError:
            return False

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process is not None

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(40)
            self._process = None

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()


def _log_of(replica: Replica) -> str:
    return replica.log


@dataclass
class Fleet:
    """Three replicas, their database, their issuer, and the load balancer at ``url``."""

    folder: Path
    issuer: Issuer
    database: postgresql.Server
    authority: Authority
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        configuration = self.folder / "guideway.toml"
        signs = self.folder / "audit.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", signs], check=True, capture_output=True)
        signs.chmod(0o600)
        shipped = (DEPLOY / "guideway.toml").read_text(encoding="utf-8").partition("# What is watched")[0]
        configuration.write_text(
            replaced(
                shipped,
                ("https://guideway.example.com/mcp", self.url),
                ("10.89.76.2", "127.0.0.1"),
                ("https://login.example.com", self.issuer.url),
                ("/etc/guideway/audit/key.pem", str(signs)),
                ("drain_seconds = 5", "drain_seconds = 2"),
            )
            + INVENTORY
        )
        configuration.chmod(0o644)
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": "/nonexistent",
            "GUIDEWAY_DATABASE": self.database.database(),
            "GUIDEWAY_STATE_KEYS": secrets.token_hex(32),
            "GUIDEWAY_PAGE_SECRET": secrets.token_hex(8),
        }
        self.replicas = [Replica(f"replica{number}", configuration, environment) for number in (1, 2, 3)]

    @cached_property
    def url(self) -> str:
        """The endpoint as clients know it."""
        return f"https://localhost:{self.port}/mcp"

    def token(self, subject: str = "mona", scope: str = "mcp:diag:read mcp:diag:write", **claims: Any) -> str:
        """Return an access token."""
        return self.issuer.token(aud=self.url, sub=subject, scope=scope, **claims)

    @property
    def approver(self) -> dict[str, str]:
        """What somebody shows who may approve."""
        return {"Authorization": f"Bearer {self.token('ada', 'mcp:diag:approve')}"}

    @contextlib.contextmanager
    def running(self) -> Iterator["Fleet"]:
        """Run the replicas."""
        with contextlib.ExitStack() as stack:
            for replica in self.replicas:
                stack.callback(replica.end, signal.SIGKILL)
                replica.start()
            for replica in self.replicas:
                wait_for(replica.serves, "a replica to be ready", partial(_log_of, replica), seconds=60)
            yield self

    @contextlib.contextmanager
    def balanced(self) -> Iterator[None]:
        """Run HAProxy in front of them."""
        need("a load balancer", {"haproxy": "haproxy"}, root=False)
        haproxy = program("haproxy")
        assert haproxy is not None
        pair = self.authority.server()
        pem = self.folder / "guideway.pem"
        pem.touch(mode=0o600)
        pem.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
        shipped = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
        servers = [(f"replica{n}:8765", f"127.0.0.1:{one.port}") for n, one in enumerate(self.replicas, 1)]
        here = ("bind :8443", f"bind 127.0.0.1:{self.port}"), ("/etc/haproxy/guideway.pem", str(pem)), *servers
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(replaced(shipped, *here))
        log = self.folder / "haproxy.log"
        with (
            log.open("wb") as output,
            subprocess.Popen([haproxy, "-f", str(configuration)], stdout=output, stderr=output) as process,
        ):
            try:
                wait_for(
                    lambda: process.poll() is not None or self._answers(), "HAProxy to find a replica", log.read_text
                )
                assert process.poll() is None, log.read_text()
                yield
            finally:
                process.terminate()

    def _answers(self) -> bool:
        try:
            return httpx2.get(self.url, verify=self.authority.trusting(), timeout=3).status_code == 401
        except httpx2.HTTPError:
            return False


async def call(
    replica: Replica | str,
    token: str,
    text: str,
    *,
    meta: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    **params: Any,
) -> httpx2.Response:
    """Send a call of 2026-07-28, as clients do, to one replica; ``meta`` is added to its own."""
    arguments = {"program": text, **params.pop("arguments", {})}
    body, about = message("tools/call", name=TOOL_NAME, arguments=arguments, **params)
    body["params"]["_meta"] |= meta or {}
    about |= {"Authorization": f"Bearer {token}"} | (headers or {})
    url = replica if isinstance(replica, str) else f"{replica.url}/mcp"
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(url, json=body, headers=about)


def result(answer: httpx2.Response) -> dict[str, Any]:
    """Return the result of a call that was let in."""
    assert answer.status_code == 200, answer.text
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1].removeprefix("data:")
    found: dict[str, Any] = json.loads(text)["result"]
    return found


def ending(found: dict[str, Any]) -> str:
    """Return how a call ended: its status, or the code of its refusal."""
    report = found["structuredContent"]
    return str(report["refusal"]["code"] if report["refusal"] else report["status"])
