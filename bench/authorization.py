"""What tokens cost: a call with one beside a call that needs none, a new token, and many keys, issuers and tenants.

Servers are processes of their own, called in turns by one client each, as in ``bench.call``. Their issuers are one
plain HTTP server of this process, which counts what it is asked.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, RSAKey

from bench import Figure
from bench.call import Legacy, Modern, Server
from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.server.oauth.verifier import TrustedIssuers
from guideway.server.sections import IssuerSection, TenantSection

CALLS: Final = 1_000  # of each server in each era
TOKENS: Final = 400  # of each kind that are shown for the first time
MOST_WITH_TOKEN: Final = 1.10
MOST_GROWTH: Final = 1.10
FEW, MANY = 10, 100


def main() -> list[Figure]:
    """Measure all of it."""
    with Issuers(MANY) as issuers:
        return [*calls(issuers), *first_seen(issuers), *growth(issuers)]


class Issuers:
    """``number`` issuers on loopback, each with keys of both kinds, the first with ``number`` of each kind."""

    def __init__(self, number: int) -> None:
        self.asked = 0
        self._numbers = count()
        self._keys: dict[str, Key] = {
            "RS256": RSAKey.generate_key(2048, {"kid": "rsa"}),
            "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
        }
        more: list[Key] = [ECKey.generate_key("P-256", {"kid": f"ec-{index}"}) for index in range(number - 1)]
        few = self._published(list(self._keys.values()))
        many = self._published([*self._keys.values(), *more])
        outer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                kind, _, rest = self.path.lstrip("/").partition("/")
                body: dict[str, Any] = {"keys": many if kind == "many" else few}
                if not rest.endswith("keys"):  # the metadata, at the path that RFC 8414 inserts
                    name = self.path.rpartition("/")[2]
                    url = outer.url(name)
                    body = {"issuer": url, "jwks_uri": f"{outer.base}/{'many' if name == 'many' else 'few'}/keys"}
                content = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @staticmethod
    def _published(keys: list[Key]) -> list[dict[str, Any]]:
        return [dict(key.as_dict(private=False)) | {"use": "sig"} for key in keys]

    def url(self, name: str) -> str:
        """Return the issuer of a name."""
        return f"{self.base}/{name}"

    def key(self, algorithm: str) -> Key:
        """Return the key that signs by an algorithm."""
        return self._keys[algorithm]

    def token(
        self,
        audience: str,
        algorithm: str = "ES256",
        *,
        issuer: str = "few",
        tenant: str = "t0",
        subject: str = "bench",
    ) -> str:
        """Return a token that nobody has seen before, good for ten minutes."""
        now = int(time.time())
        claims = {
            "iss": self.url(issuer),
            "aud": audience,
            "sub": subject,
            "client_id": "bench",
            "tenant": tenant,
            "scope": " ".join(sorted(PROGRAM_SCOPES)),
            "iat": now,
            "exp": now + 600,
            "jti": str(next(self._numbers)),
        }
        key = self._keys[algorithm]
        return jwt.encode({"alg": algorithm, "typ": "at+jwt", "kid": key.kid}, claims, key)


def calls(issuers: Issuers) -> list[Figure]:
    """Call a server that asks for tokens and one that does not; the token is the same all the time."""
    figures = []
    with guideway(Configured(issuers)) as guarded, guideway(Configured()) as open_to_all:
        for era in (Modern, Legacy):
            shown = issuers.token(resource(guarded))
            plain, bearing = era(open_to_all), era(guarded, {"Authorization": f"Bearer {shown}"})
            before = issuers.asked
            base, ours = in_turns([plain.call, bearing.call], CALLS)
            for client in (plain, bearing):
                assert client.result()["structuredContent"]["status"] == "completed"
            name, ratio = era.__name__.lower(), ours / base
            asked = issuers.asked - before
            figures += [
                Figure(f"{name}: a call without authorization", f"{base * 1000:.3f} ms"),
                Figure(f"{name}: with a verified and cached token", f"{ours * 1000:.3f} ms"),
                Figure(f"{name}: ratio", f"{ratio:.3f}", f"<= {MOST_WITH_TOKEN}", ratio <= MOST_WITH_TOKEN),
                Figure(f"{name}: requests to the issuer meanwhile", str(asked), "0", asked == 0),
            ]
    return figures


def first_seen(issuers: Issuers) -> list[Figure]:
    """Verify tokens that were not seen before, beside the bare check of their signatures by the same library."""
    figures = []

    async def measure(algorithm: str) -> tuple[float, float, float]:
        tokens = [issuers.token("r", algorithm) for _ in range(2 * TOKENS)]
        key = type(issuers.key(algorithm)).import_key(issuers.key(algorithm).as_dict(private=False))
        full, bare, cached = [], [], []
        async with TrustedIssuers(sections(issuers, 1), resource="r", tenants=tenants(1)) as trusted:
            await trusted.verify(issuers.token("r", algorithm))
            for ours, theirs in zip(tokens[::2], tokens[1::2], strict=True):
                since = perf_counter()
                await trusted.verify(ours)
                full.append(perf_counter() - since)
                since = perf_counter()
                jws.deserialize_compact(theirs, key, algorithms=[algorithm])
                bare.append(perf_counter() - since)
                since = perf_counter()
                await trusted.verify(ours)
                cached.append(perf_counter() - since)
        return median(full), median(bare), median(cached)

    for algorithm in ("RS256", "ES256"):
        full, bare, cached = anyio.run(measure, algorithm)
        figures += [
            Figure(f"{algorithm}: the signature alone", f"{bare * 1e6:.0f} us"),
            Figure(f"{algorithm}: a token that was not seen before", f"{full * 1e6:.0f} us"),
            Figure(f"{algorithm}: ratio", f"{full / bare:.2f}"),
            Figure(f"{algorithm}: a token that was", f"{cached * 1e6:.1f} us"),
        ]
    return figures


def growth(issuers: Issuers) -> list[Figure]:
    """Call two servers in turns, of which the second has ten times as many keys, issuers or tenants."""
    figures = []
    for what in ("keys", "issuers", "tenants"):
        few = Configured(issuers)
        many = Configured(
            issuers,
            issuer="many" if what == "keys" else "few",
            issuers_count=MANY if what == "issuers" else FEW,
            tenants=MANY if what == "tenants" else FEW,
        )
        with guideway(few) as smaller, guideway(many) as larger:
            servers = ((smaller, few), (larger, many))
            cached = [
                Modern(server, {"Authorization": f"Bearer {issuers.token(resource(server), issuer=configured.issuer)}"})
                for server, configured in servers
            ]
            base, ours = in_turns([client.call for client in cached], CALLS)
            figures.append(_grown(f"{MANY} {what} for {FEW}: a call with a cached token", base, ours))
            unseen = [_unseen(issuers, server, configured) for server, configured in servers]
            base, ours = in_turns(unseen, TOKENS)
            figures.append(_grown(f"{MANY} {what} for {FEW}: a call with a new token", base, ours))
    return figures


def _grown(what: str, base: float, ours: float) -> Figure:
    value = f"{ours / base:.3f} ({base * 1000:.3f} and {ours * 1000:.3f} ms)"
    return Figure(what, value, f"<= {MOST_GROWTH}", ours / base <= MOST_GROWTH)


def _unseen(issuers: Issuers, server: Server, configured: "Configured") -> Callable[[], bytes]:
    client = Modern(server, {"Authorization": f"Bearer {issuers.token(resource(server), issuer=configured.issuer)}"})
    tokens = iter([issuers.token(resource(server), issuer=configured.issuer) for _ in range(TOKENS + 200)])

    def call() -> bytes:
        client.headers["Authorization"] = f"Bearer {next(tokens)}"
        return client.call()

    return call


def in_turns(calls: list[Callable[[], bytes]], times: int) -> list[float]:
    """Make calls in turns; return the median of each, in seconds."""
    spent: list[list[float]] = [[] for _ in calls]
    for number in range(100 + times):
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for index in order:
            since = perf_counter()
            calls[index]()
            if number >= 100:  # before that caches warm up
                spent[index].append(perf_counter() - since)
    return [median(times) for times in spent]


class Configured:
    """A configuration of the server; without issuers it serves its configured caller."""

    def __init__(
        self, issuers: Issuers | None = None, *, issuer: str = "few", issuers_count: int = FEW, tenants: int = FEW
    ) -> None:
        self.issuer = issuer
        self._issuers = issuers
        self._count = issuers_count
        self._tenants = tenants

    def toml(self) -> str:
        """Return the file."""
        text = (
            'caller = "bench"\n[callers.bench]\nscopes = ["mcp:diag:read", "mcp:diag:write"]\n'
            '[hosts."api.internal"]\nprobe = "memory"\n[services.database]\ndriver = "memory"\n'
        )
        if self._issuers is None:
            return text
        names = [self.issuer, *(f"other{index}" for index in range(self._count - 1))]
        for name in names:
            text += f'[issuers.{name}]\nissuer = "{self._issuers.url(name)}"\ntenant_claim = "tenant"\n'
        for index in range(self._tenants):
            text += f'[tenants.t{index}]\nmembers = {{ {self.issuer} = ["t{index}"] }}\n'
            text += f'[tenants.t{index}.services.own{index}]\ndriver = "memory"\n'
        return text


def sections(issuers: Issuers, number: int) -> dict[str, IssuerSection]:
    names = ["few", *(f"other{index}" for index in range(number - 1))]
    return {name: IssuerSection(issuer=issuers.url(name), tenant_claim="tenant") for name in names}


def tenants(number: int) -> dict[str, TenantSection]:
    return {f"t{index}": TenantSection(members={"few": frozenset({f"t{index}"})}) for index in range(number)}


def resource(server: Server) -> str:
    """Return the resource that a server's tokens must be for."""
    return f"http://127.0.0.1:{server.port}/mcp"


@contextmanager
def guideway(configured: Configured) -> Iterator[Server]:
    """Run ``guideway serve --http`` with a configuration, in a process of its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "guideway.toml")
        file.write_text(configured.toml())
        command = [str(Path(sys.executable).with_name("guideway")), "serve", "--http", "127.0.0.1:0", "--json"]
        with subprocess.Popen(
            [*command, "--config", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            try:
                told = "".join(iter(process.stdout.readline, "}\n")) + "}"
                yield Server(urlsplit(json.loads(told)["url"]).port or 0, process.pid)
            finally:
                process.terminate()
