"""A server with its issuer, each as users have it, and a shell of somebody who signs in there.

The server is ``guideway serve --http`` in a process of its own, the issuer the development issuer. The browser is a
program that fills in the issuer's forms, started as a person's browser is.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from guideway.dsl.scopes import Scope
from tests.scripts.session import environment
from tests.server.development_issuer.world import CODE, PEOPLE
from tests.server.development_issuer.world import running as issuer_running

GUIDEWAY = Path(sys.executable).with_name("guideway")
PATIENCE = 120.0
ROOT = Path(__file__).parents[3]
READ, WRITE = Scope.READ.value, Scope.WRITE.value

CONFIGURATION = """
[server]
port = {port}
{server}
[issuers.test]
issuer = "{issuer}"
leeway_seconds = 0
{issuer_keys}
{inventory}"""

INVENTORY = """
[hosts."api.internal"]
probe = "memory"

[services.database]
driver = "memory"
impact = "low"
reversibility = "easy"
state = "stopped"
settle_seconds = 0.05

[services.cache]
driver = "memory"
impact = "low"
reversibility = "easy"
behaviour = "dies_at_once"
settle_seconds = 0

[services.payments]
driver = "memory"
settle_seconds = 0

[services.slow]
driver = "memory"
impact = "low"
reversibility = "easy"
start_seconds = 600
restart_seconds = 900
"""

BROWSER = """#!{python}
\"\"\"A browser that a person uses to sign in: it opens a page, and follows it on and back to the shell.\"\"\"
import sys, anyio, httpx2
sys.path.insert(0, {root!r})
from tests.server.sign_in.started import led_to
with open({started!r}, "a") as started:
    print(*sys.argv[1:], file=started)
address = led_to(sys.argv[1])
from tests.server.development_issuer.browser import approve
with open({visits!r}, "a") as visits:
    print(address, file=visits)
scopes = {scopes!r}
location = anyio.run(lambda: approve(address, {code!r}, {person!r}, scopes=scopes, decision={decision!r}))
with httpx2.Client(trust_env=False, timeout=30) as http:
    page = http.get(location)
with open({visits!r}, "a") as visits:
    print(page.status_code, " ".join(page.text.split()), file=visits)
"""


@dataclass
class Shell:
    """The shell of a person: what they keep, and the browser that they have."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        """Where tokens are kept in files."""
        return self.home / ".local" / "state" / "guideway" / "tokens"

    @property
    def visits(self) -> list[str]:
        """What the browser was sent to, and the page that it ended at, in turn."""
        path = self.home / "visits"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def started(self) -> list[str]:
        """The arguments that the browser was started with, a line for each time."""
        return (self.home / "started").read_text().splitlines()

    def has_browser(
        self,
        person: str = "alice",
        scopes: Sequence[str] | None = None,
        decision: str = "allow",
        code: str = CODE,
    ) -> None:
        """Give the person a browser in which they decide; ``scopes`` None leaves ticked what is.

        ``code`` is the sign-in code of the issuer.
        """
        program = self.home / "browser"
        program.write_text(
            BROWSER.format(
                python=sys.executable,
                root=str(ROOT),
                visits=str(self.home / "visits"),
                started=str(self.home / "started"),
                code=code,
                person=person,
                scopes=scopes,
                decision=decision,
            )
        )
        program.chmod(0o700)
        self.variables["BROWSER"] = f"{shlex.quote(str(program))} %s"

    def environment(self) -> dict[str, str]:
        """Return the environment of this shell."""
        return {**environment(self.home), "GUIDEWAY_TOKENS": "file", **self.variables}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start ``guideway`` where no terminal is."""
        return subprocess.Popen(
            [GUIDEWAY, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env={**self.environment(), **variables},
            text=True,
        )

    def run(self, *arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``guideway`` where no terminal is; ``typed`` is its standard input."""
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(typed, timeout=PATIENCE)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def json(self, *arguments: str) -> Any:
        """Run ``guideway`` with ``--json``; return what it wrote."""
        return json.loads(self.run(*arguments, "--json").stdout)

    def kept(self) -> dict[str, Any]:
        """Return the one entry that is kept in a file."""
        (path,) = self.folder.glob("*.json")
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    def change(self, **changes: Any) -> None:
        """Change the one entry that is kept."""
        (path,) = self.folder.glob("*.json")
        path.write_text(json.dumps({**self.kept(), **changes}))

    def program(self, text: str, name: str = "program.diag") -> str:
        """Write a program; return its name."""
        (self.home / name).write_text(text)
        return name


@dataclass
class Place:
    """A server that runs. ``log`` is what it writes to standard error."""

    url: str
    issuer: str
    log: Path


@asynccontextmanager
async def serving(
    folder: Path, *, issuer: str | None = None, server: str = "", issuer_keys: str = ""
) -> AsyncIterator[Place]:
    """Run a server that trusts an issuer: this one, or one that is run for it. ``server`` are more of its keys."""
    port = free_port()
    url = f"{'https' if 'tls' in server else 'http'}://127.0.0.1:{port}/mcp"
    async with AsyncExitStack() as stack:
        if issuer is None:
            people = {**PEOPLE, "carol": frozenset[Scope](), "ada": frozenset({Scope.APPROVE})}
            issuer = await stack.enter_async_context(issuer_running(folder / "issuer", resource=url, people=people))
        configuration = CONFIGURATION.format(
            port=port, issuer=issuer, server=server, issuer_keys=issuer_keys, inventory=INVENTORY
        )
        (folder / "guideway.toml").write_text(configuration)
        log = folder / "server.log"
        with log.open("wb") as errors:
            process = await anyio.open_process(
                [GUIDEWAY, "serve", "--http", "--json"],
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )
        async with process:
            try:
                assert process.stdout is not None
                with anyio.fail_after(PATIENCE):
                    said = b""
                    while b"}" not in said:
                        said += await process.stdout.receive()
                yield Place(json.loads(said)["url"], issuer, log)
            finally:
                process.terminate()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def everything(folder: Path) -> str:
    """Return the text of all files of a folder, and of those in it."""
    return "\n".join(
        path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and os.access(path, os.R_OK)
    )
