"""The policy of a configuration: calendars, groups, units under several names, who can be asked, and its version."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guideway.dsl.ast import Restart
from guideway.dsl.errors import Code
from guideway.dsl.scopes import Scope
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Reason
from guideway.interpreter.risk import Impact, Quota, Reversibility, Risk, Tier
from guideway.server import wiring
from guideway.server.config import Config, load
from guideway.server.policy import Policy
from guideway.server.sections import ServiceSection

HARMLESS = 'impact = "low"\nreversibility = "easy"\n'
BOTH = frozenset({Scope.READ, Scope.WRITE})

Read = Callable[[str], Config]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    file = tmp_path / "guideway.toml"

    def read(text: str) -> Config:
        file.write_text(text, encoding="utf-8")
        return load(file)

    return read


def memory(name: str, more: str = "", *, owner: str = "") -> str:
    return f'[{owner}services."{name}"]\ndriver = "memory"\nsettle_seconds = 0\n{HARMLESS}{more}\n'


# Tiers: nothing lowers one


@given(
    impact=st.sampled_from([None, "low", "high"]),
    reversibility=st.sampled_from([None, "easy", "hard"]),
    tier=st.sampled_from([None, 0, 1, 2, 3]),
    critical=st.booleans(),
    more=st.fixed_dictionaries(
        {}, optional={"restarts_per_hour": st.integers(0, 9), "restarts_per_day": st.integers(0, 9)}
    ),
)
def test_whatever_is_stated_a_tier_is_what_its_quadrant_says_or_higher(
    impact: str | None, reversibility: str | None, tier: int | None, critical: bool, more: dict[str, Any]
) -> None:
    stated = {"impact": impact, "reversibility": reversibility, "tier": tier, "critical": critical}
    section = ServiceSection.model_validate({key: value for key, value in stated.items() if value is not None} | more)
    risk = section.risk()
    quadrant = Risk(Impact(impact) if impact else None, Reversibility(reversibility) if reversibility else None)
    effective = risk.effective(Restart).tier
    assert effective >= quadrant.effective(Restart).tier
    assert effective >= Tier.CAUTION
    if critical:
        assert effective is Tier.APPROVAL_REQUIRED
    lowest = Tier.APPROVAL_REQUIRED if critical else quadrant.quadrant.tier
    assert (risk.why_weaker is not None) == (tier is not None and tier < lowest)
    if risk.why_weaker is None and tier is not None:
        assert effective >= tier


def test_what_is_stated_arrives_at_the_service(read: Read) -> None:
    config = read(
        memory("a", 'tier = 2\nrestarts_per_hour = 3\ngroup = "web"\nwindows = ["Sat 09:00-10:00 UTC"]')
        + memory("b-*", "critical = true")
        + "[groups.web]\nat_once = 2\n"
        + '[freezes.x]\nfrom = 2026-12-24T00:00:00Z\nuntil = 2027-01-02T00:00:00Z\nservices = ["b-*"]\nreason = "r"\n'
    )
    pipeline = wiring.build(config)
    a, b = pipeline.inventory.service("a"), pipeline.inventory.service("b-1")
    assert (a.risk.tier, a.risk.limits, a.group) == (Tier.REVIEW, Quota(per_hour=3), "web")
    assert a.calendar.closed(1_780_000_000) == "outside of its change windows (Sat 09:00-10:00 UTC)"
    assert b.risk.effective(Restart).source == "critical"
    assert "frozen until 2027-01-02T00:00:00+00:00: r" in str(b.calendar.closed(1_798_200_000))
    assert pipeline.gate.rules.groups == {"web": 2}


@pytest.mark.parametrize(("share", "bound"), [("0.34", 1), ("0.5", 1), ("0.67", 2), ("1.0", 3), ("0.01", 1)])
def test_a_share_is_of_the_units_of_a_group_and_allows_one(read: Read, share: str, bound: int) -> None:
    member = 'driver = "supervisord"\nurl = "http://localhost:9001"\ngroup = "web"\n'
    names = {"a": "a", "b": "b", "c": "c", "again": "c", "fixed": "d"}
    text = "".join(f'[services.{name}]\nprogram = "{program}"\n{member}' for name, program in names.items())
    config = read(f"{text}restartable = false\n[groups.web]\nshare = {share}\n")
    assert Policy(config).groups == {"web": bound}


def test_bounds_are_those_of_the_tenant_or_of_nobodys(read: Read) -> None:
    bounds = Policy(
        read("[quotas]\nrestarts_per_hour = 1\n[tenants.acme]\nrestarts_per_day = 2\nrestarts_at_once = 3\n")
    ).rules()
    assert bounds.bounds[None].quota == Quota(per_hour=1)
    assert (bounds.bounds["acme"].quota, bounds.bounds["acme"].at_once) == (Quota(per_day=2), 3)


# One unit, several names

_WEB = 'driver = "supervisord"\nprogram = "w"\n'
_UNIT = 'driver = "systemd"\nunit = "w.service"\n'
_BOX = 'driver = "container"\ncontainer = "w"\n'
_WORK = 'driver = "kubernetes"\nname = "w"\nnamespace = "n"\n'
_MACHINES = """
[ssh.m]
host = "m.internal"
user = "a"
agent = true
[ssh.same]
host = "M.internal."
user = "b"
agent = true
[ssh.v6]
host = "fd00::1"
user = "a"
agent = true
[ssh.same_v6]
host = "FD00:0:0::0:1"
user = "a"
agent = true
[ssh.other]
host = "other.internal"
user = "a"
agent = true
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f'{_WEB}url = "http://localhost:9001"', f'{_WEB}url = "http://[::1]:9001"'),
        (f'{_WEB}socket = "s"', 'driver = "supervisord"\nprogram = "w:w"\nsocket = "x/../s"'),
        (_UNIT, f'{_UNIT}bus = "/run/dbus/system_bus_socket"'),
        (f'{_UNIT}ssh = "m"', f'{_UNIT}ssh = "same"'),
        (f'{_UNIT}ssh = "v6"', f'{_UNIT}ssh = "same_v6"'),
        (_BOX, f'{_BOX}socket = "/run/docker.sock"'),
        (f'{_BOX}ssh = "m"', f'{_BOX}ssh = "same"\nsocket = "/var/run/docker.sock"'),
        (f'{_BOX}ssh = "m"', f'{_BOX}ssh = "same"\nsocket = "/run/x/../docker.sock"'),
        (_WORK, f'{_WORK}kind = "deployment"'),
    ],
)
def test_one_unit_under_two_names_has_one_key(read: Read, one: str, other: str) -> None:
    config = read(f"{_MACHINES}[services.a]\n{one}\n[tenants.acme.services.b]\n{other}\n")
    pipeline = wiring.build(config)
    assert pipeline.inventory.services["a"].key == pipeline.tenants["acme"].services["b"].key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('driver = "memory"', 'driver = "memory"'),
        (f'{_WEB}url = "http://localhost:9001"', f'{_WEB}url = "http://localhost:9002"'),
        (f'{_WEB}socket = "s"', 'driver = "supervisord"\nprogram = "g:w"\nsocket = "s"'),
        (_UNIT, f'{_UNIT}ssh = "m"'),
        (f'{_UNIT}ssh = "m"', f'{_UNIT}ssh = "other"'),
        (_UNIT, f'{_UNIT}manager = "user"'),
        (_BOX, f'{_BOX}socket = "/run/podman.sock"'),
        (_WORK, f'{_WORK}kind = "daemonset"'),
        (f'{_WORK}kubeconfig = "k"', f'{_WORK}kubeconfig = "k"\ncontext = "c"'),
    ],
)
def test_two_units_have_two_keys(read: Read, one: str, other: str) -> None:
    config = read(f"{_MACHINES}[tenants.a.services.w]\n{one}\n[tenants.b.services.w]\n{other}\n")
    pipeline = wiring.build(config)
    assert pipeline.tenants["a"].services["w"].key != pipeline.tenants["b"].services["w"].key


def test_a_socket_by_a_link_is_the_same_unit(read: Read, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "s")
    text = "".join(
        f'[services.{name}]\ndriver = "supervisord"\nprogram = "w"\nsocket = "{name}"\n' for name in ("s", "link")
    )
    pipeline = wiring.build(read(text))
    assert pipeline.inventory.services["s"].key == pipeline.inventory.services["link"].key


@pytest.mark.anyio
async def test_a_pattern_is_no_way_around_what_guards_a_unit(read: Read) -> None:
    driver = 'driver = "supervisord"\nurl = "http://127.0.0.1:9"\n'
    config = read(
        f'[services.ledger]\n{driver}program = "ledger"\ncritical = true\n'
        f'[services."app-*"]\n{driver}program = "{{1}}"\n{HARMLESS}'
    )
    pipeline = wiring.build(config)
    report = await pipeline.run('RESTART "app-ledger"', Principal("me", BOTH))
    assert report.steps[0].reason is Reason.NOT_FOUND
    assert "not guarded alike" in str(report.steps[0].message)
    other = await pipeline.run('RESTART "app-other"', Principal("me", BOTH))
    assert other.steps[0].reason is Reason.UNREACHABLE
    await pipeline.close()


# Who can be asked


@pytest.mark.parametrize(
    ("more", "asker", "can"),
    [
        ("", "me", False),
        ("[callers.other]\n", "me", False),
        ('[callers.other]\nscopes = ["mcp:diag:approve"]\n', "me", True),
        ('[callers.other]\nscopes = ["mcp:diag:approve"]\n', "other", False),
        ('[callers.other]\nscopes = ["mcp:diag:approve"]\n[approvals]\nown_requests = true\n', "other", True),
        ('[callers.other]\nscopes = ["mcp:diag:approve"]\ntenant = "acme"\n[tenants.acme]\n', "me", False),
        ('[issuers.corp]\nissuer = "https://login.example.com"\n', "me", True),
        ("[development_issuer.people]\nann = []\n", "me", True),
    ],
)
def test_somebody_can_be_asked_who_approves_in_the_tenant_and_is_not_the_asker(
    read: Read, more: str, asker: str, can: bool
) -> None:
    config = read(f'[callers.me]\nscopes = ["mcp:diag:write"]\n{more}')
    assert Policy(config).can_ask(wiring.caller(config, asker)) is can


@pytest.mark.anyio
async def test_where_nobody_can_be_asked_the_caller_is_told_so(read: Read) -> None:
    config = read('[callers.me]\nscopes = ["mcp:diag:write"]\n[services.a]\ndriver = "memory"\n')
    report = await wiring.build(config).run('RESTART "a"', wiring.caller(config, "me"))
    assert report.refusal is not None
    assert report.refusal.code is Code.NOBODY_TO_ASK


# The version of the policy

WHOLE = """
caller = "me"
[callers.me]
scopes = ["mcp:diag:read", "mcp:diag:write"]
[server]
port = 9000
[limits]
commands = 20
[ssh.m]
host = "m.internal"
user = "guideway"
key_file = "key"
known_hosts = "known"
[ssh.unused]
host = "u.internal"
user = "guideway"
agent = true
[hosts.h]
probe = "tcp"
address = "h.internal"
port = 80
[services.a]
driver = "systemd"
unit = "a.service"
ssh = "m"
impact = "low"
reversibility = "easy"
windows = ["Mon-Fri 09:00-17:00 Europe/Berlin"]
group = "g"
[services."b-*"]
driver = "systemd"
unit = "{1}.service"
restarts_per_day = 3
[services.sup]
driver = "supervisord"
program = "p"
socket = "run/s"
username = "u"
password_env = "PASSWORD_OF_P"
[tenants.acme]
restarts_per_hour = 9
[tenants.acme.services.own]
driver = "memory"
[tenants.other.services.own]
driver = "memory"
[groups.g]
at_once = 2
[groups.unused]
at_once = 2
[freezes.f]
from = 2026-12-24T00:00:00+01:00
until = 2027-01-02T00:00:00+01:00
services = ["a"]
reason = "holidays"
[approvals]
lifetime_seconds = 200
own_requests = true
form = ["one", "two", "three"]
[approvals.webhooks.chat]
url = "https://chat.example.com/1"
secret_env = "S"
[store]
folder = "state"
[quotas]
restarts_per_day = 100
"""


def versions(config: Config) -> dict[str | None, str]:
    return dict(wiring.build(config).gate.rules.policy)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        # what decides
        ('impact = "low"', 'impact = "high"', {None, "acme", "other"}),
        ('unit = "a.service"', 'unit = "c.service"', {None, "acme", "other"}),
        ('unit = "{1}.service"', 'unit = "x-{1}.service"', {None, "acme", "other"}),
        ("restarts_per_day = 3", "restarts_per_day = 4", {None, "acme", "other"}),
        ("09:00-17:00", "09:00-18:00", {None, "acme", "other"}),
        ("at_once = 2\n[groups.unused]", "at_once = 1\n[groups.unused]", {None, "acme", "other"}),
        ("2027-01-02T00:00:00+01:00", "2027-01-02T00:00:00Z", {None, "acme", "other"}),
        ('services = ["a"]', 'services = ["a", "own"]', {"acme", "other"}),
        ("lifetime_seconds = 200", "lifetime_seconds = 201", {None, "acme", "other"}),
        ('"three"', '"four"', {None, "acme", "other"}),
        ('host = "m.internal"', 'host = "n.internal"', {None, "acme", "other"}),
        ('address = "h.internal"', 'address = "i.internal"', {None, "acme", "other"}),
        ("restarts_per_hour = 9", "restarts_per_hour = 8", {"acme"}),
        ("restarts_per_day = 100", "restarts_per_day = 99", {None}),
        ('[tenants.acme.services.own]\n', '[tenants.acme.services.own]\ncritical = true\n', {"acme"}),
        # the same in other words, and what does not decide
        ("2026-12-24T00:00:00+01:00", "2026-12-23T23:00:00Z", set()),
        ('"one", "two", "three"', '"three", "one", "two"', set()),
        ("port = 9000", "port = 9001", set()),
        ("commands = 20", "commands = 21", set()),
        ('url = "https://chat.example.com/1"', 'url = "https://chat.example.com/2"', set()),
        ('folder = "state"', 'folder = "elsewhere"', set()),
        ('at_once = 2\n[freezes.f]', 'at_once = 3\n[freezes.f]', set()),
        ('scopes = ["mcp:diag:read", "mcp:diag:write"]', "scopes = []", set()),
    ],
)  # fmt: skip
def test_the_version_changes_where_what_decides_does_and_only_there(
    read: Read, before: str, after: str, changed: set[str | None]
) -> None:
    assert WHOLE.count(before) == 1
    was, now = versions(read(WHOLE)), versions(read(WHOLE.replace(before, after)))
    assert {tenant for tenant in was if was[tenant] != now[tenant]} == changed


def test_the_version_is_the_same_in_another_process_and_another_folder(read: Read, tmp_path: Path) -> None:
    here = versions(read(WHOLE))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "guideway.toml").write_text(WHOLE)
    code = (
        "import sys; from pathlib import Path; from guideway.server import config, policy\n"
        "made = policy.Policy(config.load(Path(sys.argv[1])))\n"
        "print(*(made.version(tenant) for tenant in (None, 'acme', 'other')))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PASSWORD_OF_P": seed}
        said = subprocess.run(
            [sys.executable, "-c", code, folder / "guideway.toml"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert said == [here[None], here["acme"], here["other"]]


RISKS = st.fixed_dictionaries(
    {},
    optional={
        "impact": st.sampled_from(["low", "high"]),
        "reversibility": st.sampled_from(["easy", "hard"]),
        "critical": st.booleans(),
        "restarts_per_hour": st.integers(0, 3),
        "cooldown_seconds": st.sampled_from([0, 1, 60.5]),
        "windows": st.lists(st.sampled_from(["Mon 09:00-17:00 UTC", "Sat,Sun 00:00-24:00 UTC"]), min_size=1),
        "program": st.sampled_from(["a", "b", "a:b"]),
    },
)


@given(one=RISKS, other=RISKS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_two_configurations_have_one_version_where_they_say_the_same_of_what_decides(
    read: Read, one: dict[str, Any], other: dict[str, Any]
) -> None:
    def version(said: dict[str, Any]) -> str:
        keys = {"program": "p"} | said
        spelled = "".join(
            f"{key} = {str(value).lower() if isinstance(value, bool) else _toml(value)}\n"
            for key, value in keys.items()
        )
        return versions(read(f'[services.x]\ndriver = "supervisord"\nurl = "http://localhost:9001"\n{spelled}'))[None]

    def sections(said: dict[str, Any]) -> Any:
        rest = {key: value for key, value in said.items() if key != "program"}
        return ServiceSection.model_validate(rest), said.get("program", "p")

    assert (version(one) == version(other)) == (sections(one) == sections(other))


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
