"""Whose word counts for where a request came from: a configured proxy's, and nobody else's."""

import ipaddress
import logging
import socket
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from guideway.server.listen import Scheme
from guideway.server.proxies import Peers
from tests.server.certificates import Authority
from tests.server.oauth.issuer import Issuer
from tests.server.oauth.serving import serving, token
from tests.server.test_tls import tls
from tests.server.world import World

pytestmark = pytest.mark.anyio

PROXY, OTHER_PROXY, STRANGER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
Headers = Iterable[tuple[str, str]]


async def asked(
    peer: str | None,
    headers: Headers = (),
    *,
    proxies: Iterable[str] = (PROXY,),
    listens: Scheme = "http",
    clients_use: Scheme = "http",
) -> tuple[int, str]:
    """Send one request of a peer through the middleware; return the status, and whom the application sees."""
    sent: list[Message] = []

    async def seen(scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"]
        await PlainTextResponse(client[0] if client else "")(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    networks = [ipaddress.ip_network(network) for network in proxies]
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": raw, "scheme": listens}
    scope["client"] = None if peer is None else (peer, 1)
    await Peers(seen, proxies=networks, listens=listens, asked=clients_use)(scope, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


def forwarded(*values: str) -> Headers:
    return [("X-Forwarded-For", value) for value in values]


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["2001:DB8:0::1"], "2001:db8::1"),
        (["::ffff:192.0.2.1"], "192.0.2.1"),
        (["fe80::1%eth0"], "fe80::1"),
        (["fe80::1%<b>x"], "fe80::1"),
        (["  192.0.2.1\t"], "192.0.2.1"),
        (["10.0.0.1, 192.0.2.1"], "192.0.2.1"),  # what stands to the left came from the client
        (["127.0.0.1, 192.0.2.1"], "192.0.2.1"),
        (["10.0.0.1", "192.0.2.1"], "192.0.2.1"),  # several headers are one list (RFC 9110, section 5.3)
        ([f"192.0.2.1, {OTHER_PROXY}"], "192.0.2.1"),
        ([f"10.0.0.1, 192.0.2.1, {OTHER_PROXY}, {PROXY}"], "192.0.2.1"),
        ([f"{OTHER_PROXY}, {PROXY}"], OTHER_PROXY),
        ([], PROXY),
        ([""], PROXY),
        ([","], PROXY),
        (["unknown"], PROXY),
        (["192.0.2.1, unknown"], PROXY),
        ([f"192.0.2.1, unknown, {OTHER_PROXY}"], OTHER_PROXY),
        (["192.0.2.1\x00"], PROXY),
        (["192.0.2.256"], PROXY),
        (["0192.0.2.1"], PROXY),
        (["[192.0.2.1"], "192.0.2.1"),
        (['"192.0.2.1"'], PROXY),
        (["192.0.2.1 192.0.2.2"], PROXY),
        (["evil.example"], PROXY),
        (["x" * 100_000], PROXY),
    ],
)
async def test_a_proxys_client_is_the_nearest_address_that_is_no_proxys(values: list[str], client: str) -> None:
    assert await asked(PROXY, forwarded(*values), proxies=[PROXY, OTHER_PROXY]) == (200, client)


@given(st.lists(st.text(st.characters(max_codepoint=255)) | st.ip_addresses().map(str)), st.ip_addresses())
async def test_nothing_that_a_client_writes_changes_what_its_proxy_adds(said: list[str], client: Any) -> None:
    values = [*(value.replace(",", "") for value in said), str(client)]
    status, seen = await asked(PROXY, forwarded(", ".join(values)))
    assert status == 200
    expected = getattr(client, "ipv4_mapped", None) or client
    assert str(expected) in (seen, PROXY)


@pytest.mark.parametrize("network", ["127.0.0.2", "127.0.0.0/30", "0.0.0.0/0"])
async def test_a_network_of_proxies_counts_as_each_of_its_addresses(network: str) -> None:
    assert await asked(PROXY, forwarded("::1"), proxies=[network]) == (200, "::1")


async def test_an_address_that_a_socket_for_both_families_spells_is_the_same_proxy() -> None:
    assert await asked("::ffff:127.0.0.2", forwarded("192.0.2.1")) == (200, "192.0.2.1")
    assert await asked("::ffff:127.0.0.4", forwarded("192.0.2.1")) == (200, STRANGER)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP"])
async def test_of_a_stranger_no_header_says_where_it_came_from(header: str) -> None:
    for value in (PROXY, f"for={PROXY}", "192.0.2.1"):
        assert await asked(STRANGER, [(header, value)]) == (200, STRANGER)


@pytest.mark.parametrize(
    ("peer", "is_answered"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("::ffff:10.2.0.1", False),
        ("2001:db8::1", False),
        ("", False),
        (None, False),
        ("unix:", False),
    ],
)
async def test_plain_http_is_for_loopback_and_the_proxies(peer: str | None, is_answered: bool) -> None:
    for claimed in ([], forwarded("127.0.0.1"), forwarded("10.1.2.3"), [("X-Forwarded-Proto", "https")]):
        status, said = await asked(peer, claimed, proxies=["10.1.0.0/16"])
        assert status == (200 if is_answered else 403)
        assert is_answered or "plain HTTP from its reverse proxy only" in said
    assert (await asked(peer, proxies=["10.1.0.0/16"], listens="https"))[0] == 200


@pytest.mark.parametrize(
    ("values", "status"),
    [
        (["https"], 200),
        (["HTTPS"], 200),
        ([], 200),
        (["http"], 403),
        ([" HTTP "], 403),
        (["http, https"], 403),
        (["http", "https"], 403),
        (["https, http"], 200),  # its own proxy was asked for by another, behind which nothing is the client's
    ],
)
async def test_a_client_that_asked_its_proxy_in_the_clear_is_refused(values: list[str], status: int) -> None:
    headers = [("X-Forwarded-Proto", value) for value in values]
    assert (await asked(PROXY, headers, clients_use="https"))[0] == status
    assert (await asked(STRANGER, headers, clients_use="https"))[0] == 200, "it says that of itself alone"
    assert (await asked(PROXY, headers, clients_use="http"))[0] == 200, "on one machine that is as meant"


async def test_a_refusal_is_logged_with_the_clients_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "guideway.server.proxies")
    await asked("10.2.0.1", forwarded("192.0.2.1"))
    await asked(PROXY, [*forwarded("192.0.2.1"), ("X-Forwarded-Proto", "http")], clients_use="https")
    assert [record.getMessage() for record in caplog.records] == ["answered 10.2.0.1 403", "answered 192.0.2.1 403"]


# ---- over the network, where 127.0.0.0/8 is many peers


async def get(url: str, source: str, headers: Headers = (), path: str = "/grammar") -> httpx2.Response:
    transport = httpx2.AsyncHTTPTransport(local_address=source)
    async with httpx2.AsyncClient(transport=transport) as http:
        return await http.get(httpx2.URL(url).join(path), headers=list(headers))


async def test_the_server_believes_its_proxies_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The address is seen where it is used: in the log of what was refused, here for a wrong Host."""
    caplog.set_level(logging.DEBUG, "guideway.server.proxies")
    headers = [("Host", "evil.example"), *forwarded("192.0.2.1")]
    async with world.serving(proxies=[ipaddress.ip_network(PROXY)]) as url:
        for source in (PROXY, STRANGER):
            assert (await get(url, source, headers)).status_code == 421
    said = [record.getMessage() for record in caplog.records if record.name == "guideway.server.proxies"]
    assert said == ["answered 192.0.2.1 421", f"answered {STRANGER} 421"]


@pytest.mark.parametrize("source", [PROXY, STRANGER])
async def test_no_forwarded_header_changes_what_is_decided(
    world: World, source: str, subtests: pytest.Subtests
) -> None:
    """Header smuggling: hosts, paths, schemes and methods that some servers take from such headers."""
    claims = [
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Server", "evil.example"),
        ("X-Forwarded-Port", "1"),
        ("X-Forwarded-Prefix", "/x"),
        ("X-Original-URL", "/nothing"),
        ("X-Rewrite-URL", "/nothing"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Forwarded-User", "root"),
        ("X-Forwarded-Client-Cert", 'Subject="CN=root"'),
        ("Forwarded", "for=127.0.0.1;host=evil.example;proto=https"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
    ]
    async with world.serving(proxies=[ipaddress.ip_network(PROXY)]) as url:
        plain = await get(url, source)
        for claim in claims:
            with subtests.test(claim[0]):
                answer = await get(url, source, [claim])
                assert (answer.status_code, answer.content) == (plain.status_code, plain.content)
                away = await get(url, source, [claim, ("Host", "evil.example")])
                assert away.status_code == 421


async def test_a_proxy_that_was_asked_in_the_clear_is_refused_over_tls_too(world: World, tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    async with world.serving(tls=tls(authority.server()), proxies=[ipaddress.ip_network(PROXY)]) as url:
        for source, status in [(PROXY, 403), (STRANGER, 200)]:
            transport = httpx2.AsyncHTTPTransport(local_address=source, verify=authority.trusting())
            async with httpx2.AsyncClient(transport=transport) as http:
                answer = await http.get(httpx2.URL(url).join("/grammar"), headers={"X-Forwarded-Proto": "http"})
                assert answer.status_code == status


def own_address() -> str | None:
    """Return an address of this machine that is not loopback. Nothing is sent to find it, or to reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        host: str = probe.getsockname()[0]
        return None if ipaddress.ip_address(host).is_loopback else host


@pytest.mark.parametrize("is_proxy", [True, False])
async def test_beyond_loopback_plain_http_is_for_the_proxies(world: World, is_proxy: bool) -> None:
    """A good token does not help whoever sent it in the clear."""
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but loopback")
    proxies = [ipaddress.ip_network(host if is_proxy else "192.0.2.1")]
    with Issuer() as issuer:
        shown = {"Authorization": f"Bearer {token(issuer)}", "Host": "ops.example.com"}
        async with serving(world, issuer, "https://ops.example.com/mcp", host=host, proxies=proxies) as url:
            answer = await get(url, host, shown.items())
        assert answer.status_code == (200 if is_proxy else 403)
        assert ("reverse proxy only" in answer.text) != is_proxy
