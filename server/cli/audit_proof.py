"""``guideway audit verify`` and ``export``: what a trail is held against, and how it is brought out."""

import argparse
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import BinaryIO, Final, TextIO

import anyio

from guideway.interpreter.audit.chain import trail_words
from guideway.interpreter.audit.exported import NotExported, lines, span, verify_file
from guideway.interpreter.audit.findings import Verdict
from guideway.interpreter.audit.keeping import Head, TrailReader
from guideway.interpreter.audit.sealed import Belief
from guideway.interpreter.audit.verifying import by_trail, pages, verify_store
from guideway.server.audit_anchor import read_checkpoints
from guideway.server.audit_keeping import believed
from guideway.server.cli.audit_source import EVERY, UNREADABLE, heads, reading, unreadable, warn
from guideway.server.cli.command import Complaint, Exit
from guideway.server.cli.console import BOLD, DIM, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.files import STDIN
from guideway.server.config import Config

FORMATS: Final = ("jsonl", "ocsf", "cef")
_CHUNK: Final = 1_048_576
_COLUMNS: Final = 68
_FAULTS: Final = 5


def belief(config: Config, options: argparse.Namespace) -> Belief:
    """Return whom this command believes. Raises ``Complaint``."""
    try:
        return believed(config.audit, [Path(name) for name in options.key or ()])
    except ValueError as error:
        raise Complaint(str(error), code="file") from None


def verify(config: Config, options: argparse.Namespace, trail: str | object) -> int:
    """Verify the store, or a file, and say what was found."""
    believes = belief(config, options)
    outside, faults = kept_outside(config, options, own=options.what is None)
    if options.what is not None:
        verdicts = _verify_file(options.what, believes, outside)
    else:

        async def run() -> list[Verdict]:
            async with reading(config) as reader:
                name = None if trail is EVERY else str(trail)
                return [verdict async for verdict in verify_store(reader, believes, outside, name)]

        verdicts = anyio.run(run)
    is_sound = all(verdict.sound for verdict in verdicts) and not faults
    if options.json:
        is_whole = is_sound and all(verdict.whole for verdict in verdicts)
        trails = [verdict.to_json() for verdict in verdicts]
        write_json({"whole": is_whole, "trails": trails, "checkpoint_faults": faults})
    else:
        console = Console(options.color)
        for verdict in verdicts:
            _show(console, verdict)
        show_faults(console, faults)
        if not verdicts:
            console.line("there is no such trail" if trail is not EVERY else "there is no trail yet")
        elif not outside and is_sound and options.what is None:
            console.line(("an old copy of the whole store would be whole too: --checkpoints tells one", DIM))
    return Exit.OK if is_sound else Exit.FAILED


def show_faults(console: Console, faults: Sequence[str]) -> None:
    """Write what is wrong with files of checkpoints."""
    for fault in faults[:_FAULTS]:
        console.line(("NOT WHOLE ", f"{BOLD};{RED}"), fault)
    if len(faults) > _FAULTS:
        console.line(f"          and {len(faults) - _FAULTS} more such lines")


def _show(console: Console, verdict: Verdict) -> None:
    state, its = ("whole", GREEN) if verdict.whole else ("part", GREEN) if verdict.sound else ("NOT WHOLE", RED)
    stretch = "no records" if verdict.first is None else f"records {verdict.first:,} to {verdict.last or 0:,}"
    part = "" if verdict.after is None else ", and nothing is said of others"
    said = f": {stretch}{part}" if verdict.sound else ""
    console.line((f"{state:<10}", f"{BOLD};{its}"), trail_words(verdict.trail), said)
    for line in wrap(verdict.finding.words, _COLUMNS) if verdict.finding is not None else ():
        console.line(f"          {line}")
    if verdict.beyond is not None:
        said = f"ends before record {verdict.beyond:,}, which a checkpoint kept outside names"
        console.line("          ", (said, YELLOW))
    console.line("          ", (verdict.proof, DIM if verdict.proven else YELLOW))
    if verdict.checkpoints or verdict.outside:
        outside = f", and {verdict.outside} kept outside" if verdict.outside else ""
        console.line((f"          held against {verdict.checkpoints} checkpoints{outside}", DIM))


def kept_outside(config: Config, options: argparse.Namespace, *, own: bool) -> tuple[dict[str, list[str]], list[str]]:
    """Return the checkpoints that are kept outside, and what is wrong with their files, in words.

    They are of the files that are named, else of the configured one. That is ``own`` to the configured store, and has
    nothing to do with a file from elsewhere. Raises ``Complaint``.
    """
    named = [Path(name) for name in options.checkpoints or ()]
    configured = config.audit.checkpoint_file
    if not named and own and configured is not None and configured.exists():
        named = [configured]
    seals: list[str] = []
    faults: list[str] = []
    for path in named:
        try:
            found, wrong = read_checkpoints(path)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise Complaint(f"cannot read `{path}`: {reason}", code="file") from None
        seals += found
        faults += [f"`{path}`: {fault}" for fault in wrong]
    return by_trail(seals), faults


def _verify_file(name: str, believes: Belief, outside: dict[str, list[str]]) -> list[Verdict]:
    try:
        with _seekable(name) as file:
            return verify_file(file, believes, outside)
    except NotExported as error:
        raise Complaint(f"`{name}` is no export of an audit trail: {error}", code="file") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Complaint(f"cannot read `{name}`: {reason}", code="file") from None


@contextmanager
def _seekable(name: str) -> Iterator[BinaryIO]:
    """Give a file that can be read twice: what comes through a pipe is put down first."""
    if name != STDIN:
        with open(name, "rb") as file:
            if file.seekable():
                yield file
                return
            source: BinaryIO = file
            with _put_down(source) as kept:
                yield kept
        return
    with _put_down(sys.stdin.buffer) as kept:
        yield kept


@contextmanager
def _put_down(source: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as kept:
        while chunk := source.read(_CHUNK):
            kept.write(chunk)
        kept.seek(0)
        yield kept


def export(config: Config, options: argparse.Namespace, trail: str | object) -> int:
    """Write trails in the form that was asked for, line by line."""

    async def run(stream: TextIO) -> int:
        count = 0
        async with reading(config) as reader:
            chosen, _ = await heads(reader, trail)
            await warn(reader, chosen, trail, Console(options.color, error=True))
            for head in chosen:
                async for line in _exported(reader, head, options):
                    stream.write(line + "\n")
                    count += 1
        stream.flush()
        return count

    if options.output is None:
        anyio.run(run, sys.stdout)
        return Exit.OK
    try:
        with open(options.output, "x", encoding="utf-8", opener=_private) as file:
            count = anyio.run(run, file)
    except FileExistsError:
        raise Complaint(f"`{options.output}` is there already: nothing is overwritten", code="file") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Complaint(f"cannot write `{options.output}`: {reason}", code="file") from None
    if options.json:
        write_json({"output": options.output, "lines": count})
    else:
        Console(options.color, error=True).line(f"wrote {count:,} lines to {options.output}")
    return Exit.OK


async def _exported(reader: TrailReader, head: Head, options: argparse.Namespace) -> AsyncIterator[str]:
    since, until = options.since, options.until
    if options.format == "jsonl":
        async for line in lines(reader, head, since, until):
            yield line
        return
    from guideway.server.siem import cef, ocsf  # noqa: PLC0415  # only where it is asked for

    first, last = await span(reader, head, since, until)
    if first is None:
        return
    async for record in pages(reader, head.trail, after=first - 1, last=last):
        try:
            yield ocsf.line(record) if options.format == "ocsf" else cef.line(record)
        except UNREADABLE:
            raise unreadable(record) from None


def _private(path: str, flags: int) -> int:

    return os.open(path, flags, 0o600)
