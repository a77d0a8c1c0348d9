"""Mallory may write programs, and the inventory has patterns. Every name that she can think of is hers to try.

What a pattern opens is the names that it spells and nothing beside them; and what a name is put into stays what it was
meant to be: a host stays a host of that name, on that port, for that user, and no address that probes may not ask.
"""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.dsl.ast import Target
from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import Fault, FromName, Options
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes import PROBES
from guideway.interpreter.probes.http import HttpProbe
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason, Report
from guideway.server import config, wiring
from guideway.server.config_errors import ConfigError
from guideway.server.templates import Template
from tests.attacks.test_addresses import METADATA

MALLORY = Principal("mallory", frozenset({Scope.READ, Scope.WRITE}))
FLEET = "[hosts.'web-*.prod']\nprobe = 'memory'\n[services.'web-*']\ndriver = 'memory'\nsettle_seconds = 0\n"


def built(tmp_path: Path, text: str) -> Pipeline:
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    return wiring.build(config.load(file))


async def run(pipeline: Pipeline, text: str, caller: Principal = MALLORY) -> Report:
    try:
        return await pipeline.run(text, caller)
    finally:
        await pipeline.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name",
    [
        "web-.prod",
        "web-..prod",
        "web-1..prod",
        "web-1.x.prod",
        "web-1.prod.evil",
        "evil.web-1.prod",
        "web-1.prod.",
        "web-1.prod:22",
        "root@web-1.prod",
        "web-root@1.prod",
        "web-1:2.prod",
        "WEB-1.prod",
        "web-1.PROD",
        "web-1_prod",
        "web-" + "1" * 64 + ".prod",
        "web-" + "1" * 300 + ".prod",
        "web-*.prod",
        "web-{1}.prod",
        "web-{name}.prod",
        "web-%31.prod",
        "web-1/../2.prod",
        "web-\N{FULLWIDTH DIGIT ONE}.prod",
        "web-\N{ARABIC-INDIC DIGIT ONE}.prod",
        "web-\N{CYRILLIC SMALL LETTER A}.prod",
        "web-1\u200b.prod",
        "web-1.prod\n",
        "web-1.prod\\u0000",
        "web-1.prod ",
        " web-1.prod",
    ],
)
async def test_no_name_beside_those_of_the_pattern_is_asked(tmp_path: Path, name: str) -> None:
    """She puts a separator, another alphabet, a placeholder or a path where the star stands; or goes on behind it."""
    pipeline = built(tmp_path, FLEET)
    report = await run(pipeline, f'PING "{name}"')
    assert report.status == "refused"
    assert report.steps == ()
    assert not pipeline.inventory.allows(Target.HOST, name)
    with pytest.raises(KeyError):
        pipeline.inventory.host(name)


@settings(max_examples=300, deadline=None)
@given(name=st.text(st.sampled_from("webprod-.:@*{1}\u0661\uff11 \n\\%/") | st.characters(), max_size=20))
def test_whatever_she_tries_only_what_fits_is_made(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    pipeline = built(tmp_path_factory.mktemp("p"), FLEET)
    for text in (name, f"web-{name}", f"web-{name}.prod"):
        fits = re.fullmatch(r"web-[A-Za-z0-9_-]{1,63}\.prod", text) is not None
        assert pipeline.inventory.allows(Target.HOST, text) == fits
        if not fits:
            with pytest.raises(KeyError):
                pipeline.inventory.host(text)


def test_a_thousand_long_names_take_no_time(tmp_path: Path) -> None:
    """She sends the names that would make a pattern look back the most, as many as a program may hold."""
    pipeline = built(tmp_path, "".join(f"[hosts.'*a{n}.*b.*c']\nprobe = 'memory'\n" for n in range(100)))
    names = [f"{'a' * 60}{n}.{'b' * 60}.{'c' * 60}x" for n in range(1000)]
    began = time.perf_counter()
    assert not any(pipeline.inventory.allows(Target.HOST, name) for name in names)
    assert time.perf_counter() - began < 2.0


@pytest.mark.anyio
async def test_a_tenants_pattern_opens_nothing_to_another_tenant(tmp_path: Path) -> None:
    """She names what another tenant's pattern alone spells, and what both spell: she gets her own, or nothing."""
    text = (
        "[tenants.acme.services.'*.db']\ndriver = 'memory'\n"
        "[tenants.evil.services.'*.db']\ndriver = 'memory'\nbehaviour = 'unreachable'\n"
        "[tenants.acme.services.'acme-*']\ndriver = 'memory'\n[services.'shared-*']\ndriver = 'memory'\n"
    )
    mallory = Principal("mallory", MALLORY.scopes, tenant="evil")
    alice = Principal("alice", MALLORY.scopes, tenant="acme")
    pipeline = built(tmp_path, text)
    refused = await pipeline.run('GET_STATUS "acme-1"', mallory)
    assert refused.status == "refused"
    assert refused.refusal is not None
    assert refused.refusal.diagnostics[0].expected == ('"*.db"', '"shared-*"')
    hers = await pipeline.run('GET_STATUS "x.db"', mallory)
    assert [step.reason for step in hers.steps] == [Reason.UNREACHABLE]
    assert (await pipeline.run('GET_STATUS "x.db"', alice)).status == "completed"
    for nobody in (MALLORY, Principal("m", MALLORY.scopes, tenant="unknown")):
        assert (await pipeline.run('GET_STATUS "x.db"', nobody)).status == "refused"
    evil, acme = pipeline.tenants["evil"], pipeline.tenants["acme"]
    assert evil.service("x.db") is not acme.service("x.db")
    assert evil.service("shared-1") is acme.service("shared-1")
    await pipeline.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "entry", "name"),
    [
        ("*.*.*", "probe = 'tcp'\naddress = '169.{1}.{2}.{3}'\nport = 80", "254.169.254"),
        ("*.*.*", "probe = 'icmp'\naddress = '{1}.{2}.{3}'", "0xa9.0xfe.0xa9fe"),
        ("*", "probe = 'icmp'\naddress = '{1}'", "2852039166"),
        ("*", "probe = 'tcp'\naddress = '{name}'\nport = 80", "0xa9fea9fe"),
        ("*", "probe = 'http'\nurl = 'http://{1}/latest/meta-data/'", "2852039166"),
        ("*.*.*", "probe = 'http'\nurl = 'http://169.{name}/'", "254.169.254"),
        ("m.*", "probe = 'icmp'\naddress = '224.0.0.{1}'", "m.1"),
    ],
)
async def test_no_name_makes_an_address_that_probes_may_not_ask(
    tmp_path: Path, pattern: str, entry: str, name: str
) -> None:
    """She finds an entry that is made of numbers, and writes those of the metadata service. Nothing is sent."""
    pipeline = built(tmp_path, f"[hosts.'{pattern}']\n{entry}\n")
    report = await run(pipeline, f'PING "{name}"')
    (step,) = report.steps
    assert (step.outcome, step.reason) == ("failed", Reason.CANNOT_PROBE)
    assert f"`{pattern}` cannot mean this name: " in (step.message or "")


@pytest.mark.anyio
async def test_a_name_that_is_looked_up_to_there_is_not_asked_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """She owns the zone of a fleet, and lets a name of it lead to the metadata service."""
    import socket

    asked = []

    def answer(host: str, port: int, *_: object, **__: object) -> object:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (METADATA, port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    pipeline = built(tmp_path, "[hosts.'web-*']\nprobe = 'tcp'\naddress = '{name}.evil.example'\nport = 80\n")
    with pytest.raises(Fault) as caught:
        await pipeline.inventory.host("web-1").ping(5)
    assert caught.value.reason is Reason.CANNOT_PROBE
    assert asked == ["web-1.evil.example"]


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("web:*", "probe = 'http'\nurl = 'http://{name}/'"),
        ("root@*", "probe = 'http'\nurl = 'http://{name}/'"),
        ("fd00:ec2::*", "probe = 'icmp'\naddress = '{name}'"),
        ("web:*", "probe = 'tcp'\naddress = '{name}'\nport = 80"),
    ],
)
def test_no_name_brings_its_own_port_or_user(tmp_path: Path, pattern: str, options: str) -> None:
    """An operator puts a whole name where a host stands, and it has a `:` or an `@`: what is behind would be hers."""
    with pytest.raises(ConfigError, match=r"in a host's name is no `:` and no `@`"):
        built(tmp_path, f"[hosts.'{pattern}']\n{options}\n")


@settings(max_examples=200, deadline=None)
@given(star=st.text("ab1-_Z", min_size=1, max_size=63))
def test_what_is_made_of_a_name_is_that_host_on_that_port(tmp_path_factory: pytest.TempPathFactory, star: str) -> None:
    """Whatever stands for the star, the URL keeps its scheme, port and path, and the host its zone."""
    text = (
        "[hosts.'h.*']\nprobe = 'http'\nurl = 'https://{1}.example:8443/a'\n"
        "[hosts.'t.*']\nprobe = 'tcp'\naddress = '{1}.example'\nport = 22\n"
    )
    inventory = built(tmp_path_factory.mktemp("p"), text).inventory
    web, ssh = inventory.host(f"h.{star}").probe, inventory.host(f"t.{star}").probe
    if isinstance(web, HttpProbe):
        assert web.url == f"https://{star}.example:8443/a"
        assert star == star.lower()
    if isinstance(ssh, TcpProbe):
        assert (ssh.address, ssh.port) == (f"{star}.example", 22)


@pytest.mark.anyio
async def test_no_second_name_of_one_machine_gets_around_what_restarts_share(tmp_path: Path) -> None:
    """She restarts one unit twice at once by a name in other letters: a host's name knows no case, so that is none."""
    text = (
        "[ssh.'web-*']\nhost = '{name}.internal'\nuser = 'guideway'\nkey_file = '/key'\n"
        "[services.'nginx@web-*']\ndriver = 'systemd'\nssh = 'web-{1}'\nunit = 'nginx.service'\n"
    )
    pipeline = built(tmp_path, text)
    with pytest.raises(Fault) as caught:
        await pipeline.inventory.service("nginx@web-A").state(5)
    assert caught.value.reason is Reason.NOT_FOUND
    assert pipeline.inventory.service("nginx@web-a") is pipeline.inventory.service("nginx@web-a")
    await pipeline.close()


def test_what_can_be_made_of_a_name_is_this_and_nothing_more() -> None:
    """Whoever adds an option, or a mark to one, has to say here that any name of a pattern may stand in it.

    None of these names a file, a socket, a user, a password, a port or where labels are looked for.
    """
    found: dict[str, set[str]] = {}
    models: list[tuple[str, type[Options]]] = [*DRIVERS.items(), *PROBES.items(), ("ssh", SshOptions)]
    for kind, model in models:
        for key, field in model.model_fields.items():
            if any(isinstance(mark, FromName) for mark in field.metadata):
                found.setdefault(kind, set()).add(key)
    assert found == {
        "systemd": {"unit", "ssh"},
        "supervisord": {"program", "ssh"},
        "container": {"container", "ssh"},
        "kubernetes": {"name"},
        "icmp": {"address"},
        "tcp": {"address"},
        "http": {"url"},
        "command": {"arguments"},
        "ssh": {"host"},
    }


@pytest.mark.parametrize(
    ("kind", "options", "bad"),
    [
        ("systemd", {"unit": "{1}.service"}, ["*", "a b", "a/b", "../a", "a.service b", "a\x00"]),
        ("supervisord", {"program": "{1}", "socket": "/s"}, ["*", "a:b:c", "a b", "a/b", "a:*", ""]),
        ("container", {"container": "{1}"}, ["-a", "_a", "a/b", "a?b", "a%2fb", "", "../a"]),
        ("kubernetes", {"name": "{1}", "namespace": "n"}, ["-a", "a-", "A", "a_b", "a/b", "a?b", "..", ""]),
    ],
)
def test_what_stands_in_an_option_is_checked_whatever_a_star_lets_through(
    kind: str, options: dict[str, str], bad: list[str]
) -> None:
    """Even if a star let more through than it does: each option refuses what it must not be by itself."""
    template = Template(DRIVERS[kind], options)
    template.fill("a", ("a1",))
    for star in bad:
        with pytest.raises(ValueError, match="must be"):
            template.fill("a", (star,))
