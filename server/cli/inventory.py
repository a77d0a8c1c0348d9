"""``guideway inventory``: what programs can name, and whether each can be asked. Changes nothing.

A service that is down is no mistake of the inventory: what is wrong here is what cannot be asked, or does not answer.
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio

from guideway.dsl.record import Record
from guideway.dsl.recovery import nearest
from guideway.interpreter.drivers.base import SAYS_WHAT_TO_GRANT, Fault, Observation
from guideway.interpreter.drivers.ways import SocketOptions
from guideway.interpreter.inventory import Host
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.results import Reason, State
from guideway.interpreter.service import Service
from guideway.interpreter.untrusted import clean
from guideway.server import wiring
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.configured import read_config
from guideway.server.cli.console import CYAN, DIM, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.inventory_list import EMPTY, list_inventory, of_tenant
from guideway.server.cli.inventory_reach import require_trusted, try_machine, try_pattern
from guideway.server.config import Config
from guideway.server.entries import HostEntry, HostPatternEntry, ServiceEntry, ServicePatternEntry, SshPatternEntry
from guideway.server.render import UNWELL, quoted_lines

_Entry = HostEntry | HostPatternEntry | ServiceEntry | ServicePatternEntry
_PatternEntry = HostPatternEntry | ServicePatternEntry | SshPatternEntry
_Pattern = TypeVar("_Pattern", HostPatternEntry, ServicePatternEntry)

_ASK_ONE = "`guideway inventory check NAME` asks one of its names"
_MOST_NAMED = 5
_AT_ONCE = 32  # sockets and threads are bounded, however large the inventory


class Finding(Record):
    """What came of asking one host, service or SSH machine. ``reason`` is None where it could be asked, or was not
    ``asked``.

    ``tenant`` is None for what is shared. ``unproven``: it can be restarted, and no health check says how it does then.
    """

    tenant: str | None
    kind: str
    name: str
    backend: str
    found: str
    state: State | None = None
    reason: Reason | None = None
    output: str = ""
    mend: str | None = None
    asked: bool = True
    unproven: bool = False

    def explanation(self) -> str | None:
        """Return what the service said where all is not well; None where all is."""
        return (self.output or None) if self.reason is not None or self.state in UNWELL else None

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "tenant": self.tenant,
            "kind": self.kind,
            "name": self.name,
            "backend": self.backend,
            "ok": self.reason is None if self.asked else None,
            "found": self.found,
            "state": self.state,
            "reason": self.reason,
            "mend": self.mend,
            "untrusted_output": self.output or None,
        }


async def look(config: Config, pipeline: Pipeline, names: Sequence[str] = ()) -> list[Finding]:
    """Ask every host and service once, or those of some names, many at a time; return what was found, in order.

    An SSH machine is tried where no service on it is asked. Of a pattern there is nothing to be asked without a name,
    but what all its names share is tried.
    """
    findings: dict[tuple[str, str, str], Finding] = {}
    room = anyio.CapacityLimiter(_AT_ONCE)
    deadlines = pipeline.deadlines

    async def note(owner: str | None, entry: _Entry, asked: Host | Service) -> None:
        kind = "host" if isinstance(asked, Host) else "service"
        seconds = deadlines.get_status if isinstance(asked, Service) else asked.deadline or deadlines.ping
        async with room:
            found = await _ask(asked, seconds, deadlines.restart, entry)
            findings[owner or "", kind, asked.name] = Finding(
                owner, kind, asked.name, entry.kind, *found, unproven=_is_unproven(entry)
            )

    async def note_machine(name: str) -> None:
        async with room:
            findings["", "ssh", name] = await _machine(config, name)

    async def note_pattern(owner: str | None, entry: _PatternEntry) -> None:
        async with room:
            finding = await _pattern(config, owner, entry, deadlines.get_status)
            findings[owner or "", finding.kind, finding.name] = finding

    try:
        async with anyio.create_task_group() as tasks:
            for tenant, entry, asked in _asked(config, pipeline, names):
                tasks.start_soon(note, tenant, entry, asked)
            for name in _machines(config, names):
                tasks.start_soon(note_machine, name)
            for owner, pattern in _patterns(config):
                if not names or pattern.pattern.text in names:
                    tasks.start_soon(note_pattern, owner, pattern)
    finally:
        with anyio.CancelScope(shield=True):
            await pipeline.close()
    return [findings[key] for key in sorted(findings)]


def _asked(
    config: Config, pipeline: Pipeline, names: Sequence[str]
) -> Iterator[tuple[str | None, _Entry, Host | Service]]:
    """Yield what is to be asked, with its owner and its entry."""
    shared = pipeline.inventory
    for tenant, owned in config.entries():
        inventory = shared if tenant is None else pipeline.tenants[tenant]
        for name in names or owned.hosts:
            if name in owned.hosts:
                yield tenant, owned.hosts[name], inventory.hosts[name]
            elif name not in shared.hosts and (pattern := _meaning(owned.host_patterns.values(), name)):
                yield tenant, pattern, inventory.host(name)
        for name in names or owned.services:
            if name in owned.services:
                yield tenant, owned.services[name], inventory.services[name]
            elif name not in shared.services and (driven := _meaning(owned.service_patterns.values(), name)):
                yield tenant, driven, inventory.service(name)


def _meaning(patterns: Iterable[_Pattern], name: str) -> _Pattern | None:
    """Return the pattern that means a name."""
    return next((entry for entry in patterns if entry.pattern.match(name)), None)


def _is_unproven(entry: _Entry) -> bool:
    """Say whether a restart is judged by the word of a service manager that cannot look into the service."""
    return (
        isinstance(entry, ServiceEntry | ServicePatternEntry)
        and entry.health_kind is None
        and entry.common.restartable
        and entry.kind != "kubernetes"  # a rollout waits for the readiness of its pods
    )


def _machines(config: Config, names: Sequence[str]) -> Iterator[str]:
    """Yield the SSH machines that are to be tried: those that are named, else those on which no service is asked."""
    if names:
        yield from (name for name in config.ssh if name in names)
        return
    drivers = (entry.driver for _, owned in config.entries() for entry in owned.services.values())
    used = {driver.ssh for driver in drivers if isinstance(driver, SocketOptions)}
    yield from (name for name in config.ssh if name not in used)


async def _machine(config: Config, name: str) -> Finding:
    try:
        return Finding(None, "ssh", name, "ssh", await try_machine(name, config.ssh[name]))
    except Fault as fault:
        return Finding(None, "ssh", name, "ssh", *_wrong(fault))


def _patterns(config: Config) -> Iterator[tuple[str | None, _PatternEntry]]:
    for tenant, owned in config.entries():
        for host in owned.host_patterns.values():
            yield tenant, host
        for service in owned.service_patterns.values():
            yield tenant, service
    for machine in config.ssh_patterns.values():
        yield None, machine


async def _pattern(config: Config, owner: str | None, entry: _PatternEntry, seconds: float) -> Finding:
    """Return what is known of a pattern without a name of it."""
    name = entry.pattern.text
    if isinstance(entry, SshPatternEntry):
        return Finding(owner, "ssh", name, "ssh", "nothing was tried, its entry is sound", asked=False)
    try:
        require_trusted(entry)
    except Fault as fault:
        kind = "host" if isinstance(entry, HostPatternEntry) else "service"
        return Finding(owner, kind, name, entry.kind, *_wrong(fault), unproven=_is_unproven(entry))
    if isinstance(entry, HostPatternEntry):
        found = f"nothing was asked, its entry is sound; {_ASK_ONE}"
        return Finding(owner, "host", name, entry.kind, found, asked=False)
    try:
        shared = await try_pattern(config, entry, seconds)
    except Fault as fault:
        return Finding(owner, "service", name, entry.kind, *_wrong(fault), unproven=_is_unproven(entry))
    sound = f"{shared}, and nothing was asked" if shared else "nothing was asked, its entry is sound"
    found = f"{sound}; {_ASK_ONE}"
    return Finding(owner, "service", name, entry.kind, found, asked=False, unproven=_is_unproven(entry))


# What was found, the state, the reason where it is wrong, what the service said, and how to mend it.
_Found = tuple[str, State | None, Reason | None, str, str | None]


async def _ask(asked: Host | Service, seconds: float, restart: float, entry: _Entry) -> _Found:
    try:
        require_trusted(entry)
        match asked:
            case Host():
                echo = await asked.ping(seconds)
                return f"answered in {echo.seconds * 1000:.1f} ms", None, None, "", None
            case Service():
                seen = await asked.state(seconds)
                return await _with_rights(asked, seen, seconds, restart)
    except Fault as fault:
        return _wrong(fault)


def _wrong(fault: Fault) -> _Found:
    return _words(fault), None, fault.reason, clean(fault.output), fault.mend or None


def _words(fault: Fault) -> str:
    """Return a fault's message, without the advice to run this very command."""
    return fault.message.removesuffix(SAYS_WHAT_TO_GRANT)


async def _with_rights(service: Service, seen: Observation, seconds: float, restart: float) -> _Found:
    """Return what was seen of a service, and what forbids its restart or makes it fail, where programs can name that.

    ``restart`` is the default of what a restart may take.
    """
    found = f"is {seen.state}"
    try:
        if service.restartable:
            await service.check_restart(seconds)
            longest, given = await service.longest_restart(seconds), service.deadline or restart
            if longest is not None and longest > given:
                may = f"a restart take {longest:g} s" if math.isfinite(longest) else "a restart take for ever"
                found += f"; its service manager lets {may}, and `restart_seconds` {given:g} s"
    except Fault as fault:
        return (
            f"is {seen.state}, and cannot be restarted: {_words(fault)}",
            seen.state,
            fault.reason,
            clean(fault.output),
            fault.mend or None,
        )
    return found, seen.state, None, clean(seen.output), None


def show(console: Console, finding: Finding) -> None:
    """Write a finding as one line, and what the service said below it."""
    if finding.reason is not None:
        verdict = (f"{'wrong':<7}", RED)
    elif not finding.asked:
        verdict = (f"{'skip':<7}", YELLOW)
    else:
        verdict = (f"{'ok':<7}", GREEN if finding.state in (None, State.RUNNING) else YELLOW)
    reason = f"{finding.reason}: " if finding.reason else ""
    what = (f" ({finding.backend}{of_tenant(finding.tenant)})", DIM)
    console.line(verdict, f"{finding.kind:<8} {finding.name}", what, f": {reason}{finding.found}")
    for line in quoted_lines(finding.explanation()):
        console.line((line, DIM))
    if finding.mend:
        console.line(("       mend: ", CYAN), finding.mend)


def _summary(findings: Sequence[Finding]) -> dict[str, int]:
    """Count the findings."""
    wrong = sum(finding.reason is not None for finding in findings)
    skipped = sum(finding.reason is None and not finding.asked for finding in findings)
    return {"ok": len(findings) - wrong - skipped, "wrong": wrong, "not_asked": skipped}


def _hints(findings: Sequence[Finding]) -> list[str]:
    """Return what could be stated and is not, though nothing is wrong."""
    names = [finding.name for finding in findings if finding.unproven]
    if not names:
        return []
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    said = f"no `health`: {', '.join(names[:_MOST_NAMED])}{more}"
    return [
        f"{said}; a restart is ok where the service manager calls it running for `settle_seconds`, and nothing asks it"
    ]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "check"), help="list: only say what there is; check: ask each")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="for check: ask only these, also a name that a pattern means"
    )
    parser.add_argument("--config", metavar="PATH", help="the configuration file; see docs/configuration.md")


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    console = Console(options.color)
    if options.action == "list":
        if options.names:
            raise Complaint("`list` takes no names", help="`guideway inventory check NAME` asks one")
        list_inventory(config, console, as_json=options.json)
        return Exit.OK
    findings = anyio.run(partial(look, config, wiring.build(config), options.names))
    missing = sorted(set(options.names).difference(finding.name for finding in findings))
    if missing and not findings:
        raise _unknown(config, missing[0])
    fine = not missing and all(finding.reason is None for finding in findings)
    if options.json:
        unknown = {"unknown": [_unknown(config, name).to_json()["error"] for name in missing]} if missing else {}
        write_json(
            {
                "ok": fine,
                "summary": _summary(findings),
                "hints": _hints(findings),
                "entries": [finding.to_json() for finding in findings],
                **unknown,
            }
        )
    else:
        for finding in findings:
            show(console, finding)
        if not findings:
            console.line(EMPTY)
        else:
            counts = _summary(findings).items()
            said = [f"{count} {what.replace('_', ' ')}" for what, count in counts if count or what == "ok"]
            console.line(", ".join(said))
        for hint in _hints(findings):
            console.line(("hint: ", CYAN), hint)
        console.stream.flush()
        if missing:  # the others were asked all the same
            raise _unknown(config, *missing)
    if missing:
        return Exit.USAGE
    return Exit.OK if fine else Exit.FAILED


def _unknown(config: Config, *names: str) -> Complaint:
    listed = ", ".join(f"`{clean(name)}`" for name in names)
    return Complaint(f"the inventory has nothing called {listed}", help=_mend(config, names[0]))


def _mend(config: Config, name: str) -> str:
    names: set[str] = set(config.ssh)
    patterns: set[str] = set(config.ssh_patterns)
    for _, owned in config.entries():
        names.update(owned.hosts, owned.services)
        patterns.update(owned.host_patterns, owned.service_patterns)
    if near := nearest(name, sorted(names)):
        return f"did you mean `{near}`?"
    near = nearest(name, sorted(patterns))
    return (
        f"`{near}` does not mean it: a `*` stands for letters, digits, `_` and `-`"
        if near
        else "`guideway inventory list` says what there is"
    )


COMMAND = Command(
    summary="list what programs can name, or try it",
    description="List the hosts and services that programs can name, with the tier of each restart and where it\n"
    "comes from, its quota, group and windows; or ask each of them once, many at a time.\n"
    "Nothing is changed. A service that is down is told as it is and is no mistake of the inventory.\n"
    "An SSH machine on which no service is asked is connected to. Of a pattern, its entry can be\n"
    "checked and what all its names share, such as a socket, unless you say a name that it means.",
    examples=(
        "guideway inventory list",
        "guideway inventory check",
        "guideway inventory check api.internal",
        "guideway inventory check --json",
    ),
    exits=((Exit.OK, "each could be asked, and each host answered"), (Exit.FAILED, "something could not, or did not")),
    arguments=_arguments,
    run=_run,
)
