"""Signing in and running over TLS: whom a shell trusts, and what it says of whom it does not."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from guideway.server.sign_in.errors import WrongUsageError
from guideway.server.sign_in.servers import server_url, trusted
from tests.server.certificates import Authority
from tests.server.sign_in.world import Place, Shell, serving


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Place]:
    pair = authority.server()
    tls = f'[server.tls]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"\n'
    folder = tmp_path_factory.mktemp("secure")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(folder, server=tls)) as place:
        yield place


def test_an_authority_can_be_named_by_an_option_or_the_environment(
    secure: Place, shell: Shell, authority: Authority
) -> None:
    assert secure.url.startswith("https://")
    assert shell.run("login", secure.url, "--ca-file", str(authority.file)).returncode == 0
    program = shell.program('PING "api.internal"')
    assert shell.run("run", program, "--server", secure.url, "--ca-file", str(authority.file)).returncode == 0
    assert shell.run("run", program, "--server", secure.url, SSL_CERT_FILE=str(authority.file)).returncode == 0


def test_a_certificate_that_nobody_trusts_is_said_to_be(secure: Place, shell: Shell) -> None:
    for command in (["login", secure.url], ["run", shell.program("PING"), "--server", secure.url]):
        ran = shell.run(*command)
        assert ran.returncode == 4
        assert ran.stderr.startswith(f"error: the certificate of `{secure.url[8:-4]}` is not trusted: ")
        assert "--ca-file FILE, or SSL_CERT_FILE" in ran.stderr
    assert shell.visits == []


def test_plain_http_to_a_port_with_tls_is_said_to_be_wrong(secure: Place, shell: Shell) -> None:
    ran = shell.run("login", secure.url.replace("https", "http"))
    assert ran.returncode == 4
    assert ran.stderr.startswith(f"error: the connection to `{secure.url[8:-4]}` broke: ")
    assert ran.stderr.endswith("  help: does it speak TLS there? then its URL begins with https\n")


def test_https_to_a_port_without_tls_is_said_to_be_wrong(place: Place, shell: Shell) -> None:
    ran = shell.run("login", place.url.replace("http", "https"))
    assert ran.returncode == 4
    assert ran.stderr.startswith(f"error: `{place.url[7:-4]}` speaks no TLS\n  help: is its port right?"), ran.stderr


def test_a_server_that_wants_a_client_certificate_is_said_to(
    shell: Shell, authority: Authority, tmp_path: Path
) -> None:
    pair = authority.server("strict")
    keys = f'certificate = "{pair.certificate}"\nkey = "{pair.key}"\nclient_ca = "{authority.file}"\n'
    (tmp_path / "guideway.toml").write_text(f"[server.tls]\n{keys}")
    server = Shell(tmp_path)
    with server.start("serve", "--http", "127.0.0.1:0", "--json") as process:
        assert process.stdout is not None
        said = ""
        while "}" not in said:
            said += process.stdout.readline()
        url = json.loads(said)["url"]
        ran = shell.run("login", url, "--ca-file", str(authority.file))
        process.terminate()
    assert ran.returncode == 4
    assert url[8:-4] in ran.stderr
    assert "client certificate" in ran.stderr
    assert "no such file" not in ran.stderr


@pytest.mark.parametrize("content", [None, "", "nothing of the kind", "-----BEGIN CERTIFICATE-----\n"])
def test_a_file_without_certificates_is_wrong_usage(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(WrongUsageError, match="cannot read the certificates in"):
        trusted(str(path))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("https://guideway.example.com", "https://guideway.example.com/mcp"),
        ("https://guideway.example.com/", "https://guideway.example.com/mcp"),
        ("https://GUIDEWAY.example.com:443/mcp", "https://guideway.example.com/mcp"),
        ("https://guideway.example.com:8443/ops/mcp", "https://guideway.example.com:8443/ops/mcp"),
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765/mcp"),
        ("http://127.0.0.1:8765/mcp/", "http://127.0.0.1:8765/mcp"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
        ("http://localhost:8765/mcp", "http://localhost:8765/mcp"),
    ],
)
def test_an_endpoint_has_one_name(given: str, named: str) -> None:
    assert server_url(given) == named
    assert server_url(named) == named


@pytest.mark.parametrize(
    "given", ["", "https://", "http://10.0.0.1/mcp", "https://a b/mcp", "https://a/\n", "https://é/"]
)
def test_what_is_no_endpoint_is_wrong_usage(given: str) -> None:
    with pytest.raises(WrongUsageError):
        server_url(given)
