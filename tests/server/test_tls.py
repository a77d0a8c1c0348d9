"""The HTTP door with TLS: who may connect, and how files that cannot be used are told."""

import datetime
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.tls import TLSAttribute
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from guideway.server.sections import TlsSection
from guideway.server.tls import Tls, TlsError
from guideway.server.tool import TOOL_NAME
from tests.server.certificates import DAY, Authority, Pair
from tests.server.world import Era, World

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls(pair: Pair, client_ca: Path | None = None) -> Tls:
    return Tls(TlsSection(certificate=pair.certificate, key=pair.key, client_ca=client_ca))


async def status(url: str, context: ssl.SSLContext) -> int:
    """Ask for what is not there: the answer says that the connection stands."""
    async with httpx2.AsyncClient(verify=context) as http:
        return (await http.get(httpx2.URL(url).join("/nothing"))).status_code


async def certificate_shown(url: str, context: ssl.SSLContext) -> bytes:
    """Connect, and return the certificate that the server shows."""
    address = httpx2.URL(url)
    stream = await anyio.connect_tcp(address.host, address.port or 0, tls=True, ssl_context=context)
    async with stream:
        shown = stream.extra(TLSAttribute.peer_certificate_binary)  # noqa: S610  # it is not Django's
        assert shown is not None
        return shown


async def refused(url: str, context: ssl.SSLContext) -> str:
    """Return what a client says that gets no answer. TLS 1.3 tells it of a bad certificate only when it reads."""
    with pytest.raises(httpx2.TransportError) as error:
        await status(url, context)
    return str(error.value)


@eras
async def test_the_official_client_calls_over_https(world: World, authority: Authority, era: Era) -> None:
    async with (
        world.serving(tls=tls(authority.server())) as url,
        httpx2.AsyncClient(verify=authority.trusting()) as http,
    ):
        assert url.startswith("https://127.0.0.1:")
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            result = await client.call_tool(TOOL_NAME, {"program": 'PING "api.internal"'})
    assert result.structured_content is not None
    assert result.structured_content["status"] == "completed"


async def test_host_and_origin_are_checked_as_over_http(world: World, authority: Authority) -> None:
    async with (
        world.serving(tls=tls(authority.server())) as url,
        httpx2.AsyncClient(verify=authority.trusting()) as http,
    ):
        here = httpx2.URL(url).port
        for origin, expected in [
            (f"https://localhost:{here}", 200),
            (f"http://localhost:{here}", 403),
            ("https://evil.example", 403),
        ]:
            answer = await http.get(httpx2.URL(url).join("/grammar"), headers={"Origin": origin})
            assert answer.status_code == expected


async def test_a_client_that_does_not_know_the_authority_does_not_connect(world: World, authority: Authority) -> None:
    async with world.serving(tls=tls(authority.server())) as url:
        said = await refused(url, ssl.create_default_context())
        assert "CERTIFICATE_VERIFY_FAILED" in said


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_before_1_2_is_not_spoken(world: World, authority: Authority, version: str) -> None:
    ancient = "DEFAULT:@SECLEVEL=0"  # else OpenSSL itself would refuse old versions
    client, serving = authority.trusting(), tls(authority.server())
    client.set_ciphers(ancient)
    client.minimum_version = client.maximum_version = ssl.TLSVersion[version]
    serving.context.set_ciphers(ancient)
    async with world.serving(tls=serving) as url:
        with pytest.raises(anyio.BrokenResourceError):
            await certificate_shown(url, client)
        assert await status(url, authority.trusting()) == 404
        serving.context.minimum_version = ssl.TLSVersion.TLSv1
        assert await certificate_shown(url, client), "nothing but the version was in the way"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_tls_1_2_and_later_is_spoken(world: World, authority: Authority, version: str) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    async with world.serving(tls=tls(authority.server())) as url:
        assert await status(url, context) == 404


async def test_plain_http_gets_no_answer_and_ends_nothing(
    world: World, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.serving(tls=tls(authority.server())) as url:
        with pytest.raises(httpx2.TransportError):
            async with httpx2.AsyncClient() as http:
                await http.get(url.replace("https://", "http://"))
        for sent in (b"", b"\x00" * 4096, b"\x16\x03\x01\xff\xff"):
            async with await anyio.connect_tcp("127.0.0.1", httpx2.URL(url).port or 0) as stream:
                await stream.send(sent)
        assert await status(url, authority.trusting()) == 404
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def test_with_client_ca_only_clients_of_that_authority_connect(
    world: World, authority: Authority, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    clients, other = Authority(tmp_path, "clients"), Authority(tmp_path, "other")
    between = Authority(tmp_path, "between", signed_by=clients)
    chain = between.client("below")
    chain.certificate.write_bytes(chain.certificate.read_bytes() + between.file.read_bytes())
    async with world.serving(tls=tls(authority.server(), clients.file)) as url:
        for name, shown, is_let_in in [
            ("good", clients.client(), True),
            ("good, by way of another", chain, True),
            ("none", None, False),
            ("another authority's", other.client("others"), False),
            ("the server's own authority's", authority.client("servers"), False),
            ("ended", clients.client("ended", begins=-3, ends=-1), False),
            ("not begun", clients.client("early", begins=1, ends=2), False),
            ("a server's", clients.server("a-server"), False),
        ]:
            with subtests.test(name):
                context = authority.trusting(shown)
                if is_let_in:
                    assert await status(url, context) == 404
                else:
                    await refused(url, context)
        assert await status(url, authority.trusting(clients.client())) == 404


async def test_an_authority_that_is_not_a_root_can_be_client_ca(
    world: World, authority: Authority, tmp_path: Path
) -> None:
    """Then the others below the same root are strangers."""
    root = Authority(tmp_path, "root")
    ours, theirs = Authority(tmp_path, "ours", signed_by=root), Authority(tmp_path, "theirs", signed_by=root)
    async with world.serving(tls=tls(authority.server(), ours.file)) as url:
        assert await status(url, authority.trusting(ours.client())) == 404
        await refused(url, authority.trusting(theirs.client("their-client")))


# ---- what is wrong with the files


def encrypted(pair: Pair) -> None:
    key = load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))


def of_another(pair: Pair) -> None:
    Authority(pair.key.parent, "another").server("other").key.rename(pair.key)


FAULTS: list[tuple[str, Callable[[Pair], Any], str]] = [
    ("certificate", lambda pair: pair.certificate.unlink(), "cannot be read: no such file or directory"),
    ("certificate", lambda pair: pair.certificate.write_text("hello"), "holds no certificate in PEM form"),
    ("certificate", lambda pair: pair.certificate.write_bytes(b""), "holds no certificate in PEM form"),
    ("certificate", lambda pair: pair.certificate.write_bytes(pair.key.read_bytes()), "holds no certificate in PEM"),
    ("certificate", lambda pair: pair.certificate.write_bytes(b" " * 2_000_000), "is larger than 1,048,576 bytes"),
    ("key", lambda pair: pair.key.unlink(), "cannot be read: no such file or directory"),
    ("key", lambda pair: pair.key.write_text("hello"), "holds no private key in PEM form"),
    ("key", lambda pair: pair.key.write_bytes(pair.certificate.read_bytes()), "holds no private key in PEM form"),
    ("key", encrypted, "is encrypted; give a key without a passphrase"),
    ("key", of_another, "is not the key of `"),
    ("key", lambda pair: pair.key.chmod(0o604), "can be read or written by others; chmod g-w,o-rwx /"),
    ("key", lambda pair: pair.key.chmod(0o660), "can be read or written by others; chmod g-w,o-rwx /"),
]


@pytest.mark.parametrize(("key", "spoil", "words"), FAULTS)
def test_files_that_cannot_be_used_are_told_by_key_and_file(
    authority: Authority, key: str, spoil: Callable[[Pair], Any], words: str
) -> None:
    pair = authority.server()
    spoil(pair)
    with pytest.raises(TlsError) as error:
        tls(pair)
    path = pair.certificate if key == "certificate" else pair.key
    assert str(error.value).startswith(f"`server.tls.{key}` `{path}` {words}")
    assert "secret" not in str(error.value)


def test_every_file_that_cannot_be_used_is_told_at_once(authority: Authority, tmp_path: Path) -> None:
    pair = authority.server()
    pair.certificate.unlink()
    pair.key.write_text("hello")
    pair.key.chmod(0o644)
    with pytest.raises(TlsError) as error:
        tls(pair, tmp_path / "nothing.pem")
    said = [(problem.key, problem.message.split("` ")[1].split()[0]) for problem in error.value.problems]
    assert said == [
        ("server.tls.certificate", "cannot"),
        ("server.tls.client_ca", "cannot"),
        ("server.tls.key", "can"),
        ("server.tls.key", "holds"),
    ]


def test_a_group_may_read_the_key(authority: Authority) -> None:
    pair = authority.server()
    pair.key.chmod(0o640)
    tls(pair)


def test_a_key_that_openssl_finds_too_weak_is_told(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.server.certificates.ec.generate_private_key",
        lambda _: rsa.generate_private_key(65537, 1024),  # noqa: S505  # meant
    )
    with pytest.raises(TlsError, match=r"^`server.tls.certificate` `.*` cannot be used: ee key too small$"):
        tls(authority.server())


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [(-1, 2, None), (-3, -1, "ended on 2"), (1, 2, "begins on 2")],
)
def test_a_certificate_that_does_not_hold_now_is_a_warning(
    authority: Authority, begins: int, ends: int, words: str | None
) -> None:
    pair = authority.server(begins=begins, ends=ends)
    told = list(tls(pair).warnings(NOW))
    assert told == [] if words is None else told[0].startswith(f"`server.tls.certificate` `{pair.certificate}` {words}")


def test_the_certificate_that_ends_first_counts(authority: Authority) -> None:
    long, short = authority.server("long", ends=9), authority.server("short", ends=3)
    long.certificate.write_bytes(long.certificate.read_bytes() + short.certificate.read_bytes())
    assert abs(tls(long).good_until - (NOW + 3 * DAY)) < DAY / 24


def test_an_authority_of_clients_that_has_ended_is_a_warning(authority: Authority) -> None:
    told = list(tls(authority.server(ends=9), authority.file).warnings(NOW + 5 * DAY))
    assert told == [f"`server.tls.client_ca` `{authority.file}` has ended: no client can be let in"]


# ---- reading the files again


async def test_new_connections_have_the_certificate_that_was_read_again(world: World, authority: Authority) -> None:
    serving = tls(authority.server())
    async with world.serving(tls=serving) as url:
        trusting = authority.trusting()
        before = await certificate_shown(url, trusting)
        authority.server()
        assert await certificate_shown(url, trusting) == before
        serving.reload()
        assert await certificate_shown(url, trusting) != before


async def test_files_that_cannot_be_used_leave_the_certificate_as_it_was(
    world: World, authority: Authority, subtests: pytest.Subtests
) -> None:
    pair = authority.server()
    serving = tls(pair)
    async with world.serving(tls=serving) as url:
        trusting = authority.trusting()
        before = await certificate_shown(url, trusting)
        for _, spoil, words in FAULTS:
            with subtests.test(words):
                authority.server().key.chmod(0o600)
                spoil(pair)
                with pytest.raises(TlsError):
                    serving.reload()
                assert await certificate_shown(url, trusting) == before
                assert await status(url, authority.trusting()) == 404


# ---- the command


def command(world: World, folder: Path, pair: Pair) -> list[str]:
    """Return the command that serves a world with TLS."""
    stdio = world.command(folder)
    with (folder / "guideway.toml").open("a") as file:
        file.write(f'[server.tls]\ncertificate = "{pair.certificate.name}"\nkey = "{pair.key.name}"\n')
    return [stdio.command, *(each for each in stdio.args if each != "--stdio"), "--http", "127.0.0.1:0", "--json"]


@contextmanager
def serving_by_command(world: World, folder: Path, pair: Pair) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve by ``guideway serve``; give the process and the URL that it tells."""
    arguments = command(world, folder, pair)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told = ""
            while not told.endswith("}\n") and (line := server.stdout.readline()):
                told += line
            yield server, json.loads(told)["url"]
        finally:
            server.kill()


async def test_sighup_has_the_certificate_read_again(world: World, authority: Authority, tmp_path: Path) -> None:
    pair, trusting = authority.server(), authority.trusting()
    with serving_by_command(world, tmp_path, pair) as (server, url), anyio.fail_after(30):
        before = await certificate_shown(url, trusting)
        good = pair.key.read_bytes()
        pair.key.write_text("hello")
        server.send_signal(signal.SIGHUP)
        assert server.stderr is not None
        while "the certificate is still the old one" not in (line := server.stderr.readline()):
            assert server.poll() is None
        assert f"`server.tls.key` `{pair.key}` holds no private key" in line
        assert await certificate_shown(url, trusting) == before
        pair.key.write_bytes(good)
        authority.server()
        server.send_signal(signal.SIGHUP)
        while await certificate_shown(url, trusting) == before:
            await anyio.sleep(0.01)
        assert await status(url, trusting) == 404


def test_the_command_names_file_and_key_of_what_cannot_be_used(
    world: World, authority: Authority, tmp_path: Path
) -> None:
    pair = authority.server()
    pair.key.chmod(0o644)
    ended = subprocess.run(command(world, tmp_path, pair), capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 4
    error = json.loads(ended.stdout)["error"]
    assert error["code"] == "configuration"
    assert error["problems"][0]["key"] == "server.tls.key"
    assert error["problems"][0]["help"] == f"chmod g-w,o-rwx {pair.key}"
    assert str(tmp_path / "guideway.toml") in error["message"]


def test_the_command_warns_of_a_certificate_that_has_ended(world: World, authority: Authority, tmp_path: Path) -> None:
    with serving_by_command(world, tmp_path, authority.server(begins=-3, ends=-1)) as (server, url):
        assert url.startswith("https://127.0.0.1:")
        server.terminate()
        _, said = server.communicate(timeout=30)
    assert "warning: `server.tls.certificate` `" in said


# ---- doctor


def doctor(folder: Path, pair: Pair, client_ca: Path | None = None) -> list[dict[str, Any]]:
    """Return what ``guideway doctor`` finds of TLS."""
    file = folder / "guideway.toml"
    file.write_text(f'[server.tls]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"\n')
    if client_ca:
        file.write_text(file.read_text() + f'client_ca = "{client_ca}"\n')
    arguments = [str(Path(sys.executable).with_name("guideway")), "doctor", "--json", "--config", str(file)]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    return [finding for finding in json.loads(ended.stdout)["findings"] if finding["about"] == "tls"]


@pytest.mark.parametrize(("ends", "grade"), [(60, "ok"), (13, "note")])
def test_doctor_says_until_when_the_certificate_is_good(
    authority: Authority, tmp_path: Path, ends: int, grade: str
) -> None:
    [finding] = doctor(tmp_path, authority.server(ends=ends))
    assert finding["grade"] == grade
    assert finding["message"] == f"the certificate is good until {NOW + ends * DAY:%Y-%m-%d}"
    assert (finding["mend"] is None) == (grade == "ok")


def test_doctor_finds_what_is_wrong_with_the_files(authority: Authority, tmp_path: Path) -> None:
    [ended] = doctor(tmp_path, authority.server("ended", begins=-3, ends=-1))
    assert ended["grade"] == "wrong"
    assert "ended on 2" in ended["message"]
    assert "SIGHUP" in ended["mend"]
    open_to_all = authority.server()
    open_to_all.key.chmod(0o604)
    findings = doctor(tmp_path, open_to_all, tmp_path / "nothing.pem")
    assert [(finding["grade"], finding["message"].split()[0]) for finding in findings] == [
        ("wrong", "`server.tls.client_ca`"),
        ("wrong", "`server.tls.key`"),
    ]
    assert findings[1]["mend"] == f"chmod g-w,o-rwx {open_to_all.key}"
