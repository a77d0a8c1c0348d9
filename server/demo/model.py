"""A small model writes programs for plain requests, with each caller's grammar and without one, side by side.

Owns the requests, the examples and what is shown of them. What the model wrote goes the way of every program: the same
pipeline admits it or refuses it, and only what was written under the grammar is run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio import to_thread

from guideway.dsl.errors import Code, Refusal
from guideway.dsl.scopes import scope_list
from guideway.grammar import GrammarCopy, Shape, copy_for
from guideway.interpreter.pipeline import Admitted, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Report
from guideway.server.config import load
from guideway.server.demo.llama import Llama, Written, turns
from guideway.server.demo.world import DemoError, World
from guideway.server.engines import refusal
from guideway.server.publish import nameable
from guideway.server.render import report_lines
from guideway.server.wiring import build, caller

#: What the model is shown before each request, whoever asks. A model this small leans on what stands last, so the
#: simplest forms do.
EXAMPLES: Final = (
    (
        "ping the database, and restart it if it does not answer",
        'TRY { PING "database.internal" } CATCH { RESTART "database" }',
    ),
    ("ping the cache, and if that fails show its state", 'TRY { PING "cache.internal" } CATCH { GET_STATUS "cache" }'),
    ("start the api unless it is running", 'IF_RUNNING "api" THEN { } ELSE { RESTART "api" }'),
    ("restart the worker if it is down", 'IF_RUNNING "worker" THEN { } ELSE { RESTART "worker" }'),
    ("please restart the database", 'RESTART "database"'),
    ("restart the api", 'RESTART "api"'),
    ("how is the database doing?", 'GET_STATUS "database"'),
    ("what is the state of the cache?", 'GET_STATUS "cache"'),
    ("is the api up?", 'PING "api.internal"'),
    ("does the cache host answer?", 'PING "cache.internal"'),
)

#: Who asks, and for what. The reader has no right to restart anything.
REQUESTS: Final = (
    ("operator", "is the database up?"),
    ("operator", "restart the cache if it is down"),
    ("operator", "ping the api, and restart it if it does not answer"),
    ("operator", "what is the worker doing?"),
    ("reader", "restart the worker"),
)

#: As large as a model this small can fill with anything but repetition.
SHAPE: Final = Shape(nesting=1, statements=1)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the model wrote, and what the pipeline has to say to it."""

    written: Written
    admitted: Admitted | None
    refusal: Refusal | None

    @property
    def parses(self) -> bool:
        """Whether it is a program. A text that was cut off is none, whatever it looks like."""
        refused = self.refusal is not None and self.refusal.code in (Code.SYNTAX, Code.TOO_LARGE)
        return self.written.whole and not refused

    @property
    def runnable(self) -> Admitted | None:
        """What its caller may run of it: all, or nothing."""
        return self.admitted if self.written.whole else None

    def verdict(self) -> str:
        """Return what is to be said of it."""
        if not self.written.whole:
            return f"was cut off after {self.written.tokens} tokens, so it is no program"
        if not self.parses:
            return f"does not parse: {self.refusal}"
        return (
            "parses, and this caller may run it" if self.runnable else f"parses, and would be refused: {self.refusal}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "text": self.written.text,
            "whole": self.written.whole,
            "tokens": self.written.tokens,
            "seconds": self.written.seconds,
            "parses": self.parses,
            "allowed": self.runnable is not None,
            "refusal": self.refusal and self.refusal.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """A request, what the model wrote for it under the caller's grammar and without one, and the run of the first."""

    caller: str
    request: str
    bound: Judged
    free: Judged
    report: Report | None

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "caller": self.caller,
            "request": self.request,
            "with_grammar": self.bound.to_json(),
            "without_grammar": self.free.to_json(),
            "report": self.report and self.report.to_json(),
        }


@dataclass
class Session:
    """What was seen on the way. ``say`` is given each line as it comes."""

    say: Callable[[str], None]
    answers: list[Answered] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {"requests": [answer.to_json() for answer in self.answers]}


def take(world: World, say: Callable[[str], None]) -> Session:
    """Break the cache, and let the model answer every request.

    Raises ``DemoError`` where the model cannot be had, or anything written under a grammar may not run.
    """
    session = Session(say)
    llama = Llama()
    say(f"Four programs run under supervisord in {world.folder}: database, cache, api, worker.")
    say(f"The cache was killed, as a crash would (process {world.kill('cache')}).")
    say(f"{llama.model} answers each request twice: under its caller's grammar, and without one.")
    say(f"It sees the same {len(EXAMPLES)} examples each time. Only what it writes under the grammar is run.")
    anyio.run(_answer_all, world, llama, session)
    say("")
    state = f"runs again, as process {pid}" if (pid := world.pid("cache")) else "is still down"
    say(f"The cache {state}.")
    _sum_up(session)
    broken = [answer.request for answer in session.answers if answer.bound.runnable is None]
    if broken:
        raise DemoError(f"the grammar did not hold: what was written for {broken[0]!r} may not run")
    return session


async def _answer_all(world: World, llama: Llama, session: Session) -> None:
    config = load(world.configuration)
    pipeline = build(config)
    try:
        callers = {name: caller(config, name) for name, _ in REQUESTS}
        copies = {name: await _copy(pipeline, asking) for name, asking in callers.items()}
        for number, (name, request) in enumerate(REQUESTS, 1):
            session.say("")
            session.say(f"{number}. {name}: {request}")
            answer = await _answer(pipeline, llama, callers[name], copies[name], request, say=session.say)
            session.answers.append(answer)
    finally:
        await pipeline.close()


async def _copy(pipeline: Pipeline, asking: Principal) -> GrammarCopy:
    """Return a caller's grammar for llama.cpp, which has compiled it: some builds generate without a bad one."""
    copy = copy_for(asking.scopes, "gbnf", names=nameable(pipeline.inventory), shape=SHAPE, limits=pipeline.limits)
    if refused := await refusal(copy):
        raise DemoError(refused)
    return copy


async def _answer(
    pipeline: Pipeline, llama: Llama, asking: Principal, copy: GrammarCopy, request: str, *, say: Callable[[str], None]
) -> Answered:
    limit = copy.longest_tokens
    if limit is None:
        raise ValueError("a grammar without a longest text has no limit to write to")
    conversation = list(turns(EXAMPLES, request))

    async def write(grammar: str | None) -> Judged:
        return judge(pipeline, asking, await to_thread.run_sync(llama.write, conversation, limit, grammar))

    bound = await write(copy.text)
    _show("with the grammar", bound, say)
    report: Report | None = None
    if bound.runnable is not None:
        say(f"     {_plan(bound.runnable)}")
        report = await pipeline.run(bound.written.text, asking)
        for line in report_lines(report):
            say(f"     {line}")
    free = await write(None)
    _show("without it", free, say)
    return Answered(asking.subject, request, bound, free, report)


def judge(pipeline: Pipeline, asking: Principal, written: Written) -> Judged:
    """Check what was written, without any effect."""
    try:
        return Judged(written, pipeline.admit(written.text, asking), None)
    except Refusal as reasons:
        return Judged(written, None, reasons)


def _show(how: str, judged: Judged, say: Callable[[str], None]) -> None:
    say(f"   {how}, {judged.written.tokens} tokens in {judged.written.seconds:.1f} s:")
    for line in judged.written.text.splitlines() or [""]:
        say(f"     {line}")
    say(f"     check: {judged.verdict()}")


def _plan(admitted: Admitted) -> str:
    worst = admitted.worst_case
    counts = [
        f'{keyword} "{name}"' + (f" {times} times" if times > 1 else "")
        for (keyword, name), times in sorted(worst.targets.items())
    ]
    most = ", ".join(counts) or "nothing"
    return f"plan: needs {scope_list(admitted.analysis.scopes) or 'no scope'}; at most {most}; {worst.seconds:g} s"


def _sum_up(session: Session) -> None:
    say, total = session.say, len(session.answers)
    rows: Mapping[str, list[Judged]] = {
        "with the grammar": [answer.bound for answer in session.answers],
        "without it": [answer.free for answer in session.answers],
    }
    say("")
    say(f"{'':18}{'parsed':10}allowed")
    for how, judged in rows.items():
        parsed, allowed = sum(one.parses for one in judged), sum(one.runnable is not None for one in judged)
        say(f"{how:18}{f'{parsed} of {total}':10}{allowed} of {total}")
    say("")
    say("A grammar guarantees the form of what is written and the rights of its caller, not its sense:")
    say("whether a program does what was asked for is up to the model, and this one is very small.")
