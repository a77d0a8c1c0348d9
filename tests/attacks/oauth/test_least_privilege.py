"""For any scopes and any program: what runs is never more than the scopes allow, and what they allow does run.

Read off what the drivers were asked to do, against a second reading of the language that knows nothing of the
product's: a walk of a few lines over the tree, in a world in which nothing fails but hosts, none of which answers.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import anyio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from guideway.dsl.ast import Block, GetStatus, IfRunning, Ping, Program, Restart, Statement, TryCatch
from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.memory import MemoryDriver
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Reason, State, Status
from tests.attacks.oauth import wire
from tests.attacks.oauth.stage import Stage
from tests.interpreter.worlds import HostInMemory, World
from tests.strategies import Script, programs, scripts, spell

READ, WRITE = "mcp:diag:read", "mcp:diag:write"

#: Real scopes and what looks like one; every one but the first two grants nothing here.
WORDS = (READ, WRITE, "mcp:diag:approve", "mcp:diag:*", "MCP:DIAG:WRITE", "mcp:diag:write2", "openid", "mcp:diag")

#: Each is a service and a host, so that most programs name what is there; the others are nobody's here.
KNOWN = ("database", "cache")
UNKNOWN = ("vault", "nowhere")


def commands(statements: Iterable[Statement]) -> Iterable[Ping | GetStatus | Restart | IfRunning]:
    """Yield every command of a program, wherever it stands."""
    for each in statements:
        match each:
            case Block(statements=inner):
                yield from commands(inner)
            case TryCatch(body=body, handler=handler):
                yield from commands((body, handler))
            case IfRunning(then=then, otherwise=otherwise):
                yield each
                yield from commands((then, *([otherwise] if otherwise else [])))
            case _:
                yield each


def allowed(program: Program, words: Iterable[str], services: Sequence[str], hosts: Sequence[str]) -> bool:
    """Say whether somebody with these scopes may run a program where there are these services and hosts."""
    held = set(words)
    for each in commands(program.statements):
        if (WRITE if isinstance(each, Restart) else READ) not in held:
            return False
        if each.target not in (hosts if isinstance(each, Ping) else services):
            return False
    return True


class Reference:
    """Does a program by the book, and counts what is asked of whom. No host answers; ``stopped`` are stopped."""

    def __init__(self, stopped: Iterable[str]) -> None:
        self.stopped = set(stopped)
        self.restarts = Counter[str]()
        self.pings = Counter[str]()
        self.looked_at = set[str]()
        self.ran = Counter[str]()

    def all(self, statements: Iterable[Statement]) -> bool:
        return all(self.one(each) for each in statements)

    def one(self, statement: Statement) -> bool:
        """Do one statement; say whether it is ok. A sequence ends at the first that is not."""
        if isinstance(statement, Ping | GetStatus | Restart | IfRunning):
            self.ran[statement.keyword] += 1
        match statement:
            case Ping(target=name):
                self.pings[name] += 1
                return False
            case GetStatus(target=name):
                self.looked_at.add(name)
                return True
            case Restart(target=name):
                self.restarts[name] += 1
                self.stopped.discard(name)
                return True
            case IfRunning(target=name, then=then, otherwise=otherwise):
                self.looked_at.add(name)
                chosen = otherwise if name in self.stopped else then
                return self.all(chosen.statements) if chosen else True
            case TryCatch(body=body, handler=handler):
                return self.all(body.statements) or self.all(handler.statements)
            case Block(statements=inner):
                return self.all(inner)
            case _:
                raise TypeError(type(statement).__name__)


def world(stopped: Iterable[str]) -> World:
    services = {name: MemoryDriver(State.STOPPED if name in stopped else State.RUNNING) for name in KNOWN}
    return World(services, {name: HostInMemory(fault=Fault(Reason.NO_ANSWER, "no answer")) for name in KNOWN})


some_words = st.sets(st.sampled_from(WORDS), max_size=4)
held_words = some_words | some_words.map({READ, WRITE}.union) | some_words.map(lambda some: some - {WRITE} | {READ})
some_stopped = st.sets(st.sampled_from(KNOWN))
seldom = st.sampled_from([False, False, False, False, False, False, False, True])


@settings(max_examples=300, deadline=None)
@given(held_words, scripts(KNOWN, size=24) | scripts((*KNOWN, *KNOWN, *UNKNOWN), size=24), some_stopped, seldom)
def test_what_runs_is_what_the_scopes_allow_and_no_more(
    words: set[str], script: Script, stopped: set[str], is_expired: bool
) -> None:
    scopes = frozenset(scope for scope in Scope if scope.value in words)
    caller = Principal("anybody", scopes, expires_at=time.time() + (-1 if is_expired else 300))
    made = world(stopped)
    report = anyio.run(made.pipeline().run, script.text, caller)
    may = allowed(script.program, () if is_expired else words, KNOWN, KNOWN)
    event(f"runs: {may}")
    if not may:
        assert report.status is Status.REFUSED
        assert made.calls == []
        return
    reference = Reference(stopped)
    is_ok = reference.all(script.program.statements)
    assert report.status is (
        Status.FAILED if not is_ok else Status.CONTAINED if report.containments else Status.COMPLETED
    )
    assert report.ran == reference.ran
    for name, driver in made.services.items():
        assert driver.calls.count("restart") == reference.restarts[name]
    # A read may be begun before its turn has come, but none that is not in the program.
    named = {each.target for each in commands(script.program.statements) if not isinstance(each, Ping)}
    pinged = Counter(each.target for each in commands(script.program.statements) if isinstance(each, Ping))
    touched = {name for name, driver in made.services.items() if driver.calls}
    assert reference.looked_at | set(reference.restarts) <= touched <= named
    for name, host in made.hosts.items():
        assert reference.pings[name] <= len(host.calls) <= pinged[name]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=held_words.flatmap(lambda some: st.permutations(sorted(some))),
    program=programs(("database",), size=16) | programs(("database", "database", "database", "shop", "vault"), size=16),
    layout=st.integers(0, 2**32),
    tenant=st.sampled_from([None, "acme", "zeta"]),
)
def test_over_http_what_runs_is_what_the_token_allows_and_no_more(
    stage: Stage, words: list[str], program: Program, layout: int, tenant: str | None
) -> None:
    """The same for tokens, through the whole server: gate, protocol and pipeline."""
    text = spell(program, layout).text
    claims = {} if tenant is None else {"org": f"org_{tenant}"}
    token = stage.ground.corp.saying(scope=" ".join(words), **claims)
    own = {"acme": ["shop"], "zeta": ["vault"], None: []}[tenant]
    needed = {WRITE if isinstance(each, Restart) else READ for each in commands(program.statements)}
    before = {name: list(driver.calls) for name, driver in stage.world.services.items()}
    pinged = len(stage.world.host.calls)
    answer = wire.answer(stage.url, wire.calling(stage.url, f"Bearer {token}", wire.call(text)))
    did = {name: driver.calls[len(before[name]) :] for name, driver in stage.world.services.items()}
    has = {READ, WRITE} & set(words)
    if not has or not needed <= has:
        event("challenged")
        assert answer.status == 403
        asked = needed | has if has else {READ}
        assert answer.challenge["scope"].split(" ") == sorted(asked)
        assert not any(did.values())
        assert len(stage.world.host.calls) == pinged
    elif not allowed(program, words, ["database", "ledger", *own], ["database"]):
        event("refused for a name")
        assert answer.json()["result"]["structuredContent"]["refusal"]["code"] == "unknown_target"
        assert not any(did.values())
        assert len(stage.world.host.calls) == pinged
    else:
        event("run")
        result = answer.json()["result"]["structuredContent"]
        assert result["status"] in {"completed", "contained"}
        assert sum(calls.count("restart") for calls in did.values()) == result["ran"].get("RESTART", 0)
        assert len(stage.world.host.calls) - pinged == result["ran"].get("PING", 0)
        assert {name for name, calls in did.items() if calls} <= {"database", "ledger", *own}
