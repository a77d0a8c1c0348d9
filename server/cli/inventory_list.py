"""``guideway inventory list``: what programs can name, and what a restart asks of a person. Asks no service."""

import time
from collections.abc import Iterator
from typing import Any

import anyio

from guideway.dsl.ast import Restart
from guideway.dsl.record import Record
from guideway.interpreter.quotas import DAY, HOUR
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.risk import Quota
from guideway.server import wiring
from guideway.server.cli.console import DIM, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.inventory_target import machine_words, machines, probed_by, target_of, target_words
from guideway.server.config import Config
from guideway.server.entries import ServiceEntry, ServicePatternEntry
from guideway.server.policy import Policy
from guideway.server.stores import is_there

EMPTY = "the inventory is empty: docs/configuration.md says how to describe what there is"

_COLORS = {1: GREEN, 2: YELLOW, 3: RED}


def list_inventory(config: Config, console: Console, *, as_json: bool) -> None:
    """Write the list, of each owner by name. Quotas are said with what is used of them, where there is a store."""
    policy = Policy(config)
    used = anyio.run(_used, config) if is_there(config) else _Used({}, None)
    hosts: list[dict[str, Any]] = [
        {"tenant": tenant, "name": name, "probe": entry.kind, **_runs("target", probed_by(entry.probe))}
        for tenant, owned in config.entries()
        for name, entry in sorted(owned.every_host().items())
    ]
    services = [
        _service(policy, tenant, name, entry, used.made.get((tenant, name)))
        for tenant, owned in config.entries()
        for name, entry in sorted(owned.every_service().items())
    ]
    ssh = machines(config)
    if as_json:
        unread = {"quotas": {"error": used.error}} if used.error else {}
        write_json({"hosts": hosts, "services": services, "ssh": ssh, **unread})
        return
    if not hosts and not services and not ssh:
        console.line(EMPTY)
    for host in hosts:
        what = f"{host['probe']}{_words(host.get('target'))}{of_tenant(host['tenant'])}"
        console.line(f"host     {host['name']}", (f" ({what})", DIM))
    for service in services:
        _show(console, service)
    for machine in ssh:
        console.line(f"ssh      {machine['name']}", (f" ({machine_words(machine)})", DIM))
    if used.error:
        console.line(("quotas", YELLOW), f" as they are used are not known: {used.error}")


def of_tenant(tenant: str | None) -> str:
    """Return whose something is, as it stands behind its backend."""
    return f", tenant {tenant}" if tenant else ""


class _Used(Record):
    """Of services with a quota, by owner and name, how many restarts count within an hour and a day.

    ``error`` says why that is not known.
    """

    made: dict[tuple[str | None, str], tuple[int, int]]
    error: str | None


async def _used(config: Config) -> _Used:
    """Look into the store, which has to be there. What a pattern means counts by name, and is not among it."""
    pipeline = wiring.build(config)
    try:
        owned = {
            (tenant, name): pipeline.tenants[tenant].service(name) if tenant else pipeline.inventory.service(name)
            for tenant, entries in config.entries()
            for name, entry in entries.services.items()
            if entry.common.restartable and entry.common.risk().limits.bounds
        }
        now = time.time()
        try:
            made = await pipeline.gate.uses([(tenant, service) for (tenant, _), service in owned.items()], now)
        except StoreUnavailable as error:
            return _Used({}, str(error))
    finally:
        await pipeline.close()
    return _Used(
        {
            owner: (sum(now - at < HOUR for at in made[service.key]), sum(now - at < DAY for at in made[service.key]))
            for owner, service in owned.items()
        },
        None,
    )


def _service(
    policy: Policy,
    tenant: str | None,
    name: str,
    entry: ServiceEntry | ServicePatternEntry,
    used: tuple[int, int] | None,
) -> dict[str, Any]:
    common = entry.common
    said = {
        "tenant": tenant,
        "name": name,
        "driver": entry.kind,
        **target_of(entry),
        "health": entry.health_kind,
        **_runs("health_target", probed_by(entry.health)),
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
            "quota": {
                "per_hour": quota.per_hour,
                "per_day": quota.per_day,
                "cooldown_seconds": quota.cooldown,
                **({} if used is None else {"used_within_hour": used[0], "used_within_day": used[1]}),
            },
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


def _runs(key: str, options: dict[str, str]) -> dict[str, dict[str, str]]:
    return {key: options} if options else {}


def _words(options: dict[str, str] | None) -> str:
    return "".join(f" {value}" for value in (options or {}).values())


def _show(console: Console, service: dict[str, Any]) -> None:
    health = f", health: {service['health']}{_words(service.get('health_target'))}" if service["health"] else ""
    fixed = "" if service["restartable"] else ", not restartable"
    what = (f" ({service['driver']}{target_words(service)}{health}{fixed}{of_tenant(service['tenant'])})", DIM)
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
    used = (quota["used_within_hour"], quota["used_within_day"]) if "used_within_day" in quota else None
    words = quota_words(Quota(quota["per_hour"], quota["per_day"], quota["cooldown_seconds"]), used)
    if words:
        yield f"quota: {words}"
    if restart["group"]:
        yield f"group: {restart['group']['name']}, {restart['group']['at_once']} at once"
    if restart["windows"]:
        yield f"windows: {'; '.join(restart['windows'])}"
    for freeze in restart["freezes"]:
        yield f"freeze: {freeze['name']}, from {freeze['from']} until {freeze['until']}: {freeze['reason']}"


def quota_words(quota: Quota, used: tuple[int, int] | None = None) -> str:
    """Return a quota in words, empty where it bounds nothing; ``used`` is how often within the last hour and day."""
    each = ((quota.per_hour, "an hour", "this hour"), (quota.per_day, "a day", "this day"))
    said = [
        f"{most} {word}" if used is None else f"{used[index]} of {most} {now}"
        for index, (most, word, now) in enumerate(each)
        if most is not None
    ]
    return ", ".join([*said, *([f"{quota.cooldown:g} s apart"] if quota.cooldown else [])])
