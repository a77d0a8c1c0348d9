"""Nothing that opens a door is written down: not by the server, not in an answer, and not by what it asks elsewhere.

Every test of this folder is watched for that (``conftest``). Here the watch itself is tested, and the whole catalogue
is shown to the real command in a process of its own, whose every output is searched; and services, probes and issuers
are asked what they were sent.
"""

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from guideway.interpreter.probes.http import HttpOptions
from guideway.interpreter.probes.tcp import TcpOptions
from tests.attacks.oauth import bodies, forge, proofs, requests, test_tokens, wire
from tests.attacks.oauth.provider import Provider
from tests.attacks.oauth.stage import Stage, World, corp, ground, staged, trusted
from tests.attacks.oauth.watch import leaks

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJjb3JwIiwic3ViIjoibWFsbG9yeSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmU"  # noqa: S105


@pytest.mark.parametrize(
    "written",
    [
        f"refused {TOKEN}",
        TOKEN[:40],
        f"...{TOKEN[30:70]}...",
        TOKEN.rpartition(".")[2],
        f"{{'authorization': 'Bearer {TOKEN[:33]}'}}",
        "a b introspection-secret c",
    ],
)
def test_the_watch_sees_a_secret_and_any_larger_piece_of_one(written: str) -> None:
    assert leaks(written, {TOKEN, "introspection-secret"})


def test_the_watch_sees_nothing_where_nothing_is() -> None:
    assert not leaks(f"refused a token: {TOKEN[:12]} {TOKEN[20:34]} the token has expired\n" * 100, {TOKEN})


def test_the_watch_hears_what_the_server_says(stage: Stage, heard: list[str]) -> None:
    """A silent log would have no secrets either."""
    wire.answer(stage.url, wire.calling(stage.url, "Bearer x"))
    assert [each for each in heard if "refused a token" in each]
    assert "invalid_token" in wire.ANSWERED[-1].decode()


def test_the_watch_hears_what_went_wrong_too(heard: list[str]) -> None:
    """Tracebacks, and the arguments of what was logged."""
    try:
        int(TOKEN)  # its error says what it is that is no number
    except ValueError:
        logging.getLogger("somebody").exception("something")
    logging.getLogger("somebody").debug("%.3s", {"token": TOKEN[::-1]})
    assert leaks(heard[0], {TOKEN})
    assert leaks(heard[1], {TOKEN[::-1]})


#: Not Host and Origin: they are addresses, and an operator has to read which one was turned away.
ODD_PLACES = (
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Accept",
    "Content-Type",
    "Content-Encoding",
    "User-Agent",
    "Referer",
    "Cookie",
    "If-None-Match",
    "Last-Event-ID",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "Traceparent",
    "Baggage",
    "DPoP",
)


@pytest.mark.parametrize("name", ODD_PLACES)
def test_a_token_in_an_odd_place_is_not_logged_either(stage: Stage, name: str) -> None:
    """A client that mixes its headers up; and one that does so while it is let in."""
    token = stage.ground.corp.token()
    for authorization in (None, f"Bearer {token}"):
        sent = wire.calling(stage.url, authorization, fields=[(name, token)], without=[name])
        assert wire.answers(stage.url, sent)


@pytest.mark.parametrize("target", ["/{}", "/mcp/{}", "/mcp?{}", "/mcp?token={}", "/grammar/{}", "/.well-known/{}"])
def test_a_token_in_a_path_is_not_logged_either(stage: Stage, target: str) -> None:
    token = stage.ground.corp.token()
    assert wire.answers(stage.url, wire.calling(stage.url, f"Bearer {token}", target=target.format(token)))


# ---- the real command


CONFIGURATION = """
[server]
url = "http://127.0.0.1:{port}/mcp"

[issuers.corp]
issuer = "{corp}"
tenant_claim = "org"

[issuers.partner]
issuer = "{partner}"
tenant_claim = "org"

[issuers.desk]
issuer = "{desk}"
tokens = "opaque"
introspection = {{ client_id = "guideway", client_secret_file = "secret", cache_seconds = 0 }}

[tenants.acme]
members = {{ corp = ["org_acme"], partner = ["team_acme"] }}

[hosts."api.internal"]
probe = "memory"

[services.database]
driver = "memory"
impact = "low"
reversibility = "easy"
settle_seconds = 0.0
"""


@contextmanager
def served(folder: Path, port: int, **urls: str) -> Iterator[str]:
    """Run the real command on a configuration, with all that Python can be asked to say; give the URL."""
    (folder / "guideway.toml").write_text(CONFIGURATION.format(port=port, **urls))
    noisy = "import logging, sys; logging.basicConfig(level=logging.DEBUG); sys.argv[0] = 'guideway'; "
    noisy += "from guideway.server.cli import main; sys.exit(main())"
    command = ["serve", "--http", f"127.0.0.1:{port}", "--json", "--config", str(folder / "guideway.toml")]
    with (folder / "stdout").open("wb") as printed, (folder / "stderr").open("wb") as complained:
        server = subprocess.Popen(
            [sys.executable, "-c", noisy, *command],
            stdout=printed,
            stderr=complained,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            while not (line := (folder / "stdout").read_text()).strip().endswith("}"):
                assert server.poll() is None, (folder / "stderr").read_text()
            yield json.loads(line)["url"]
        finally:
            server.terminate()
            assert server.wait(60) == 0


def test_the_whole_attack_leaves_no_secret_in_any_output(tmp_path: Path) -> None:
    """All of the catalogue is shown to the real command, which logs everything that it and its libraries can log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = forge.secret("introspection-secret-9f8e7d6c5b4a")
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "secret").chmod(0o600)
    providers = {"corp": corp(), "partner": Provider().publish(forge.ec_key("partner-ec")), "desk": Provider()}
    start = len(wire.ANSWERED)
    urls = {name: provider.url for name, provider in providers.items()}
    with ExitStack() as stack:
        for provider in providers.values():
            stack.enter_context(provider)
        url = stack.enter_context(served(tmp_path, port, **urls))
        stage = Stage(World(), url, ground(providers, url), providers)
        for row in test_tokens.CATALOGUE:
            token = row.make(stage.ground)
            for door in ("a call", "the grammar"):
                wire.answers(url, test_tokens.DOORS[door](stage, token))
        good = stage.ground.corp.token()
        for request in requests.ALL:
            wire.answers(url, request.make(stage, good), method=request.method)
        reader = stage.ground.corp.saying(scope="mcp:diag:read")
        for body in bodies.WRITTEN:
            wire.answers(url, wire.calling(url, f"Bearer {reader}", body=body.content))
        bound = stage.ground.corp.saying(cnf={"jkt": proofs.CLIENT.thumbprint()})
        for shown in proofs.ROWS:
            fields = [("DPoP", value) for value in shown.make(stage, bound)]
            wire.answers(url, wire.calling(url, f"{shown.scheme} {bound}", fields=fields))
        for opaque in (forge.secret("opaque-token-that-is-known"), forge.secret("opaque-token-that-is-not")):
            mint = forge.Mint(providers["desk"].url, url, forge.ec_key("corp-ec"))
            providers["desk"].active = {"opaque-token-that-is-known": {"active": True, **mint.payload()}}
            wire.answers(url, wire.calling(url, f"Bearer {opaque}"))
    written = [(tmp_path / name).read_text("utf-8", "replace") for name in ("stdout", "stderr")]
    answered = [each.decode("latin-1") for each in wire.ANSWERED[start:]]
    assert len(answered) > 700
    assert any('"status":"completed"' in each for each in answered)
    assert "refused a token" in written[1]
    assert not leaks("\n".join([*written, *answered]), forge.SECRETS | forge.KEYS)
    assert "Traceback" not in written[1]
    assert not [path for path in tmp_path.iterdir() if path.name not in {"guideway.toml", "secret", "stdout", "stderr"}]


# ---- what is sent on


def test_a_token_is_never_sent_on() -> None:
    """Whoever gets a token can use it: a service, a probe's host, or another issuer must not."""
    listener = Provider(replies={"/health": (200, {}, b"well")})
    port = int(listener.url.rpartition(":")[2])
    providers = {"corp": corp(), "partner": Provider().publish(forge.ec_key("partner-ec"))}
    world = World(
        probes={
            "web.internal": HttpOptions(url=f"{listener.url}/health").build(),
            "tcp.internal": TcpOptions(address="127.0.0.1", port=port).build(),
        }
    )
    with listener, staged(providers=providers, issuers=trusted(providers), world=world) as stage:
        program = 'PING "web.internal"\nPING "tcp.internal"\nRESTART "database"'
        tokens = [stage.ground.corp.token(), stage.ground.partner.token(), stage.ground.stranger.token()]
        statuses = [
            wire.answer(stage.url, wire.calling(stage.url, f"Bearer {token}", wire.call(program))).status
            for token in tokens
        ]
        assert statuses == [200, 200, 401]
    assert [seen for seen in listener.seen if seen.startswith(b"GET /health")]
    sent = b"\n".join([*listener.seen, *(seen for provider in providers.values() for seen in provider.seen)]).decode()
    assert not leaks(sent, tokens)
    assert "\nAuthorization" not in sent
