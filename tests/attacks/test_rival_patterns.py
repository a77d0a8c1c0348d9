"""Mallory may name what patterns mean, and two of them come to one unit: she takes the one that asks less of her.

The story: the databases of a fleet ask a person before a restart, by a pattern of their own; another pattern, for
everything on a machine, asks nobody and has room for their units too. No name is a way around, in whatever order.
"""

from pathlib import Path

import pytest

from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.nowhere import Nowhere
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Reason
from guideway.server import config, wiring

MALLORY = Principal("mallory", frozenset({Scope.READ, Scope.WRITE}))
LOW = 'impact = "low"\nreversibility = "easy"\n'
SUPERVISORD = 'driver = "supervisord"\nsocket = "/run/s.sock"\n'
SSH = "[ssh.'m-*']\nhost = '{name}.internal'\nuser = 'u'\nkey_file = '/k'\nknown_hosts = '/h'\n"


def inventory(folder: Path, text: str) -> Inventory:
    file = folder / "guideway.toml"
    file.write_text(text)
    return wiring.build(config.load(file)).inventory


def leads_nowhere(found: Inventory, name: str) -> bool:
    return isinstance(found.service(name)._driver, Nowhere)


@pytest.mark.parametrize(
    ("strict", "lax", "names"),
    [
        (
            f"[services.'db-*']\n{SUPERVISORD}program = '{{name}}'\ncritical = true\n",
            f"[services.'any.*']\n{SUPERVISORD}program = '{{1}}'\n{LOW}",
            ("db-1", "any.db-1"),
        ),
        (
            f"{SSH}[services.'db@*']\ndriver = 'systemd'\nssh = 'm-{{1}}'\nunit = 'db.service'\n",
            f"[services.'*.on.*']\ndriver = 'systemd'\nssh = '{{2}}'\nunit = '{{1}}.service'\n{LOW}",
            ("db@7", "db.on.m-7"),
        ),
        (
            "[services.'db-*']\ndriver = 'container'\ncontainer = 'x-{1}.{1}'\n",
            f"[services.'any.*.*']\ndriver = 'container'\ncontainer = '{{1}}.{{2}}'\n{LOW}",
            ("db-1", "any.x-1.1"),
        ),
        (
            f"[services.'db-*']\n{SUPERVISORD}program = 'db:{{1}}'\nrestarts_per_hour = 1\n{LOW}",
            f"[services.'y.*']\n{SUPERVISORD}program = 'db:{{1}}'\n{LOW}",
            ("db-1", "y.1"),
        ),
    ],
    ids=["one star", "over SSH", "a star that stands twice", "another quota"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_no_pattern_is_a_way_around_another(
    tmp_path: Path, strict: str, lax: str, names: tuple[str, str], turned: bool
) -> None:
    found = inventory(tmp_path, strict + lax)
    for name in reversed(names) if turned else names:
        assert leads_nowhere(found, name)


@pytest.mark.anyio
async def test_who_names_it_is_told_why(tmp_path: Path) -> None:
    found = inventory(
        tmp_path,
        f"[services.'db-*']\n{SUPERVISORD}program = '{{name}}'\n"
        f"[services.'any.*']\n{SUPERVISORD}program = '{{1}}'\n{LOW}",
    )
    with pytest.raises(
        Fault, match=r"`any\.\*` cannot mean this name: it is a unit that `db-\*` means as well"
    ) as caught:
        await found.service("any.db-1").state(1)
    assert caught.value.reason is Reason.NOT_FOUND


def test_a_tenants_pattern_is_no_way_around_that_of_another(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text(
        f"[tenants.acme.services.'*:*']\n{SUPERVISORD}program = '{{name}}'\n"
        f"[tenants.evil.services.'y.*']\n{SUPERVISORD}program = 'db:{{1}}'\n{LOW}"
    )
    tenants = wiring.build(config.load(file)).tenants
    assert leads_nowhere(tenants["evil"], "y.1")
    assert leads_nowhere(tenants["acme"], "db:1")
    assert not leads_nowhere(tenants["acme"], "web:1")


def test_what_is_guarded_alike_or_is_another_unit_is_fine(tmp_path: Path) -> None:
    found = inventory(
        tmp_path,
        f"[services.'db-*']\n{SUPERVISORD}program = '{{name}}'\n{LOW}"
        f"[services.'any.*']\n{SUPERVISORD}program = '{{1}}'\n{LOW}"
        f"[services.'other.*']\n{SUPERVISORD.replace('/s.', '/t.')}program = '{{1}}'\ncritical = true\n"
        f"[services.'seen.*']\n{SUPERVISORD}program = '{{1}}'\nrestartable = false\n",
    )
    assert not any(leads_nowhere(found, name) for name in ("db-1", "any.db-1", "any.x", "other.db-1", "seen.db-1"))


def test_a_name_with_an_entry_of_its_own_is_not_the_patterns(tmp_path: Path) -> None:
    """The name by which the stricter pattern would come to that unit has an entry, for another one."""
    found = inventory(
        tmp_path,
        f"[services.'db-*']\n{SUPERVISORD}program = '{{name}}'\n[services.db-1]\n{SUPERVISORD}program = 'else'\n"
        f"[services.'any.*']\n{SUPERVISORD}program = '{{1}}'\n{LOW}",
    )
    assert not leads_nowhere(found, "any.db-1")
    assert leads_nowhere(found, "any.db-2")
