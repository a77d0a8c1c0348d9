"""``guideway audit``: who did what, why it was allowed, and whether the record of it is complete."""

import argparse
import re
import sys
from datetime import datetime
from functools import partial
from typing import Any, Final

import anyio

from guideway.interpreter.audit.chain import trail_of
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.keeping import Head, Kept, TrailReader
from guideway.interpreter.audit.verifying import pages
from guideway.server.audit_keeping import pseudonyms
from guideway.server.cli.audit_proof import FORMATS, belief, export, kept_outside, show_faults, verify
from guideway.server.cli.audit_rows import show_row
from guideway.server.cli.audit_run import Run, find, prove, show
from guideway.server.cli.audit_source import (
    EVERY,
    UNREADABLE,
    Filter,
    body_of,
    every,
    heads,
    last,
    line_of,
    reading,
    unreadable,
    warn,
)
from guideway.server.cli.audit_times import FORMS, here, read_time
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import read_caller, read_config
from guideway.server.cli.console import DIM, RED, Console, write_json
from guideway.server.config import Config

_MOST: Final = 20  # records that tail shows where no time is given
_POLL: Final = 1.0  # seconds between two looks
_LEAST: Final = 6  # characters of a run's id that is not written whole
_KINDS: Final = tuple(dict.fromkeys(kind.value.partition(".")[0] for kind in Kind))
_ONLY: Final = {  # which options are for which action, where they are not for all
    "count": ("tail",),
    "follow": ("tail",),
    "service": ("tail",),
    "who": ("tail",),
    "kind": ("tail",),
    "since": ("tail", "export"),
    "until": ("tail", "export"),
    "key": ("verify", "show"),
    "checkpoints": ("verify", "show"),
    "format": ("export",),
    "output": ("export",),
}
_FLAGS: Final = {"count": "-n", "who": "--caller"}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("tail", "show", "verify", "export"), help="what to do")
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="for show: a run's id, or how that begins; for verify: an exported file, not the store",
    )
    add_configuration(parser)
    parser.add_argument("--tenant", metavar="NAME", help="the trail of this tenant; empty for the installation's own")
    parser.add_argument("--all", action="store_true", help="every trail")
    parser.add_argument("-n", dest="count", type=int, metavar="N", help="for tail: the last so many (20)")
    parser.add_argument("-f", "--follow", action="store_true", default=None, help="for tail: go on as records come")
    parser.add_argument("--since", metavar="TIME", help=f"from then on: {FORMS}")
    parser.add_argument("--until", metavar="TIME", help="before then; a day's name is the next one after --since")
    parser.add_argument(
        "--kind",
        action="append",
        metavar="KIND",
        help=f"for tail: only these, such as restart.ended, or all of: {', '.join(_KINDS)}; may be repeated",
    )
    parser.add_argument("--service", metavar="NAME", help="for tail: only what names it, host or service")
    parser.add_argument(
        "--caller", dest="who", metavar="SUBJECT", help="for tail: only what this person did or decided"
    )
    parser.add_argument(
        "--key", action="append", metavar="FILE", help="for verify and show: a public key to believe; may be repeated"
    )
    parser.add_argument(
        "--checkpoints",
        action="append",
        metavar="FILE",
        help="for verify and show: checkpoints that were kept outside of the store; may be repeated",
    )
    parser.add_argument("--format", choices=FORMATS, help="for export: jsonl (which proves itself), ocsf or cef")
    parser.add_argument("--output", metavar="FILE", help="for export: a new file, for its owner alone")


def _run(options: argparse.Namespace) -> int:
    _check(options)
    config = read_config(options)
    trail = _trail(options, config)
    match options.action:
        case "tail":
            return _tail(options, config, trail)
        case "show":
            return _show(options, config, trail)
        case "verify":
            everything = EVERY if options.tenant is None else trail
            return verify(config, options, everything)
        case _:
            options.format = options.format or FORMATS[0]
            return export(config, options, trail)


def _check(options: argparse.Namespace) -> None:
    """Raise ``Complaint`` for options that do not go together; read the times."""
    for name, actions in _ONLY.items():
        if getattr(options, name) is not None and options.action not in actions:
            flag = _FLAGS.get(name, f"--{name}")
            raise Complaint(f"{flag} is for {' and '.join(actions)}")
    if options.tenant is not None and options.all:
        raise Complaint("--tenant and --all cannot go together")
    _check_what(options)
    if options.count is not None and options.count < 1:
        raise Complaint("-n takes a number from 1 on")
    kinds = {kind.value for kind in Kind} | set(_KINDS)
    unknown = next((kind for kind in options.kind or () if kind not in kinds), None)
    if unknown is not None:
        raise Complaint(f"there is no kind `{unknown}`", help=f"one of {', '.join(sorted(kinds))}")
    _check_times(options)


def _check_what(options: argparse.Namespace) -> None:
    if options.action in ("tail", "export") and options.what is not None:
        raise Complaint(f"`{options.action}` takes no name of a file or run")
    if options.action != "show":
        return
    if options.what is None:
        raise Complaint("`show` needs a run", help="`guideway audit tail` shows how their ids begin")
    if not re.fullmatch(rf"[0-9a-f-]{{{_LEAST},36}}", options.what):
        raise Complaint("this is no run", help=f"its id, or at least {_LEAST} characters of how that begins")


def _check_times(options: argparse.Namespace) -> None:
    now = here()
    since = _time("--since", options.since, now, None)
    until = _time("--until", options.until, now, since)
    if since is not None and until is not None and until <= since:
        raise Complaint("--until is not after --since")
    if until is not None and options.follow:
        raise Complaint("--follow and --until cannot go together")
    options.since = None if since is None else since.timestamp()
    options.until = None if until is None else until.timestamp()


def _time(flag: str, text: str | None, now: datetime, after: datetime | None) -> datetime | None:
    if text is None:
        return None
    try:
        return read_time(text, now, after)
    except (ValueError, OverflowError) as error:
        raise Complaint(f"{flag} {error}" if isinstance(error, ValueError) else f"{flag} is no time") from None


def _trail(options: argparse.Namespace, config: Config) -> str | object:
    """Return whose trail is meant: by default that of the configured caller's tenant."""
    if options.all:
        return EVERY
    if options.tenant is not None:
        return str(options.tenant)
    return trail_of(read_caller(options, config).tenant)


def _tail(options: argparse.Namespace, config: Config, trail: str | object) -> int:
    console = Console(options.color)
    try:
        names = pseudonyms(config.audit)
    except ValueError:
        names = None  # without that key people are found by what is written
    wanted = Filter(options.kind or (), options.service, options.who, names, options.since, options.until)
    count = options.count or (_MOST if options.since is None else None)

    async def run() -> None:
        async with reading(config) as reader:
            chosen, others = await heads(reader, trail)
            await warn(reader, chosen, trail, Console(options.color, error=True))
            say = partial(_say, console, as_json=options.json, tenant=trail is EVERY and len(chosen) > 1)
            said = 0
            if count is None:
                async for record in every(reader, chosen, wanted):
                    say(record)
                    said += 1
            else:
                for record in await last(reader, chosen, wanted, count):
                    say(record)
                    said += 1
            sys.stdout.flush()
            if not options.json:
                _say_others(options, said, others)
            if options.follow:
                await _follow(reader, trail, chosen, wanted, say)

    anyio.run(run)
    return Exit.OK


def _say(console: Console, record: Kept, *, as_json: bool, tenant: bool) -> None:
    if as_json:
        sys.stdout.write(line_of(record) + "\n")
        return
    try:
        show_row(console, record, tenant=tenant)
    except UNREADABLE:
        console.line((str(unreadable(record)), RED))


def _say_others(options: argparse.Namespace, said: int, others: int) -> None:
    errors = Console(options.color, error=True)
    if said == 0:
        errors.line("there is no such record")
    if others:
        errors.line((f"{others} more trail{'s' if others > 1 else ''}: --all shows every one", DIM))
    errors.stream.flush()


async def _follow(reader: TrailReader, trail: str | object, chosen: list[Head], wanted: Filter, say: Any) -> None:
    places = {head.trail: head.seq for head in chosen}
    while True:
        await anyio.sleep(_POLL)
        now, _ = await heads(reader, trail)
        for head in now:
            async for record in pages(reader, head.trail, after=places.get(head.trail, 0), last=head.seq):
                if wanted.takes(record):
                    say(record)
            places[head.trail] = head.seq
        sys.stdout.flush()


def _show(options: argparse.Namespace, config: Config, trail: str | object) -> int:
    believes = belief(config, options)
    outside, faults = kept_outside(config, options, own=True)

    async def run() -> tuple[Run, Any]:
        async with reading(config) as reader:
            chosen, _ = await heads(reader, trail)
            found = await find(reader, chosen, options.what)
            return found, await prove(reader, found, believes, outside.get(found.head.trail, ()))

    found, verdict = anyio.run(run)
    show_faults(Console(options.color, error=True), faults)
    if options.json:
        records = [{"seq": record.seq, "hash": record.hash, **body_of(record)} for record in found.records]
        write_json({"trail": found.head.trail, "records": records, "proof": verdict.to_json()})
    else:
        try:
            show(Console(options.color), found, verdict)
        except UNREADABLE:
            raise Complaint("a record of this run does not read: guideway audit verify", code="record") from None
    return Exit.OK if verdict.sound else Exit.FAILED


COMMAND = Command(
    summary="say who did what, why it was allowed, and whether the record of that is complete",
    description="Read the audit trail of this configuration's store. tail shows its last records, show all of one\n"
    "run, verify says whether every record is as it was written and none is missing, or names the first\n"
    "that is not, and export brings it out: in its own form, which can be verified without the store, or\n"
    "for a SIEM. Whoever may read the store may read all of it: without --tenant and --all that is the\n"
    "trail of the caller's tenant, and verify looks at every trail.",
    examples=(
        "guideway audit tail",
        "guideway audit tail --kind restart --since tuesday --until wednesday",
        "guideway audit verify",
        "guideway audit export --since 7d --output trail.jsonl",
        "guideway audit export --format ocsf",
    ),
    exits=(
        (Exit.OK, "shown or exported; for verify: every trail is whole"),
        (Exit.FAILED, "for verify and show: something is not as it was written; there is no such run"),
    ),
    arguments=_arguments,
    run=_run,
)
