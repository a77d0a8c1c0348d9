"""The server under test: `guideway serve --http` in a process of its own, with services in its memory."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from guideway.server.sections import ENDPOINT
from tests.interop.oauth.processes import environment, running

PROGRAM = Path(sys.executable).with_name("guideway")

_SERVICES = 60

CONFIGURATION = """
{issuer}

[hosts."api.internal"]
probe = "memory"
"""

SERVICE = """
[services.{name}]
driver = "memory"
impact = "low"
reversibility = "easy"
state = "stopped"
settle_seconds = 0.01
"""


@dataclass(frozen=True)
class Guideway:
    """A server that runs. Each of its services is stopped until a program restarts it."""

    url: str
    _unused: Iterator[str] = field(default_factory=lambda: map("service-{}".format, itertools.count()))

    @property
    def grammar_url(self) -> str:
        """Where a caller's grammar is served without the protocol."""
        return self.url.removesuffix(ENDPOINT) + "/grammar"

    def stopped_service(self) -> str:
        """Return the name of a service that no test has touched."""
        return next(self._unused)


@contextmanager
def serving(issuer: str, folder: Path, **secrets: str) -> Iterator[Guideway]:
    """Run a server; ``issuer`` is the part of its configuration that says whose tokens it believes."""
    services = "".join(SERVICE.format(name=f"service-{number}") for number in range(_SERVICES))
    configuration = folder / "guideway.toml"
    configuration.write_text(CONFIGURATION.format(issuer=issuer) + services)
    command = [str(PROGRAM), "serve", "--http", "127.0.0.1:0", "--json", "--config", str(configuration)]
    with running(command, environment(**secrets)) as started:
        yield Guideway(started["url"])
