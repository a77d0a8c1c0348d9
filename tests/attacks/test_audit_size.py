"""Who may only read, or is refused, fills no disk with records: one has a bound, and what changes something is in it.

A program of 1,024 PINGs left a quarter of a megabyte, and one of as many restarts that were refused as much.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source, Span
from guideway.interpreter.approvals import Binding, Cause, Question, Ticket, TicketState, Who
from guideway.interpreter.audit.bounds import LEAST_LISTED, MOST_BYTES, MOST_PROGRAM, bounded, size
from guideway.interpreter.audit.chain import BEGINNING, link
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.facts import of_end, of_refusal
from guideway.interpreter.audit.privacy import Matter, private
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.probes.memory import MemoryProbe
from guideway.interpreter.results import Outcome, Reason, Report, Status, Step
from guideway.interpreter.risk import HARMLESS, Tier
from guideway.interpreter.service import Service
from guideway.interpreter.store import ticket_records
from guideway.interpreter.weighing import Asked
from tests.interpreter.test_recorder import TrailInMemory, Watched

pytestmark = pytest.mark.anyio

COMMANDS = DEFAULT_LIMITS.commands
NAMES = [f"{number:04}-{'a' * 42}.internal" for number in range(COMMANDS)]  # as long as the program's bytes allow
DEAF = NAMES[-1]
BOTH = (Scope.READ, Scope.WRITE)
WORDS = "\U0001f600" * 500  # each is 12 bytes as JSON
WORST = Asked(WORDS, WORDS, WORDS, WORDS, "http", '"' * 200)


async def run(
    program: str, scopes: Sequence[Scope] = BOTH, asked: Asked = WORST, services: Sequence[str] = ("database",)
) -> tuple[Report, TrailInMemory]:
    assert len(program) <= DEFAULT_LIMITS.bytes
    trail = TrailInMemory()
    hosts = [Host(name, MemoryProbe(answers=name != DEAF)) for name in NAMES]
    known = [Service(name, Watched(trail), settle=0.0, risk=HARMLESS) for name in services]
    pipeline = Pipeline(Inventory(hosts, known), trail=trail)
    caller = Principal("mona", frozenset(scopes), "https://login.example", "agent")
    return await pipeline.run(program, caller, asked=asked), trail


def body(entry: Entry) -> int:
    """Return how many bytes a record has, as it is kept."""
    return len(link(entry, 1_000_000, BEGINNING).body)


def pings(names: Sequence[str]) -> str:
    return " ".join(f'PING "{name}"' for name in names)


def restarts(names: Sequence[str]) -> str:
    return " ".join(f'RESTART "{name}"' for name in names)


def nested(depth: int) -> str:
    return f'TRY PING "{DEAF}" CATCH {{ {nested(depth - 1)} }}' if depth else f'PING "{DEAF}"'


@pytest.mark.parametrize(
    ("kind", "program", "scopes"),
    [
        (Kind.RUN_ENDED, pings([NAMES[0]] * COMMANDS), BOTH),
        (Kind.RUN_ENDED, pings(NAMES), BOTH),
        (Kind.RUN_ENDED, " ".join([f'TRY PING "{DEAF}" CATCH PING "{NAMES[0]}"'] * 470), BOTH),
        (Kind.RUN_ENDED, " ".join([nested(30)] * 14), BOTH),
        (Kind.RUN_ENDED, "{" * 60 + pings(NAMES[:900]) + "}" * 60, BOTH),
        (Kind.RUN_REFUSED, pings(NAMES), ()),
        (Kind.RUN_REFUSED, restarts([name[:48] for name in NAMES]), BOTH),
        (Kind.RUN_REFUSED, restarts([name[:48] for name in NAMES]), (Scope.READ,)),
        (Kind.RUN_REFUSED, " ".join(f'PING "{WORDS[:60]}"' for _ in range(200)), BOTH),
        (Kind.RUN_REFUSED, pings(["x" * 245] * 250), BOTH),
        (Kind.RUN_REFUSED, f'PING "{WORDS}" ' * 30, BOTH),
    ],
    ids=[
        "alike",
        "unlike",
        "failing",
        "nested",
        "blocks",
        "denied",
        "made-up",
        "unscoped",
        "garbled",
        "long",
        "longer",
    ],
)
async def test_the_worst_programs_leave_records_within_the_bound(
    kind: Kind, program: str, scopes: Sequence[Scope]
) -> None:
    """Also where the caller's own words are the longest, in letters of which JSON makes twelve each."""
    services = [name[:48] for name in NAMES] if scopes == (Scope.READ,) else ["database"]
    _, trail = await run(program, scopes, services=services)
    assert kind in trail.kinds()
    assert {entry.kind: body(entry) for entry in trail.entries if body(entry) > MOST_BYTES} == {}


def report(*steps: Step) -> Report:
    return Report("run", Status.FAILED, steps, (), None, {"PING": len(steps)}, "", 1.0)


def step(number: int, outcome: Outcome, command: str = "PING", message: str | None = None) -> Step:
    reason = None if outcome is Outcome.OK else Reason.NO_ANSWER
    return Step(number, 1, 1, command, NAMES[number % COMMANDS], outcome, "2030-03-17", 0.5, None, reason, message)


STEPS = [step(number, Outcome.FAILED, message="hunter2") for number in range(COMMANDS)]


def test_steps_that_failed_in_many_words_are_listed_up_to_the_bound_and_the_last_one_is() -> None:
    steps = [step(number, Outcome.FAILED, message=WORDS) for number in range(1, COMMANDS + 1)]
    found = bounded(of_end(report(step(0, Outcome.OK), *steps)))
    assert size(found) <= MOST_BYTES
    numbers = [each["number"] for each in found["steps"]]
    assert numbers == [*range(1, len(numbers)), COMMANDS]
    assert found["steps_left_out"] == {"failed": COMMANDS - len(numbers), "ok": 1}


def test_however_many_restarts_there_were_each_is_listed_and_so_is_what_failed() -> None:
    steps = [step(number, Outcome.OK, "RESTART", "m" * 500) for number in range(COMMANDS)]
    reads = [step(number, Outcome.OK) for number in range(COMMANDS, COMMANDS + 100)]
    found = bounded(of_end(report(*steps, *reads, step(COMMANDS + 100, Outcome.FAILED, message="no answer"))))
    listed = found["steps"]
    assert [each["number"] for each in listed if each["command"] == "RESTART"] == list(range(COMMANDS))
    assert listed[-1]["message"] == "no answer"
    reads_listed = [each for each in listed if each["command"] == "PING"]
    assert found["steps_left_out"] == {"ok": 101 - len(reads_listed)}
    assert size(reads_listed) <= LEAST_LISTED + 2


async def test_a_thousand_reads_are_told_by_the_first_the_last_and_their_number() -> None:
    said, trail = await run(pings([NAMES[0]] * COMMANDS), asked=Asked())
    assert len(said.steps) == COMMANDS
    [ended] = trail.facts(Kind.RUN_ENDED)
    numbers = [each["number"] for each in ended["steps"]]
    assert numbers == [*range(1, len(numbers)), COMMANDS]
    assert len(numbers) > 100
    assert ended["steps_left_out"] == {"ok": COMMANDS - len(numbers)}


async def test_of_as_many_commands_what_restarts_and_what_failed_is_there_and_the_whole_program() -> None:
    """However deep a restart is buried among reads, the record names it, and why a step failed."""
    reads = pings(NAMES[:600])
    program = f'{reads} RESTART "database" TRY {{ PING "{DEAF}" }} CATCH {{ PING "{NAMES[0]}" }}'
    said, trail = await run(program, asked=Asked())
    assert said.status is Status.CONTAINED
    [begun] = trail.facts(Kind.RUN_BEGUN)
    [ended] = trail.facts(Kind.RUN_ENDED)
    assert begun["program"] == program
    assert ("RESTART", "database") in {(each["command"], each["target"]) for each in begun["commands"]}
    assert {("RESTART", "ok"), ("PING", "failed")} <= {(each["command"], each["outcome"]) for each in ended["steps"]}
    assert begun["commands_left_out"] == {"allowed": 602 - len(begun["commands"])}
    assert ended["steps_left_out"] == {"ok": 603 - len(ended["steps"])}
    numbers = [each["number"] for each in ended["steps"]]
    assert numbers == sorted(numbers)


async def test_a_service_that_is_there_does_not_hide_behind_names_that_somebody_made_up() -> None:
    """Nothing of it ran: the restarts that were asked for are counted, what they would have changed is named."""
    made_up = [name[:46] for name in NAMES[: COMMANDS - 1]]
    program = f'{restarts(made_up[:-9])} RESTART "database" {restarts(made_up[-9:])}'
    _, trail = await run(program, [Scope.READ], asked=Asked())
    [refused] = trail.facts(Kind.RUN_REFUSED)
    listed = [(each["target"], each["decision"]) for each in refused["commands"]]
    assert ("database", "not_run") in listed
    assert len([each for each in listed if each[1] == "refused"]) == 20
    assert refused["commands_left_out"] == {"not_run": COMMANDS - len(listed)}
    assert len(refused["refusal"]["reasons"]) == 20


async def test_a_long_text_of_reads_is_cut_between_names_and_says_so() -> None:
    _, trail = await run(pings(NAMES), asked=Asked())
    [begun] = trail.facts(Kind.RUN_BEGUN)
    kept = begun["program"]
    assert pings(NAMES).startswith(kept + " ")
    assert MOST_PROGRAM - 70 < len(kept) < MOST_PROGRAM
    assert begun["program_left_out"] == len(pings(NAMES)) - len(kept)


async def test_a_record_that_is_not_too_long_is_as_it_was() -> None:
    _, trail = await run(pings(NAMES[:20]), asked=Asked())
    for facts in (trail.facts(Kind.RUN_BEGUN)[0], trail.facts(Kind.RUN_ENDED)[0]):
        assert not [name for name in facts if name.endswith("_left_out")]
        assert len(facts.get("commands", facts.get("steps", ()))) == 20


def test_of_reasons_in_many_words_the_first_are_there_and_the_number_of_the_others() -> None:
    diagnostics = [Diagnostic(Code.SYNTAX, WORDS, Span(0, 1)) for _ in range(50)]
    source = Source("PING", "program")
    found = of_refusal(Refusal(diagnostics, source), source)
    assert size(found) <= 7_000
    assert found["reasons"]
    assert len(found["reasons"]) + found["more"] == 50


def asked(restarted: int, read: int) -> Entry:
    """Return the record of a ticket for so many restarts and reads."""
    names = [f"database-{number}" for number in range(restarted)]
    causes = tuple(Cause("RESTART", name, Tier.APPROVAL_REQUIRED, "impact high") for name in names)
    counts = {("PING", name): 1 for name in NAMES[:read]} | {("RESTART", name): 1 for name in names}
    binding = Binding("d" * 64, Who("https://login.example", "mona", "agent"), None, "policy")
    program = f"{pings(NAMES[:read])} {restarts(names)}"
    question = Question(binding, program, causes, counts, 60.0, WORDS[:200], WORDS)
    return ticket_records.asked(Ticket("t" * 24, question, 1.9e9, 1.9e9 + 300, TicketState.PENDING))


def test_what_a_person_is_asked_is_recorded_whole_but_for_the_reads_of_its_worst_case() -> None:
    entry = asked(3, 900)
    facts = dict(entry.facts)
    assert facts["program"] == f"{pings(NAMES[:900])} {restarts(['database-0', 'database-1', 'database-2'])}"
    assert body(entry) <= MOST_BYTES + size(facts["program"])
    assert [each["target"] for each in facts["worst_case"] if each["command"] == "RESTART"] == [
        f"database-{number}" for number in range(3)
    ]
    assert len(facts["causes"]) == 3
    assert facts["worst_case_left_out"] == {"PING": 903 - len(facts["worst_case"])}
    many = asked(COMMANDS, 0)
    assert len(many.facts["worst_case"]) == len(many.facts["causes"]) == COMMANDS
    assert "worst_case_left_out" not in many.facts


@pytest.mark.parametrize("make", [lambda: asked(3, 900).facts, lambda: bounded(of_end(report(*STEPS)))])
def test_what_is_private_is_so_in_what_was_cut_too(make: Callable[[], Mapping[str, Any]]) -> None:
    facts = make()
    assert [name for name in facts if name.endswith("_left_out")]
    take_out = private(frozenset(Matter))
    assert take_out is not None
    left = json.dumps(take_out(facts))
    assert not [word for word in ("internal", "database", "hunter", "aaaa") if word in left]
