"""``guideway inventory list``: what programs can name, and what a restart of each asks of a person. Reaches nothing."""

from collections.abc import Iterator
from typing import Any

from guideway.dsl.ast import Restart
from guideway.interpreter.risk import Quota
from guideway.server.cli.console import DIM, GREEN, RED, YELLOW, Console, write_json
from guideway.server.config import Config
from guideway.server.entries import ServiceEntry, ServicePatternEntry
from guideway.server.policy import Policy

EMPTY = "the inventory is empty: docs/configuration.md says how to describe what there is"

_COLORS = {1: GREEN, 2: YELLOW, 3: RED}


def list_inventory(config: Config, console: Console, *, as_json: bool) -> None:
    """Write the list, of each owner by name."""
    policy = Policy(config)
    hosts: list[dict[str, Any]] = [
        {"tenant": tenant, "name": name, "probe": entry.kind}
        for tenant, owned in config.entries()
        for name, entry in sorted(owned.every_host().items())
    ]
    services = [
        _service(policy, tenant, name, entry)
        for tenant, owned in config.entries()
        for name, entry in sorted(owned.every_service().items())
    ]
    if as_json:
        write_json({"hosts": hosts, "services": services})
        return
    if not hosts and not services:
        console.line(EMPTY)
    for host in hosts:
        console.line(f"host     {host['name']}", (f" ({host['probe']}{of_tenant(host['tenant'])})", DIM))
    for service in services:
        _show(console, service)


def of_tenant(tenant: str | None) -> str:
    """Return whose something is, as it stands behind its backend."""
    return f", tenant {tenant}" if tenant else ""


def _service(
    policy: Policy, tenant: str | None, name: str, entry: ServiceEntry | ServicePatternEntry
) -> dict[str, Any]:
    common = entry.common
    said = {
        "tenant": tenant,
        "name": name,
        "driver": entry.kind,
        "health": entry.health_kind,
        "restartable": common.restartable,
    }
    if not common.restartable:
        return said | {"restart": None}
    risk = common.risk()
    effective, quota = risk.effective(Restart), risk.limits
    return said | {
        "restart": {
            "tier": int(effective.tier),
            "label": effective.tier.label,
            "source": effective.source,
            "quota": {"per_hour": quota.per_hour, "per_day": quota.per_day, "cooldown_seconds": quota.cooldown},
            "group": common.group and {"name": common.group, "at_once": policy.groups[common.group]},
            "windows": list(common.windows),
            "freezes": [
                {
                    "name": freeze.name,
                    "from": freeze.begins.isoformat(),
                    "until": freeze.ends.isoformat(),
                    "reason": freeze.reason,
                }
                for freeze in policy.calendar(name, common, name).freezes
            ],
        }
    }


def _show(console: Console, service: dict[str, Any]) -> None:
    health = f", health: {service['health']}" if service["health"] else ""
    fixed = "" if service["restartable"] else ", not restartable"
    what = (f" ({service['driver']}{health}{fixed}{of_tenant(service['tenant'])})", DIM)
    restart = service["restart"]
    if restart is None:
        console.line(f"service  {service['name']}", what)
        return
    tier = (f"tier {restart['tier']} {restart['label']}", _COLORS[restart["tier"]])
    console.line(f"service  {service['name']}", what, ": ", tier, f", {restart['source']}")
    for line in _bounds(restart):
        console.line((f"         {line}", DIM))


def _bounds(restart: dict[str, Any]) -> Iterator[str]:
    quota = restart["quota"]
    words = quota_words(Quota(quota["per_hour"], quota["per_day"], quota["cooldown_seconds"]))
    if words:
        yield f"quota: {words}"
    if restart["group"]:
        yield f"group: {restart['group']['name']}, {restart['group']['at_once']} at once"
    if restart["windows"]:
        yield f"windows: {'; '.join(restart['windows'])}"
    for freeze in restart["freezes"]:
        yield f"freeze: {freeze['name']}, from {freeze['from']} until {freeze['until']}: {freeze['reason']}"


def quota_words(quota: Quota) -> str:
    """Return a quota in words, empty where it bounds nothing."""
    said = [
        f"{most} {word}" for most, word in ((quota.per_hour, "an hour"), (quota.per_day, "a day")) if most is not None
    ]
    return ", ".join([*said, *([f"{quota.cooldown:g} s apart"] if quota.cooldown else [])])
