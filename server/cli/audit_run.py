"""One run as the audit trail has it: gathered, proven, and shown whole on a narrow terminal."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Final

from guideway.dsl.errors import Refusal
from guideway.dsl.parser import Limits, parse
from guideway.dsl.printer import format_program
from guideway.interpreter.audit.chain import trail_words
from guideway.interpreter.audit.entry import Kind
from guideway.interpreter.audit.exported import span
from guideway.interpreter.audit.findings import Verdict
from guideway.interpreter.audit.keeping import Head, Kept, TrailReader
from guideway.interpreter.audit.sealed import Belief
from guideway.interpreter.audit.verify import Verifier
from guideway.interpreter.audit.verifying import PAGE, pages
from guideway.interpreter.risk import Tier
from guideway.server.cli.audit_rows import color, words
from guideway.server.cli.audit_source import body_of
from guideway.server.cli.audit_times import here, shown, zone_words
from guideway.server.cli.command import Complaint, Exit
from guideway.server.cli.console import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Console, Span
from guideway.server.cli.ticket_facts import show_program

_LIMITS: Final = Limits(bytes=8_388_608, nesting=100, commands=10_000)  # of a program that was let in once
_TICKET_LIVES: Final = 86_400.0  # seconds, at most: an older ticket is not this run's
_MOST_MEANT: Final = 5
_COLUMNS: Final = 78


@dataclass(slots=True)
class Run:
    """The records of a run, in their order, those of its ticket among them."""

    head: Head
    records: list[Kept] = field(default_factory=list)

    def find(self, *kinds: Kind) -> dict[str, Any]:
        """Return what the first record of a kind says, nothing where there is none."""
        return next((body_of(record) for record in self.records if record.kind in kinds), {})

    def every(self, *kinds: Kind) -> list[dict[str, Any]]:
        """Return what the records of some kinds say."""
        return [body_of(record) for record in self.records if record.kind in kinds]


async def find(reader: TrailReader, chosen: Sequence[Head], run_id: str) -> Run:
    """Return the run that an id means, or how that begins; looked for from the end on. Raises ``Complaint``."""
    for head in chosen:
        meant: set[str] = set()
        mine: list[Kept] = []
        _, end = await span(reader, head, None, None)
        while end > 0:
            after = max(0, end - PAGE)
            page = await reader.records(head.trail, after=after, most=end - after)
            if not page:
                break
            these = [record for record in page if record.run_id is not None and record.run_id.startswith(run_id)]
            mine = these + mine
            meant |= {record.run_id for record in these if record.run_id is not None}
            if len(meant) > 1 and run_id not in meant:
                ids = ", ".join(sorted(meant)[:_MOST_MEANT])
                raise Complaint(f"more than one run begins like this: {ids}", help="write more of it")
            if meant and _is_whole(mine):
                break
            end = after
        if mine:
            return Run(head, await _with_ticket(reader, head, mine))
    raise Complaint("there is no record of such a run", code="unknown_run", exit_code=Exit.FAILED)


def _is_whole(records: Sequence[Kept]) -> bool:
    """Say whether a run's first record is among some: one is either refused, or begins."""
    return any(record.kind in (Kind.RUN_BEGUN, Kind.RUN_REFUSED, Kind.RUN_REPEATED) for record in records)


async def _with_ticket(reader: TrailReader, head: Head, records: list[Kept]) -> list[Kept]:
    """Return a run's records with those of the ticket that let it run, or that it asked for."""
    ticket = next((found for record in records if (found := body_of(record).get("ticket"))), None)
    if not isinstance(ticket, str):
        return records
    found = {record.seq: record for record in records}

    def take(page: Sequence[Kept]) -> bool:
        """Take what is the ticket's, and say whether its first record is among it."""
        theirs = [each for each in page if each.kind.startswith("ticket.") and body_of(each).get("ticket") == ticket]
        found.update({record.seq: record for record in theirs})
        return any(record.kind == Kind.TICKET_ASKED for record in theirs)

    end, begins = records[-1].seq, records[0].at - _TICKET_LIVES
    while end > 0:
        after = max(0, end - PAGE)
        page = await reader.records(head.trail, after=after, most=end - after)
        if take(page) or not page or page[0].at < begins:
            break
        end = after
    if not any(record.kind == Kind.RUN_BEGUN for record in records):  # it may have been decided on since
        ends = records[-1].at + _TICKET_LIVES
        async for record in pages(reader, head.trail, after=records[-1].seq, last=head.seq):
            if record.at > ends:
                break
            take([record])
    return [found[seq] for seq in sorted(found)]


async def prove(reader: TrailReader, run: Run, belief: Belief, outside: Sequence[str]) -> Verdict:
    """Verify the trail from the run's first record on: from there each record is held by the seal of the end.

    Where the run's beginning is not found, it may be hidden: then all of the trail is.
    """
    trail, after = run.head.trail, run.records[0].seq - 1 if _is_whole(run.records) else None
    head = run.head if run.head.stated else None
    inside = await reader.checkpoints(trail)
    verifier = Verifier(trail, head, inside=inside, outside=outside, belief=belief, after=after)
    async for record in pages(reader, trail, after=after or 0, last=run.head.seq):
        verifier.take(record)
    return verifier.verdict()


def show(console: Console, run: Run, verdict: Verdict) -> None:
    """Write a run: who, what, why it was allowed or not, what was done, and how well all of that is proven."""
    begun, refused = run.find(Kind.RUN_BEGUN), run.find(Kind.RUN_REFUSED)
    call = begun or refused or run.find(Kind.RUN_REPEATED) or body_of(run.records[0])
    _show_head(console, run, call)
    _show_program(console, call)
    _show_why(console, run, call)
    _show_done(console, run)
    _show_proof(console, run, verdict)


def _show_head(console: Console, run: Run, call: Mapping[str, Any]) -> None:
    ended = run.find(Kind.RUN_ENDED, Kind.RUN_REFUSED)
    status = str(ended.get("status", "no end is recorded"))
    console.line(("run ", BOLD), (str(call.get("run")), BOLD), " ", (status, f"{BOLD};{color(status)}"))
    caller = call.get("caller")
    if isinstance(caller, dict):
        _field(console, "who", f"{caller.get('subject')} at {caller.get('issuer')}")
        if caller.get("client") is not None:
            _field(console, "client", str(caller["client"]))
        if caller.get("tenant") is not None:
            _field(console, "tenant", str(caller["tenant"]))
    says = [f"`{call[key]}`" for key in ("client_says", "model_says") if call.get(key) is not None]
    if says:
        _field(console, "says", f"to be {', by the model '.join(says)}", (" (its own words)", DIM))
    _field(console, "when", f"{shown(str(call.get('time')))} {zone_words(here())}", _by_door(call))
    if call.get("break_glass"):
        _field(console, "freeze", ("broken", f"{BOLD};{RED}"), f', because "{call["break_glass"]}"')


def _by_door(call: Mapping[str, Any]) -> str:
    return f", by {call['door']}" if call.get("door") else ""


def _show_program(console: Console, call: Mapping[str, Any]) -> None:
    program = call.get("program")
    if not isinstance(program, str):
        digest = call.get("digest") or call.get("text_sha256")
        if digest is not None:
            _field(console, "digest", str(digest))
        return
    with suppress(Refusal):  # private, or of another version's language: it is shown as it is
        program = format_program(parse(program, limits=_LIMITS))
    show_program(console, program)
    if isinstance(left := call.get("program_left_out"), int):
        _wrapped(console, "  ", f"not in the record, which would be too long: {left:,} more characters of it", DIM)


def _show_why(console: Console, run: Run, call: Mapping[str, Any]) -> None:
    refused = run.find(Kind.RUN_REFUSED)
    console.line(("why it was refused" if refused else "why it was allowed", BOLD))
    for each in _listed(call, "commands"):
        tier = each.get("tier")
        label = f"tier {tier} {Tier(tier).label}" if tier in list(Tier) else "no tier"
        decision = str(each.get("decision"))
        its = f" {each['reason']}" if each.get("reason") else ""
        color_of = {"allowed": GREEN, "refused": RED}.get(decision, DIM)
        console.line("  ", (decision + its, color_of), f" {each.get('command')} {each.get('target')}")
        _wrapped(console, "    ", f"{label}: {each.get('source')}", DIM)
    _show_left_out(console, call, "commands")
    found = refused.get("refusal") if refused else None
    refusal = found if isinstance(found, dict) else {}
    for each in _listed(refusal, "reasons"):
        where = f"{each.get('line')}:{each.get('column')}"
        console.line("  ", (str(each.get("code")), RED), f" at {where}:")
        _wrapped(console, "    ", str(each.get("message")), "")
    if isinstance(more := refusal.get("more"), int):
        console.line("  ", (f"and {more:,} more reasons, which the record does not list", DIM))
    for record in run.records:
        if record.kind.startswith("ticket."):
            body = body_of(record)
            by = body.get("by") if isinstance(body.get("by"), dict) else body.get("caller")
            name = by.get("subject") if isinstance(by, dict) else "-"
            console.line((f"  {_clock(body)} ", DIM), (f"{name} ", BOLD), *words(record.kind, body))


def _show_done(console: Console, run: Run) -> None:
    restarts = run.every(Kind.RESTART_BEGUN, Kind.RESTART_ENDED, Kind.RESTART_UNKNOWN)
    ended = run.find(Kind.RUN_ENDED)
    if not restarts and not ended:
        return
    console.line(("what was done", BOLD))
    for record in run.records:
        if record.kind.startswith("restart."):
            body = body_of(record)
            console.line((f"  {_clock(body)} ", DIM), *words(record.kind, body))
    for step in _listed(ended, "steps"):
        outcome = str(step.get("outcome"))
        said = step.get("observation") or step.get("message") or step.get("reason") or ""
        console.line(
            f" {step.get('number'):>2} ",
            (f"{outcome:<9}", color(outcome)),
            f' {step.get("command")} "{step.get("target")}"',
            f": {said}" if said else "",
            (f" ({step.get('seconds'):.3g} s)", DIM),
        )
    _show_left_out(console, ended, "steps")


def _show_left_out(console: Console, body: Mapping[str, Any], name: str) -> None:
    """Write how many commands or steps a record left out, so that none was too long: none of them changed anything."""
    left = body.get(f"{name}_left_out")
    if isinstance(left, dict) and left:
        counts = ", ".join(f"{count} {word}" for word, count in left.items())
        why = "nothing of it ran" if left.keys() & {"refused", "not_run"} else "they only read"
        _wrapped(console, "  ", f"not listed in the record, which would be too long: {counts}; {why}", DIM)


def _show_proof(console: Console, run: Run, verdict: Verdict) -> None:
    places = [record.seq for record in run.records]
    console.line(("records", BOLD), f" {_ranges(places)} of {trail_words(run.head.trail)}")
    if verdict.finding is not None:
        console.line("  ", ("not as they were written", f"{BOLD};{RED}"), ":")
        _wrapped(console, "  ", verdict.finding.words, "")
    elif verdict.proven:
        console.line("  ", ("proven", GREEN), f": each fits the next, up to {run.head.seq}, which is")
        console.line(f"  {verdict.proof}")
    else:
        console.line("  each fits the next, and ", ("nothing proves it", YELLOW))
        console.line(f"  {verdict.proof}")


def _ranges(places: Sequence[int]) -> str:
    """Return places in words: what follows each other as a range."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][1] + 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def _listed(body: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = body.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _clock(body: Mapping[str, Any]) -> str:
    return shown(str(body.get("time")))[-8:]


def _wrapped(console: Console, indent: str, text: str, style: str) -> None:
    for line in wrap(text, _COLUMNS - len(indent)) or [""]:
        console.line(indent, (line, style))


def _field(console: Console, name: str, *spans: Span) -> None:
    console.line((f"  {name:<8}", CYAN), *spans)
