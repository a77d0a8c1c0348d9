"""Somebody wants a probe sent where the machine's own credentials are: to the metadata service of a cloud.

An answer from there would say that it can be reached, and whoever controls a name could have any address of the
network tried. What may be asked is what stands in the inventory; what a name server says never adds to that.
"""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from guideway.interpreter.drivers.base import Fault, Probe
from guideway.interpreter.probes import PROBES
from guideway.interpreter.probes.addresses import objection
from guideway.interpreter.results import Reason
from guideway.server import config
from guideway.server.config_errors import ConfigError

METADATA = "169.254.169.254"
# All of them are the same 32 bits to somebody: to the kernel, to the resolver, or to a translator on the way.
SPELLINGS = [
    METADATA,
    "169.254.170.2",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "2002:a9fe:a9fe::",
    "2002:a9fe:a9fe:1::99",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2001:0:a9fe:a9fe::",
    "2001:0:a00:1::5601:5601",
    "fd00::5efe:169.254.169.254",
    "fd00::200:5efe:a9fe:a9fe",
    "fe80::a9fe:a9fe%eth0",
    "fe80::1%1",
    "fd00:ec2::254",
    "FD00:0EC2:0:0:0:0:0:254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
]
NOT_AS_ADDRESSES = [
    "2852039166",
    "0xa9fea9fe",
    "0XA9FEA9FE",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.16689662",
    "169.254.43518",
    "169.254.169.0xfe",
    "169.254.169.254.",
    "2852039166.",
    "0x",
    "169。254。169。254",
    "\N{FULLWIDTH DIGIT ONE}69.254.169.254",
    "169.254.169.254%eth0",
]
NO_HOSTS = [
    *("0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"),  # noqa: S104  # nothing is bound
    *("255.255.255.255", "224.0.0.1", "ff02::1%eth0", "::ffff:239.1.1.1"),
]


def options(kind: str, host: str, **more: Any) -> dict[str, Any]:
    match kind:
        case "http":
            inside = f"[{host.replace('%', '%25')}]" if ":" in host else host
            return {"url": f"http://{inside}/latest/meta-data/", **more}
        case "tcp":
            return {"address": host, "port": 80, **more}
        case _:
            return {"address": host, **more}


@pytest.mark.parametrize("kind", ["icmp", "tcp", "http"])
@pytest.mark.parametrize("host", [*SPELLINGS, *NOT_AS_ADDRESSES, *NO_HOSTS])
def test_no_spelling_of_it_is_taken_from_a_file(kind: str, host: str) -> None:
    """Mallory gets one line into an inventory, in a pull request that looks like any other."""
    with pytest.raises(ValidationError):
        PROBES[kind].model_validate(options(kind, host))


@pytest.mark.parametrize("kind", ["icmp", "tcp", "http"])
@pytest.mark.parametrize("host", SPELLINGS)
def test_an_operator_who_says_so_may_probe_it(kind: str, host: str) -> None:
    PROBES[kind].model_validate(options(kind, host, link_local=True)).build()


@pytest.mark.parametrize("kind", ["icmp", "tcp", "http"])
@pytest.mark.parametrize("host", [*NOT_AS_ADDRESSES, *NO_HOSTS])
def test_what_is_no_address_of_a_host_nobody_may_probe(kind: str, host: str) -> None:
    with pytest.raises(ValidationError):
        PROBES[kind].model_validate(options(kind, host, link_local=True))


@pytest.mark.parametrize(
    "url",
    [
        "http://api.internal@169.254.169.254/",
        "http://api.internal:80@169.254.169.254/",
        "http://169.254.169.254\\@api.internal/",
        "http://api.internal\\.169.254.169.254/",
        "http://%31%36%39.254.169.254/",
        "http://169.254.169.254#@api.internal/",
        "http://169.254.169.254?@api.internal/",
        "http://169.254.169.254:80/",
        "http:\\\\169.254.169.254/",
        "http:/169.254.169.254/",
        "http://[::ffff:169.254.169.254]:80/",
        "http://[fe80::1%eth0]/../",
        "HTTP://169.254.169.254/",
    ],
)
def test_no_url_hides_it(url: str) -> None:
    """Parsers of URLs disagree about these; whatever each makes of them, none is taken."""
    with pytest.raises(ValidationError):
        PROBES["http"].model_validate({"url": url})


def test_the_file_says_where_it_stands_and_health_checks_are_held_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(
        "[hosts.api]\nprobe = 'tcp'\naddress = '169.254.169.254'\nport = 80\n"
        "[services.api]\ndriver = 'memory'\n"
        "health = { probe = 'http', url = 'http://[fd00:ec2::254]/' }\n"
        "[tenants.acme.hosts.own]\nprobe = 'icmp'\naddress = '::ffff:169.254.169.254'\n"
    )
    with pytest.raises(ConfigError) as caught:
        config.load(file)
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [
        (3, "hosts.api.address"),
        (7, "services.api.health.url"),
        (10, "tenants.acme.hosts.own.address"),
    ]
    assert all("`link_local = true` allows it" in problem.message for problem in caught.value.problems)


# ---- a name that leads there


@contextmanager
def naming(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Iterator[list[str]]:
    """Answer each lookup with the next list of addresses, the last one for ever; give the lookups that were made."""
    ask = socket.getaddrinfo
    asked: list[str] = []

    def answer(host: str, port: int, *_: Any, **__: Any) -> Any:
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [ask(address, port, 0, socket.SOCK_STREAM)[0] for address in found]

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", answer)
        yield asked


def probes(host: str, port: int, **more: Any) -> list[Probe]:
    made = [
        PROBES["tcp"].model_validate({"address": host, "port": port, **more}),
        PROBES["http"].model_validate({"url": f"http://{host}:{port}/", **more}),
        PROBES["http"].model_validate({"url": f"https://{host}:{port}/", **more}),
        PROBES["icmp"].model_validate({"address": host, **more}),
    ]
    return [one.build() for one in made]


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [*SPELLINGS, *NO_HOSTS])
async def test_a_name_that_leads_there_is_not_followed(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """The inventory names `status.mallory.example`, a page that everybody trusts; Mallory then moves it."""
    answer = answer.replace("%eth0", "%lo")
    opened: list[Any] = []
    for probe in probes("status.mallory.example", 80):
        with naming(monkeypatch, [answer]), monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", lambda *arguments: opened.append(arguments))
            with pytest.raises(Fault) as caught:
                await probe.probe()
        assert caught.value.reason is Reason.CANNOT_PROBE
        assert caught.value.message.startswith("the address resolves to ")
    assert opened == []


@pytest.mark.anyio
async def test_among_several_addresses_the_forbidden_ones_are_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = socket.socket.connect
        opened: list[Any] = []

        def watched(self: socket.socket, name: Any) -> None:
            opened.append(name[0])
            connect(self, name)

        for probe in probes("status.mallory.example", server.getsockname()[1])[:1]:
            with naming(monkeypatch, [METADATA, "::ffff:169.254.169.254", "127.0.0.1"]):
                monkeypatch.setattr(socket.socket, "connect", watched)
                await probe.probe()
    assert opened == ["127.0.0.1"]


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(4), ids=["tcp", "http", "https", "icmp"])
async def test_dns_rebinding_finds_no_second_lookup(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Mallory's name server says a harmless address to whoever checks, and another to whoever then connects."""
    connect = socket.socket.connect
    opened: list[Any] = []

    def watched(self: socket.socket, name: Any) -> None:
        opened.append(name[0])
        connect(self, name)

    with naming(monkeypatch, ["127.0.0.1"], [METADATA]) as asked:
        monkeypatch.setattr(socket.socket, "connect", watched)
        try:
            await probes("status.mallory.example", 1)[number].probe()
        except Fault as fault:
            assert fault.reason in {Reason.NO_ANSWER, Reason.CANNOT_PROBE}  # noqa: PT017  # either way
    assert asked == ["status.mallory.example"]
    assert set(opened) <= {"127.0.0.1"}


@given(st.integers(min_value=0, max_value=0xFFFF), st.integers(min_value=0, max_value=2**64 - 1))
def test_no_link_local_address_gets_through_in_any_form_that_holds_one(low: int, rest: int) -> None:
    v4 = 0xA9FE_0000 | low
    forms = [
        0xFFFF_0000_0000 | v4,
        v4,
        0x2002 << 112 | v4 << 80 | rest,
        0x0064_FF9B << 96 | v4,
        0x0064_FF9B_0001 << 80 | (rest & 0xFFFF_FFFF_FFFF) << 32 | v4,
        0x0064_FF9B_0001 << 80 | (v4 >> 16) << 64 | (v4 & 0xFFFF) << 40 | (rest & 0xFF_FFFF_FFFF),
        0x2001_0000 << 96 | v4 << 64 | rest,
        0xFE80 << 112 | rest << 48 | low,
    ]
    for form in forms:
        assert objection(ipaddress.IPv6Address(form)), ipaddress.IPv6Address(form)
    assert objection(ipaddress.IPv4Address(v4))
