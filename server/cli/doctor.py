"""``guideway doctor``: what is wrong with this installation, and how to mend it. Changes nothing.

Each examination is a function that yields what it found; one that cannot even start must not hide the others, so
that nothing here loads a third-party package before it was seen to be installed.
"""

import argparse
import datetime
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING

from guideway import __version__
from guideway.interpreter.extras import SAYS_HOW_TO_INSTALL, install
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.console import CYAN, DIM, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.finding import Finding, Grade
from guideway.server.render import quoted_lines

if TYPE_CHECKING:
    from guideway.server.config import Config


_MENDS = {
    "no_answer": "if it should be up: start it, or mend its address in {file}",
    "cannot_probe": "this says nothing about the host: mend what keeps the probe from being sent",
    "not_found": "mend the name that the service manager knows it by in {file}",
    "timed_out": "find out why it does not answer, or give it longer",
}
# Where the message says more than the reason does: the first that it holds counts.
_MENDS_BY_MESSAGE = {
    "does not resolve": "mend the name in {file}, or this machine's name resolution",
    "the answer was HTTP": "it is up: look into its own log, or name the status that it should have as `status`",
    "TLS certificate is not accepted": "it is up: renew its certificate, or name its authority as `ca_file`",
    "no HTTP answer came": "it is up: mend scheme and port of `url`, or use the probe `tcp`",
    "without the labels": "mend `selector` in {file}, or the labels of the workload",
    "is not supervisord": "`socket` or `url` in {file} leads to something else: name supervisord's own",
    "does not speak": "what {file} names leads to something else: name its service manager's own",
}
# How a file of configuration is mended that could not be read at all; what is wrong within one says so itself.
_FILE_MENDS = {
    "no such file or directory": "name a file that is there with --config, or in GUIDEWAY_CONFIG",
    "is a directory": "name the file in it",
    "permission denied": "let this user read it, or run guideway as one who may",
    "can be written by anybody": "take that right away, as it says: whoever writes it decides what is restarted",
    "belongs to user": "read it first: whoever owns it decides what is restarted",
    "is not UTF-8": "save it as UTF-8",
    "is not TOML": "mend the line; https://toml.io shows how TOML is written",
}
_REINSTALL = "pip install . in guideway's repository"
_RENEW = "renew it; a running server reads it again at SIGHUP, `client_ca` when it is started"
_COLORS = {Grade.OK: GREEN, Grade.NOTE: YELLOW, Grade.WRONG: RED}


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_configuration(parser)


def _run(options: argparse.Namespace) -> int:
    console = Console(options.color)
    findings: list[Finding] = []
    for finding in _examine(options, console):
        findings.append(finding)
        if not options.json:
            console.line((f"{finding.grade:<6}", _COLORS[finding.grade]), f"{finding.about}: {finding.message}")
            for line in quoted_lines(finding.untrusted_output):
                console.line((line, DIM))
            if finding.mend:
                console.line(("      mend: ", CYAN), finding.mend)
            console.stream.flush()
    wrong = any(finding.grade is Grade.WRONG for finding in findings)
    if options.json:
        names = ("grade", "about", "message", "mend", "untrusted_output")
        write_json({"ok": not wrong, "findings": [dict(zip(names, one, strict=True)) for one in findings]})
    return Exit.FAILED if wrong else Exit.OK


def _examine(options: argparse.Namespace, console: Console) -> Iterator[Finding]:
    yield Finding(Grade.OK, "version", f"guideway {__version__} on Python {sys.version.split()[0]} in {sys.prefix}")
    packages = list(_packages())
    yield from packages
    yield _encoding(console)
    if not any(finding.grade is Grade.WRONG for finding in packages):
        yield from _configuration(options)


def _packages() -> Iterator[Finding]:
    """Say which of the packages that the distribution asks for are not there."""
    try:
        requirements = metadata.requires("guideway") or []
    except metadata.PackageNotFoundError:
        yield Finding(Grade.WRONG, "packages", "guideway is not installed, only found", _REINSTALL)
        return
    missing: dict[str, list[str]] = {}  # by the extra that asks for it, empty for what is always needed
    for requirement in requirements:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        try:
            metadata.version(name[0] if name else requirement)
        except metadata.PackageNotFoundError:
            asks = re.search(r"""extra == ['"]([^'"]+)""", requirement)
            missing.setdefault(asks[1] if asks else "", []).append(name[0] if name else requirement)
    if needed := missing.pop("", None):
        yield Finding(Grade.WRONG, "packages", f"missing: {', '.join(needed)}", _REINSTALL)
    else:
        yield Finding(Grade.OK, "packages", "all that are needed are installed")
    for extra, names in missing.items():
        found = f"the extra `{extra}` is not installed: {', '.join(names)}"
        yield Finding(Grade.NOTE, "packages", found, f"{install(extra)}, where you need it")


def _encoding(console: Console) -> Finding:
    encoding = console.stream.encoding
    if console.is_unicode:
        return Finding(Grade.OK, "terminal", f"writes {encoding}")
    return Finding(
        Grade.NOTE,
        "terminal",
        f"writes {encoding}, which cannot show every character of a comment",
        "set LC_ALL=C.UTF-8, or PYTHONUTF8=1",
    )


def _configuration(options: argparse.Namespace) -> Iterator[Finding]:
    """Look at the file, the caller, and everything in the inventory."""
    from guideway.server.cli.configured import explain_nobody, read_caller, read_config  # noqa: PLC0415  # see above

    try:
        config = read_config(options)
    except Complaint as complaint:
        for line in str(complaint).split("\n"):
            says_so = SAYS_HOW_TO_INSTALL in line
            mend = _mend(line, _FILE_MENDS) or (None if says_so else "mend the line that it names")
            yield Finding(Grade.WRONG, "configuration", line, mend)
        return
    if config.path is None:
        yield Finding(
            Grade.WRONG,
            "configuration",
            "there is no guideway.toml in this folder, in the user's configuration folder, or in /etc/guideway",
            "write one, or name one with --config; `guideway demo --keep` prints the path of one to begin with",
        )
        return
    yield Finding(Grade.OK, "configuration", f"{config.path} is valid")
    try:
        caller = read_caller(options, config)
    except Complaint as complaint:
        yield Finding(Grade.WRONG, "caller", str(complaint), complaint.help)
    else:
        why = explain_nobody(config, caller)
        if why and config.asks_for_tokens:
            yield Finding(Grade.NOTE, "caller", f"stdio and the shell may do nothing here: {why}; HTTP goes by tokens")
        elif why:
            yield Finding(Grade.WRONG, "caller", why, "set `caller`, and `scopes` of [callers.NAME]")
        else:
            yield Finding(Grade.OK, "caller", f"{caller.subject} has {' '.join(sorted(caller.scopes))}")
    yield from _tls(config)
    yield from _issuers(config)
    yield from _risk(config)
    yield from _audit(config)
    yield from _replicas(config)
    yield from _webhooks(config)
    yield from _telemetry(config)
    yield from _checks(config)
    yield from _inventory(config)


def _mend(message: str, mends: Mapping[str, str]) -> str | None:
    return next((mend for words, mend in mends.items() if words in message), None)


def _tls(config: "Config") -> Iterator[Finding]:
    """Look at the certificate and its key, and at how long they are good."""
    from guideway.server.tls import SOON, Tls, TlsError  # noqa: PLC0415  # see above

    if config.server.tls is None:
        return
    try:
        tls = Tls(config.server.tls)
    except TlsError as error:
        for problem in error.problems:
            mend = problem.help or "mend the file, or name another in [server.tls]"
            yield Finding(Grade.WRONG, "tls", f"`{problem.key}` {problem.message}", mend)
        return
    now = datetime.datetime.now(datetime.UTC)
    warnings = list(tls.warnings(now))
    for warning in warnings:
        yield Finding(Grade.WRONG, "tls", warning, _RENEW)
    if not warnings:
        soon = tls.good_until - now < SOON
        good = f"the certificate is good until {tls.good_until:%Y-%m-%d}"
        yield Finding(Grade.NOTE if soon else Grade.OK, "tls", good, _RENEW if soon else None)


def _issuers(config: "Config") -> Iterator[Finding]:
    """Ask each issuer for what the server needs of it."""
    if config.issuers:
        import anyio  # noqa: PLC0415  # see above

        from guideway.server.cli.issuers import look_at_issuers  # noqa: PLC0415  # loads cryptography

        yield from anyio.run(look_at_issuers, config)


def _risk(config: "Config") -> Iterator[Finding]:
    """Look at what restarts ask of people, and at the store."""
    from guideway.server.cli.risk_findings import look_at_risk  # noqa: PLC0415  # see above

    yield from look_at_risk(config)


def _audit(config: "Config") -> Iterator[Finding]:
    """Look at how the audit trail is kept, and how it ends."""
    from guideway.server.cli.audit_findings import look_at_audit  # noqa: PLC0415  # see above

    yield from look_at_audit(config)


def _replicas(config: "Config") -> Iterator[Finding]:
    """Look at what replicas would have to share, where the store is one for them."""
    from guideway.server.cli.replica_findings import look_at_replicas  # noqa: PLC0415  # see above

    yield from look_at_replicas(config)


def _webhooks(config: "Config") -> Iterator[Finding]:
    """Look at who is told of tickets and runs, and was not."""
    if config.approvals.webhooks:
        from guideway.server.cli.webhook_findings import look_at_webhooks  # noqa: PLC0415  # see above

        yield from look_at_webhooks(config)


def _checks(config: "Config") -> Iterator[Finding]:
    """Say what holds the programs that are run as checks, where there are some."""
    import anyio  # noqa: PLC0415  # see above

    from guideway.server.cli.check_findings import look_at_checks  # noqa: PLC0415

    yield from anyio.run(look_at_checks, config)


def _telemetry(config: "Config") -> Iterator[Finding]:
    """Look at where metrics are served and traces are sent."""
    if config.metrics is not None or config.telemetry is not None:
        from guideway.server.cli.telemetry_findings import look_at_telemetry  # noqa: PLC0415  # see above

        yield from look_at_telemetry(config)


def _inventory(config: "Config") -> Iterator[Finding]:
    """Ask each host and service once, and say whether ICMP may be sent."""
    import anyio  # noqa: PLC0415  # see above

    from guideway.server import wiring  # noqa: PLC0415
    from guideway.server.cli.inventory import look  # noqa: PLC0415

    found = anyio.run(look, config, wiring.build(config))
    for one in found:
        about = f"{one.kind} {one.name}"
        if one.reason is None:
            yield Finding(Grade.OK if one.asked else Grade.NOTE, about, one.found, untrusted_output=one.explanation())
        else:
            mend = one.mend or _mend(one.found, _MENDS_BY_MESSAGE) or _MENDS.get(one.reason)
            named = mend and mend.replace("{file}", str(config.path))
            yield Finding(Grade.WRONG, about, f"{one.reason}: {one.found}", named, one.explanation())
    if not found:
        yield Finding(
            Grade.NOTE,
            "inventory",
            "it is empty: programs can name nothing",
            "name hosts and services as [hosts.NAME] and [services.NAME] in guideway.toml",
        )
    yield anyio.run(_icmp, config)


async def _icmp(config: "Config") -> Finding:
    from guideway.interpreter.drivers.base import Fault  # noqa: PLC0415  # see above
    from guideway.interpreter.probes.icmp import IcmpProbe  # noqa: PLC0415

    is_needed = any(entry.kind == "icmp" for _, owned in config.entries() for entry in owned.every_host().values())
    try:
        await IcmpProbe("127.0.0.1").probe()
    except Fault as fault:
        wants = "hosts with `icmp` need it" if is_needed else "no host needs it"
        return Finding(Grade.WRONG if is_needed else Grade.NOTE, "icmp", f"{wants}; {fault.message}")
    return Finding(Grade.OK, "icmp", "echo requests can be sent")


COMMAND = Command(
    summary="say what is wrong with this installation and how to mend it",
    description="Look at the packages, the configuration, the caller, the issuers, what restarts ask of people, the\n"
    "store, the audit trail, webhooks, everything in the inventory and the terminal, and say what is\n"
    "wrong and how to mend it. Changes nothing.",
    examples=("guideway doctor", "guideway doctor --json"),
    exits=((Exit.OK, "nothing is wrong; there may be notes"), (Exit.FAILED, "something is wrong")),
    arguments=_arguments,
    run=_run,
)
