"""The walk against a second reading of the language: a few lines that know nothing of deadlines, scopes or drivers.

Random programs run in random worlds; the log must be the one that the page of the language says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interpreter.worlds import OPERATOR, HostInMemory, World

from guideway.dsl.parser import parse
from guideway.dsl.printer import format_one_line
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import Behaviour, MemoryDriver
from guideway.interpreter.results import Event, Reason, State, Status

HOSTS = ("up", "down")
SERVICES = ("a", "b")

Tree = tuple[object, ...]


@dataclass(frozen=True)
class Given:
    """How a service is, and whether a restart brings it up."""

    state: State
    reachable: bool
    restarts: bool


def programs() -> st.SearchStrategy[list[Tree]]:
    command = st.one_of(
        st.tuples(st.just("PING"), st.sampled_from(HOSTS)),
        st.tuples(st.sampled_from(["GET_STATUS", "RESTART"]), st.sampled_from(SERVICES)),
    )
    statement = st.recursive(
        command,
        lambda inner: st.one_of(
            st.tuples(
                st.just("IF"),
                st.sampled_from(SERVICES),
                st.lists(inner, max_size=3),
                st.none() | st.lists(inner, max_size=3),
            ),
            st.tuples(st.just("TRY"), st.lists(inner, max_size=3), st.lists(inner, max_size=3)),
            st.tuples(st.just("BLOCK"), st.lists(inner, max_size=3)),
        ),
        max_leaves=12,
    )
    return st.lists(statement, min_size=1, max_size=4)


def text(statements: list[Tree]) -> str:
    return " ".join(spell(statement) for statement in statements)


def spell(statement: Tree) -> str:
    match statement:
        case ("IF", name, list(then), otherwise):
            ends = "" if otherwise is None else f" ELSE {{ {text(otherwise)} }}"  # type: ignore[arg-type]
            return f'IF_RUNNING "{name}" THEN {{ {text(then)} }}{ends}'
        case ("TRY", list(body), list(handler)):
            return f"TRY {{ {text(body)} }} CATCH {{ {text(handler)} }}"
        case ("BLOCK", list(body)):
            return f"{{ {text(body)} }}"
        case (keyword, name):
            return f'{keyword} "{name}"'
        case _:
            raise AssertionError(statement)


@dataclass
class Reading:
    """What the language says of a program in a world: the log, and how it ended."""

    world: dict[str, Given]
    log: list[str] = field(default_factory=list)

    def sequence(self, statements: list[Tree]) -> bool:
        return all(self.statement(statement) for statement in statements)

    def statement(self, statement: Tree) -> bool:
        match statement:
            case ("PING", name):
                return self.note("PING", name, ok=name == "up")
            case ("GET_STATUS", str(name)):
                return self.note("GET_STATUS", name, ok=self.world[name].reachable)
            case ("RESTART", str(name)):
                service = self.world[name]
                ok = service.reachable and service.restarts
                if service.reachable:
                    after = State.RUNNING if ok else State.FAILED
                    self.world[name] = Given(after, service.reachable, service.restarts)
                return self.note("RESTART", name, ok=ok)
            case ("IF", str(name), list(then), otherwise):
                if not self.note("IF_RUNNING", name, ok=self.world[name].reachable):
                    return False
                if self.world[name].state in {State.RUNNING, State.DEGRADED}:
                    return self.sequence(then)
                return otherwise is None or self.sequence(otherwise)  # type: ignore[arg-type]
            case ("TRY", list(body), list(handler)):
                if self.sequence(body):
                    return True
                self.log.append("CONTAINMENT_TRIGGERED")
                return self.sequence(handler)
            case ("BLOCK", list(body)):
                return self.sequence(body)
            case _:
                raise AssertionError(statement)

    def note(self, command: str, name: object, *, ok: bool) -> bool:
        self.log.append(f"{command} {name} {'ok' if ok else 'failed'}")
        return ok


def memory(service: Given) -> MemoryDriver:
    behaviour = Behaviour.GOOD if service.restarts else Behaviour.DIES_AT_ONCE
    return MemoryDriver(service.state, behaviour if service.reachable else Behaviour.UNREACHABLE)


settled = st.sampled_from([State.RUNNING, State.DEGRADED, State.STOPPED, State.FAILED])
worlds = st.fixed_dictionaries({name: st.builds(Given, settled, st.booleans(), st.booleans()) for name in SERVICES})


@settings(max_examples=400, deadline=None)
@given(programs(), worlds)
def test_the_walk_does_what_the_language_says(program: list[Tree], services: dict[str, Given]) -> None:
    world = World(
        services={name: memory(service) for name, service in services.items()},
        hosts={"up": HostInMemory(), "down": HostInMemory(fault=Fault(Reason.NO_ANSWER, "no answer"))},
    )
    reading = Reading(dict(services))
    ok = reading.sequence(program)

    seen: list[Event] = []
    pipeline = world.pipeline()
    canonical = format_one_line(parse(text(program)))
    report = anyio.run(lambda: pipeline.run(canonical, OPERATOR, observe=seen.append))

    def log() -> Iterator[str]:
        for event in seen:
            facts = event.to_json()
            if facts.get("outcome") != "running":
                yield facts.get("event") or f"{facts['command']} {facts['target']} {facts['outcome']}"

    assert list(log()) == reading.log
    contained = "CONTAINMENT_TRIGGERED" in reading.log
    assert report.status is (Status.FAILED if not ok else Status.CONTAINED if contained else Status.COMPLETED)
    assert len(report.steps) == len(reading.log) - reading.log.count("CONTAINMENT_TRIGGERED")
    assert report.worst_case is not None
    assert all(count <= report.worst_case.commands[keyword] for keyword, count in report.ran.items())
