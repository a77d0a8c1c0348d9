"""What ``guideway doctor`` finds of the audit trail: who signs it, where its checkpoints go, and how it ends."""

import stat
from collections.abc import Iterator
from pathlib import Path

import anyio

from guideway.interpreter.audit.chain import trail_words
from guideway.interpreter.audit.findings import Finding as Fault
from guideway.interpreter.audit.verify import Verifier
from guideway.server.audit_keeping import believed, keeping
from guideway.server.cli.audit_source import EVERY, heads, reading
from guideway.server.cli.command import Complaint
from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.state import NoStateError
from guideway.server.stores import is_shared, store_folder

_MAKE = "openssl genpkey -algorithm ed25519 -out audit.pem, and name that as `key_file` in [audit]"
_ELSEWHERE = "name a `checkpoint_file` in [audit], on a disk or at an account that the store's owner cannot write to"


def look_at_audit(config: Config) -> Iterator[Finding]:
    """Look at how the audit trail is kept, and at the end of each one that there is. Changes nothing."""
    audit = config.audit
    try:
        keeping(audit)
    except ValueError as error:
        yield Finding(Grade.WRONG, "audit", f"nothing can be restarted: {error}", f"mend it, or {_MAKE}")
        return
    if not audit.has_key:
        found = "the trail is not signed: whoever can write the store can write it anew"
        yield Finding(Grade.NOTE, "audit", found, _MAKE)
    else:
        yield from _key(audit.key_file)
        yield from _checkpoints(config)
    yield from _ends(config)


def _key(file: Path | None) -> Iterator[Finding]:
    if file is not None and stat.S_IMODE(file.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        found = f"`{file}` can be read by others, who could sign a trail of their own"
        yield Finding(Grade.WRONG, "audit", found, f"chmod 600 {file}, and make another key if somebody may have")


def _checkpoints(config: Config) -> Iterator[Finding]:
    file = config.audit.checkpoint_file
    if file is None:
        found = "checkpoints are kept in the store and the log alone: an old copy of the store would pass for whole"
        yield Finding(Grade.NOTE, "audit", found, _ELSEWHERE)
        return
    try:
        beside = not is_shared(config) and file.resolve().is_relative_to(store_folder(config).resolve())
    except (NoStateError, OSError):
        return  # the store's own finding says why
    if beside:
        found = f"`{file}` is in the store's folder: whoever puts an old copy of that back, puts this back too"
        yield Finding(Grade.NOTE, "audit", found, _ELSEWHERE)
    elif not file.parent.is_dir():
        found = f"no checkpoint can be written to `{file}`: there is no such folder"
        yield Finding(Grade.WRONG, "audit", found, f"make {file.parent}")


def _ends(config: Config) -> Iterator[Finding]:
    """Look at the last record and the seal of each trail: the whole of it is looked at by ``audit verify``."""
    try:
        ends = anyio.run(_read_ends, config)
    except (Complaint, ValueError) as error:
        yield Finding(
            Grade.WRONG, "audit", f"the trail cannot be read: {error}", "mend the store, or its configuration"
        )
        return
    for trail, fault in ends.items():
        if fault is not None:
            found = f"{trail_words(trail)}: {fault.words}"
            yield Finding(Grade.WRONG, "audit", found, "guideway audit verify, and docs/audit.md on what to do then")
    if ends and not any(ends.values()):
        what = "the trail ends" if len(ends) == 1 else f"each of {len(ends)} trails ends"
        signed = ", and that is signed" if config.audit.has_key else ""
        yield Finding(Grade.OK, "audit", f"{what} with the record that was written last{signed}")


async def _read_ends(config: Config) -> dict[str, Fault | None]:
    belief = believed(config.audit, [])
    found: dict[str, Fault | None] = {}
    async with reading(config) as reader:
        for end in (await heads(reader, EVERY))[0]:
            stated = (
                end if end.stated else next((head for head in await reader.trails() if head.trail == end.trail), None)
            )
            inside = await reader.checkpoints(end.trail)
            verifier = Verifier(end.trail, stated, inside=inside, belief=belief, after=max(end.seq - 1, 0))
            for record in await reader.records(end.trail, after=end.seq - 1, most=1):
                verifier.take(record)
            found[end.trail] = verifier.verdict().finding
    return found
