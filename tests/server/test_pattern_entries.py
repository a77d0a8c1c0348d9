"""Entries for patterns of names: what they can say, what is wrong with them, and what a name then means."""

from pathlib import Path
from typing import Any

import pytest

from guideway.dsl.ast import Target
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.container.driver import ContainerDriver
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.probes.command import CommandProbe
from guideway.interpreter.probes.http import HttpProbe
from guideway.interpreter.probes.tcp import TcpProbe
from guideway.interpreter.results import Reason
from guideway.server import config, wiring
from guideway.server.config_errors import ConfigError, Problem

FLEET = "[ssh.'web-*']\nhost = '{name}'\nuser = 'u'\nagent = true\n"
SSH = "user = 'guideway'\nkey_file = '/key'\n"


def built(tmp_path: Path, text: str) -> Pipeline:
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    return wiring.build(config.load(file))


def problems(tmp_path: Path, text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, text)
    return list(caught.value.problems)


def inside(thing: Any, *names: str) -> Any:
    for name in names:
        thing = getattr(thing, f"_{name}")
    return thing


@pytest.mark.anyio
async def test_what_names_of_patterns_mean(tmp_path: Path) -> None:
    pipeline = built(
        tmp_path,
        f"""
        [ssh."web-*"]
        host = "{{name}}.internal"
        known_hosts = "known_hosts"
        {SSH}
        [hosts."web-*.prod"]
        probe = "tcp"
        address = "{{1}}.example"
        port = 22
        ping_seconds = 3
        [hosts."*"]
        probe = "http"
        url = "http://{{1}}.example:8080/{{name}}?{{1}}"
        [services."nginx@web-*"]
        driver = "systemd"
        ssh = "web-{{1}}"
        unit = "nginx.service"
        restart_seconds = 7
        health = {{ probe = "tcp", address = "web-{{1}}.internal", port = 80 }}
        [services."shop.*"]
        driver = "container"
        container = "shop-{{1}}-1"
        restartable = false
        [services."shop.db"]
        driver = "container"
        container = "db"
        """,
    )
    inventory = pipeline.inventory
    host = inventory.host("web-7.prod")
    assert isinstance(host.probe, TcpProbe)
    assert (host.probe.address, host.probe.port, host.deadline) == ("7.example", 22, 3)
    probe = inventory.host("lb").probe
    assert isinstance(probe, HttpProbe)
    assert probe.url == "http://lb.example:8080/lb?lb"
    nginx = inventory.service("nginx@web-7")
    assert inside(nginx, "driver", "unit") == "nginx.service"
    assert inside(nginx, "health").address == "web-7.internal"
    way = inside(nginx, "driver", "bus").way
    options = inside(way, "options")
    assert (options.host, options.user, options.known_hosts) == ("web-7.internal", "guideway", tmp_path / "known_hosts")
    assert nginx.deadline == inventory.restart_seconds("nginx@web-7") == 7
    assert isinstance(inside(inventory.service("shop.api"), "driver"), ContainerDriver)
    assert inside(inventory.service("shop.api"), "driver", "name") == "shop-api-1"
    assert inside(inventory.service("shop.db"), "driver", "name") == "db"
    assert [str(one) for one in inventory.spellings(Target.SERVICE)] == ["nginx@web-*", "shop.*", "shop.db"]
    assert [str(one) for one in inventory.spellings(Target.RESTARTABLE)] == ["nginx@web-*", "shop.db"]
    await pipeline.close()


@pytest.mark.anyio
async def test_services_on_one_machine_of_a_pattern_share_its_way(tmp_path: Path) -> None:
    text = f"""
    [ssh."web-*"]
    host = "{{name}}.internal"
    {SSH}
    [services."*@web-*"]
    driver = "systemd"
    ssh = "web-{{2}}"
    unit = "{{1}}.service"
    [services.own]
    driver = "systemd"
    ssh = "web-1"
    unit = "own.service"
    """
    pipeline = built(tmp_path, text)
    ways = [
        inside(pipeline.inventory.service(name), "driver", "bus").way
        for name in ("a@web-1", "b@web-1", "own", "a@web-2")
    ]
    assert ways[0] is ways[1] is ways[2] is not ways[3]
    await pipeline.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("host", "name", "why"),
    [
        ("{name}.internal", "nginx@db-1", "there is no SSH host `db-1`"),
        ("{name}.internal", "nginx@web-A", "the name must be in small letters"),
        ("{name}", "nginx@web--", "`host` must be an IP address or a host name"),
        ("10.0.0.{1}", "nginx@web-0x1", "`host` must be an IP address or a host name"),
    ],
)
async def test_a_name_of_which_nothing_can_be_made_is_not_found(tmp_path: Path, host: str, name: str, why: str) -> None:
    pipeline = built(
        tmp_path,
        f"[ssh.'web-*']\nhost = '{host}'\n{SSH}"
        "[services.'nginx@*']\ndriver = 'systemd'\nssh = '{1}'\nunit = 'nginx.service'\n",
    )
    assert pipeline.inventory.allows(Target.RESTARTABLE, name)
    for ask in (pipeline.inventory.service(name).state, pipeline.inventory.service(name).restart):
        with pytest.raises(Fault) as caught:
            await ask(5.0)
        assert caught.value.reason is Reason.NOT_FOUND
        assert caught.value.message.startswith("`nginx@*` cannot mean this name: ")
        assert why in caught.value.message
    await pipeline.close()


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        ("[hosts.'web-**']\nprobe = 'memory'", 1, 'hosts."web-**"', "has two `*`"),
        ("[hosts.'-*']\nprobe = 'memory'", 1, 'hosts."-*"', "is not a pattern of names"),
        (
            "[hosts.'web-*']\nprobe = 'icmp'\naddress = '10.0.0.1'",
            1,
            'hosts."web-*"',
            "one thing; write `{name}`, or `{1}` for what the `*` stands for, into one of `address`",
        ),
        (
            "[hosts.'*.*']\nprobe = 'icmp'\naddress = '{1}.internal'",
            1,
            'hosts."*.*"',
            "names that differ in `{2}` alone would mean one thing; write `{2}` into `address`",
        ),
        (
            "[hosts.'*.*']\nprobe = 'icmp'\naddress = '{1}-{2}.internal'",
            3,
            'hosts."*.*".address',
            "run into each other",
        ),
        (
            "[hosts.'web-*']\nprobe = 'icmp'\naddress = '{2}.internal'",
            3,
            'hosts."web-*".address',
            "has `{2}`, which stands for nothing; there are: {name}, {1}",
        ),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{0}'", 3, 'hosts."web-*".address', "has `{0}`"),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{nane}'", 3, 'hosts."web-*".address', "has `{nane}`"),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{1'", 3, 'hosts."web-*".address', "has `{1`"),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{name}}'", 3, 'hosts."web-*".address', "has `}`"),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{1} x'", 3, 'hosts."web-*".address', "must be an IP address"),
        ("[hosts.'web-*']\nprobe = 'icmp'\naddress = '{1}'\nnot = 1", 4, 'hosts."web-*".not', "is not known"),
        ("[hosts.'web-*']\nprobe = 'icmp'", 1, 'hosts."web-*".address', "is missing"),
        ("[hosts.'w']\nprobe = 'icmp'\naddress = '{name}'", 3, "hosts.w.address", "must be an IP address"),
        (
            "[hosts.'web-*']\nprobe = 'http'\nurl = 'https://{1}/'\nca_file = '/etc/{1}.pem'",
            4,
            'hosts."web-*".ca_file',
            "cannot be made of the name; what can: `url`",
        ),
        (
            "[services.'*']\ndriver = 'supervisord'\nprogram = '{1}'\nsocket = '/run/{1}.sock'",
            4,
            'services."*".socket',
            "cannot be made of the name; what can: `ssh`, `program`",
        ),
        (
            "[services.'*']\ndriver = 'kubernetes'\nname = '{1}'\nnamespace = '{1}'",
            4,
            'services."*".namespace',
            "cannot be made of the name; what can: `name`",
        ),
        (
            "[ssh.'web-*']\nhost = '{name}'\nuser = '{1}'\nagent = true",
            3,
            'ssh."web-*".user',
            "cannot be made of the name; what can: `host`",
        ),
        (
            "[ssh.'web-*']\nhost = 'one'\nuser = 'u'\nagent = true",
            1,
            'ssh."web-*"',
            "all its names would mean one thing",
        ),
        (
            FLEET + "[services.'*']\ndriver = 'systemd'\nunit = 'x.service'\nssh = 'db-{1}'",
            8,
            'services."*".ssh',
            "means no SSH host: `db-*`",
        ),
        (
            FLEET + "[services.x]\ndriver = 'systemd'\nunit = 'x.service'\nssh = 'db-1'",
            8,
            "services.x.ssh",
            "is not an SSH host: `db-1`; allowed: `web-*`",
        ),
        (
            "[services.'*']\ndriver = 'container'\ncontainer = '{1}'\nhealth = { probe = 'icmp', address = '{2}' }",
            4,
            'services."*".health.address',
            "has `{2}`",
        ),
        ("[tenants.a.hosts.'*']\nprobe = 'icmp'\naddress = 'x'", 1, 'tenants.a.hosts."*"', "one thing"),
    ],
)
def test_what_is_wrong_with_an_entry(tmp_path: Path, text: str, line: int, key: str, said: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert (problem.line, problem.key) == (line, key)
    assert said in f"{problem.message}; {problem.help}"


@pytest.mark.parametrize(
    "url",
    [
        "{1}://api.internal/",
        "htt{1}://api.internal/",
        "http{1}//api.internal/",
        "http://{1}@api.internal/",
        "http://user:{1}@api.internal/",
        "http://api.internal@{1}/",
        "http://api.internal:{1}/",
        "http://api.internal:80{1}/",
        "http://[{1}]/",
        "http://[fd00::{1}]/",
        "http:/{1}/",
        "{1}",
    ],
)
def test_placeholders_stand_in_the_host_of_a_url_or_behind_it(tmp_path: Path, url: str) -> None:
    (problem,) = problems(tmp_path, f"[hosts.'web-*']\nprobe = 'http'\nurl = '{url}'")
    assert (problem.line, problem.message) == (3, "cannot have a placeholder there")


@pytest.mark.parametrize(
    "url", ["http://{1}/", "http://{1}.x:8080/a", "https://a.{1}.x/", "http://lb/{1}/{name}?a={1}:@"]
)
def test_and_there_they_can(tmp_path: Path, url: str) -> None:
    built(tmp_path, f"[hosts.'web-*']\nprobe = 'http'\nurl = '{url}'")


def test_two_patterns_that_would_mean_one_name_are_told_of_at_both_lines(tmp_path: Path) -> None:
    memory = "\nprobe = 'memory'\n"
    driver = "\ndriver = 'memory'\n"
    found = problems(
        tmp_path,
        f"[hosts.'web-*']{memory}[hosts.'*-1']{memory}[services.'web-*']{driver}"
        f"[tenants.a.services.'*-1']{driver}[tenants.b.services.'*-1']{driver}[tenants.b.hosts.'web-*.x']{memory}",
    )
    assert [(problem.line, problem.key) for problem in found] == [
        (1, 'hosts."web-*"'),
        (3, 'hosts."*-1"'),
        (5, 'services."web-*"'),
        (7, 'tenants.a.services."*-1"'),
        (9, 'tenants.b.services."*-1"'),
    ]
    assert found[0].message == 'would mean `web-1`, which [hosts."*-1"] means too'
    assert found[1].message == 'would mean `web-1`, which [hosts."web-*"] means too'
    assert 'which [tenants.a.services."*-1"] means too or' in found[2].message


def test_patterns_of_two_tenants_and_of_two_kinds_are_apart(tmp_path: Path) -> None:
    pipeline = built(
        tmp_path,
        "[hosts.'web-*']\nprobe = 'memory'\n[services.'web-*']\ndriver = 'memory'\n"
        "[tenants.a.services.'*.a']\ndriver = 'memory'\n[tenants.b.services.'*.a']\ndriver = 'memory'\n"
        "[tenants.a.services.web-1]\ndriver = 'memory'\n",
    )
    a, b = pipeline.tenants["a"], pipeline.tenants["b"]
    assert a.service("x.a") is not b.service("x.a")
    assert not pipeline.inventory.allows(Target.SERVICE, "x.a")
    assert a.service("web-2") is b.service("web-2") is pipeline.inventory.service("web-2")
    assert a.service("web-1") is a.services["web-1"]  # a name of its own before the shared pattern
    assert b.service("web-1") is pipeline.inventory.service("web-1")


@pytest.mark.anyio
async def test_the_example_of_a_fleet_means_what_it_says() -> None:
    example = Path(__file__).parents[2] / "examples" / "fleet" / "guideway.toml"
    inventory = (pipeline := wiring.build(config.load(example))).inventory
    probe = inventory.host("web-3.prod").probe
    assert isinstance(probe, TcpProbe)
    assert (probe.address, probe.port) == ("web-3.prod.internal", 443)
    nginx = inside(inventory.service("nginx@web-3"), "driver")
    assert inside(nginx, "unit") == "nginx.service"
    assert inside(inside(nginx, "bus").way, "options").host == "web-3.prod.internal"
    assert inside(inventory.service("worker:7"), "driver", "unit") == "worker@7.service"
    assert inside(inventory.service("checkout.payments"), "driver", "name") == "checkout"
    assert inventory.allows(Target.RESTARTABLE, "nginx@web-3")
    assert not inventory.allows(Target.RESTARTABLE, "nginx@web-1")
    assert not inventory.allows(Target.SERVICE, "checkout.billing")
    await pipeline.close()


@pytest.mark.anyio
async def test_the_example_of_checks_means_what_it_says() -> None:
    example = Path(__file__).parents[2] / "examples" / "checks" / "guideway.toml"
    inventory = (pipeline := wiring.build(config.load(example))).inventory
    probe = inventory.host("web-3").probe
    assert isinstance(probe, CommandProbe)
    assert probe.arguments == ("-t", "3", "web-3.internal")
    assert (probe.bounds.processes, probe.bounds.seconds, probe.warning_passes) == (4, 10, False)
    disk = inventory.host("disk").probe
    assert isinstance(disk, CommandProbe)
    assert disk.warning_passes
    health = inside(inventory.service("web"), "health")
    assert health.program == "/usr/lib/nagios/plugins/check_http"
    await pipeline.close()
