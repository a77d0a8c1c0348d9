"""Client id metadata documents: fetched from a real server, and what is tried with an address of one's own."""

import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from guideway.server.development_issuer.documents import ClientDocuments, DocumentRefused, is_public
from tests.server.certificates import Authority
from tests.server.development_issuer.browser import Browser
from tests.server.development_issuer.world import CODE, READ, REDIRECT, Client, opened, running

pytestmark = pytest.mark.anyio


class Site:
    """A web site with TLS on this machine. ``answers`` has status, headers and body by path."""

    def __init__(self, authority: Authority) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.headers["Host"], self.path))
                status, headers, body = site.answers[self.path]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class names it
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = authority.server()
        context.load_cert_chain(pair.certificate, pair.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"

    def publish(self, path: str = "/client.json", *, kind: str = "application/json", **changed: Any) -> str:
        """Publish a document, with some members changed or, as None, left out; return its address."""
        document = {"client_id": f"{self.url}{path}", "client_name": "A client", "redirect_uris": [REDIRECT], **changed}
        body = json.dumps({name: value for name, value in document.items() if value is not None}).encode()
        self.answers[path] = (200, {"Content-Type": kind}, body)
        return f"{self.url}{path}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def site(authority: Authority) -> Iterator[Site]:
    made = Site(authority)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def fetched(authority: Authority) -> ClientDocuments:
    """Give documents that may be fetched from this machine, whose authority is a test's."""
    return ClientDocuments(authority.trusting(), may_connect=lambda address: address.is_loopback)


async def test_a_client_is_what_its_document_says(
    tmp_path: Path, site: Site, fetched: ClientDocuments, http: httpx2.AsyncClient
) -> None:
    client_id = site.publish(client_name="Documented", grant_types=["authorization_code", "refresh_token"])
    async with running(tmp_path / "issuer", documents=fetched) as url:
        client = Client(url, http)
        client.client_id = client_id
        async with Browser() as browser:
            page = await browser.consent(client.url(), CODE, "alice")
            assert "<q>Documented</q>" in page.text
            assert client_id in page.text
        tokens = await client.tokens()
        assert opened(tokens["access_token"])[1]["client_id"] == client_id
        assert (await client.refresh(tokens["refresh_token"])).status_code == 200
        authority = site.url.removeprefix("https://")
        assert site.asked == [(authority, "/client.json")]  # once, and under its own name
    port = int(url.rpartition(":")[2])
    async with running(tmp_path / "issuer", documents=fetched, port=port):  # renewing asks for no document
        assert len(site.asked) == 1


async def test_it_has_no_say_beyond_its_document(
    tmp_path: Path, site: Site, fetched: ClientDocuments, http: httpx2.AsyncClient
) -> None:
    async with running(tmp_path / "issuer", documents=fetched) as url:
        client = Client(url, http)
        client.client_id = site.publish(grant_types=None)
        async with Browser() as browser:
            page = await browser.consent(client.url(redirect_uri="https://evil.example/"), CODE, "alice")
            assert page.status_code == 400
            assert "location" not in page.headers
        tokens = await client.tokens(scope=READ)
        assert "refresh_token" not in tokens


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"client_id": "https://localhost/other.json"}, "tells of another client"),
    ({"client_id": None}, "tells of another client"),
    ({"redirect_uris": None}, "redirect_uris: missing"),
    ({"redirect_uris": ["javascript:alert(1)"]}, "redirect_uris: must be https"),
    ({"client_secret": "s"}, "asks for a secret or a key"),
    ({"token_endpoint_auth_method": "client_secret_post"}, "asks for a secret or a key"),
    ({"token_endpoint_auth_method": "private_key_jwt"}, "asks for a secret or a key"),
    ({"client_name": "x" * 20_000}, "is too large"),
    ({"kind": "text/html"}, "was not answered with JSON"),
]


@pytest.mark.parametrize(("changed", "reason"), REFUSED)
async def test_a_document_that_is_none_is_refused(
    site: Site, fetched: ClientDocuments, changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        await fetched.client(site.publish(**changed))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((302, {"Location": "https://localhost/elsewhere"}, b""), "was not answered with JSON"),
        ((301, {"Location": "http://169.254.169.254/latest/meta-data"}, b"{}"), "was not answered with JSON"),
        ((404, {"Content-Type": "application/json"}, b"{}"), "was not answered with JSON"),
        ((500, {"Content-Type": "application/json"}, b"{}"), "was not answered with JSON"),
        ((200, {"Content-Type": "application/json"}, b"{"), "is not JSON"),
        ((200, {"Content-Type": "application/json"}, b"[" * 10_000), "is not JSON"),
        ((200, {"Content-Type": "application/json"}, b"\xff"), "is not JSON"),
        ((200, {"Content-Type": "application/json"}, b"[]"), "tells of another client"),
        ((200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"no gzip"), "cannot be fetched"),
        ((200, {"Content-Type": "application/json", "Content-Length": "9"}, b"{}"), "cannot be fetched"),
    ],
)
async def test_an_answer_that_is_no_document_is_refused(
    site: Site, fetched: ClientDocuments, answer: tuple[int, dict[str, str], bytes], reason: str
) -> None:
    site.answers["/client.json"] = answer
    with pytest.raises(DocumentRefused, match=reason):
        await fetched.client(f"{site.url}/client.json")
    assert len(site.asked) == 1


async def test_a_bomb_is_measured_as_it_unfolds(site: Site, fetched: ClientDocuments) -> None:
    """A few kilobytes that unfold to many megabytes."""
    import gzip

    bomb = gzip.compress(b" " * 50_000_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    site.answers["/client.json"] = (200, headers, bomb)
    with pytest.raises(DocumentRefused, match="is too large"):
        await fetched.client(f"{site.url}/client.json")


@pytest.mark.parametrize(
    "address",
    [
        "https://localhost",
        "https://localhost/",
        "https://localhost/a/../b",
        "https://localhost/./b",
        "https://user@localhost/c",
        "https://user:word@localhost/c",
        "https://localhost/c?x=1",
        "https://localhost/c#f",
        "https://localhost/c#",
        "https://localhost:port/c",
        "https:///c",
        "https://[::1/c",
        "https://",
    ],
)
async def test_an_address_that_is_none_is_not_asked(fetched: ClientDocuments, address: str) -> None:
    with pytest.raises(DocumentRefused, match="its address"):
        await fetched.client(address)


async def test_nothing_is_fetched_from_this_network(site: Site, authority: Authority) -> None:
    """Server-side request forgery: the identifier of a client is the address of something that only we can reach."""
    documents = ClientDocuments(authority.trusting())
    for host in ("localhost", "127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]", "0.0.0.0"):  # noqa: S104
        with pytest.raises(DocumentRefused, match="not on the public internet"):
            await documents.client(f"https://{host}:{site.server.server_port}/client.json")
    assert site.asked == []


async def test_every_address_of_a_name_has_to_be_public(authority: Authority, monkeypatch: Any) -> None:
    """A name that stands for a public address and a private one, of which a client may take either."""

    async def two(host: str, port: int, **_: Any) -> list[Any]:
        assert host == "two.example"
        return [(2, 1, 6, "", ("8.8.8.8", port)), (2, 1, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", two)
    with pytest.raises(DocumentRefused, match="not on the public internet"):
        await ClientDocuments(authority.trusting()).client("https://two.example/client.json")


async def test_an_address_that_cannot_be_connected_to_is_passed_over(
    site: Site, fetched: ClientDocuments, monkeypatch: Any
) -> None:
    async def both(host: str, port: int, **_: Any) -> list[Any]:  # noqa: ARG001  # as the real one
        return [(10, 1, 6, "", ("::1", port, 0, 0)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", both)
    assert (await fetched.client(site.publish())).metadata.client_name == "A client"


async def test_the_connection_goes_where_the_check_was(site: Site, authority: Authority, monkeypatch: Any) -> None:
    """DNS rebinding: a name is a public address when it is checked, and another one when it is connected to."""
    asked: list[str] = []

    async def moving(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port))]

    monkeypatch.setattr(anyio, "getaddrinfo", moving)
    allowed = ipaddress.ip_address("127.0.0.1")
    documents = ClientDocuments(authority.trusting(), may_connect=lambda address: address == allowed)
    await documents.client(site.publish())
    assert asked == ["localhost"]
    assert len(site.asked) == 1


async def test_the_certificate_is_that_of_the_name(
    site: Site, authority: Authority, tmp_path: Path, monkeypatch: Any
) -> None:
    """Somebody on the way answers in the name of a client's site."""

    async def here(host: str, port: int, **_: Any) -> list[Any]:  # noqa: ARG001  # as the real one
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    client_id = site.publish()
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    for documents, address in (
        (ClientDocuments(may_connect=lambda _: True), client_id),
        (ClientDocuments(stranger.trusting(), may_connect=lambda _: True), client_id),
    ):
        with pytest.raises(DocumentRefused, match="cannot be fetched"):
            await documents.client(address)
    monkeypatch.setattr(anyio, "getaddrinfo", here)
    trusting = ClientDocuments(authority.trusting(), may_connect=lambda _: True)
    with pytest.raises(DocumentRefused, match="cannot be fetched"):
        await trusting.client(client_id.replace("localhost", "other.example"))
    assert site.asked == []


async def test_what_was_refused_is_asked_for_again_and_what_was_good_is_kept(
    site: Site, fetched: ClientDocuments
) -> None:
    client_id = site.publish(redirect_uris=[])
    for _ in range(2):
        with pytest.raises(DocumentRefused):
            await fetched.client(client_id)
    site.publish()
    for _ in range(3):
        await fetched.client(client_id)
    assert len(site.asked) == 3


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("64:ff9b::808:808", True),
        ("::ffff:8.8.8.8", True),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("127.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:0a00:0001::1", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


async def test_a_page_says_why_a_client_cannot_be_known(client: Client) -> None:
    async with Browser() as browser:
        page = await browser.consent(client.url(client_id="https://localhost/client.json"), CODE, "alice")
    assert page.status_code == 400
    assert "The client cannot be known: its metadata document is not on the public internet." in page.text


async def test_nobody_can_redeem_as_a_document_that_nobody_allowed(client: Client) -> None:
    answer = await client.redeem("guess", client_id="https://localhost/client.json")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client")
