"""``guideway plan``: what a program needs and may do, and whether this caller may run it. Touches nothing."""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio

from guideway.dsl.analysis import Analysis, WorstCase, analyze
from guideway.dsl.ast import Command as Node
from guideway.dsl.ast import Target
from guideway.dsl.errors import Code, Refusal
from guideway.dsl.parser import parse
from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope
from guideway.dsl.source import Source
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.server import wiring
from guideway.server.cli.command import Command, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config
from guideway.server.cli.console import BOLD, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.files import read_program
from guideway.server.cli.inventory_target import probe_of, probed_by
from guideway.server.cli.outlook import Outlook, look_ahead
from guideway.server.cli.refusals import say_refusal, say_warnings
from guideway.server.cli.ticket_facts import waits_in
from guideway.server.config import Config
from guideway.server.stores import is_there

_KINDS = {Target.HOST: "host", Target.SERVICE: "service", Target.RESTARTABLE: "service"}


class _Plan(Record):
    """What is known of a program beforehand. ``seconds`` is None where a target is unknown, and so is its deadline.

    ``outlook`` is None there too.
    """

    source: Source
    analysis: Analysis
    worst: WorstCase
    seconds: float | None
    refusal: Refusal | None
    outlook: Outlook | None

    def exit(self) -> Exit:
        """Return how the command ends: as ``guideway run`` would, as far as that is known."""
        if self.refusal is not None:
            return Exit.REFUSED
        if self.outlook is None or (not self.outlook.causes and not self.outlook.closed):
            return Exit.OK
        return Exit.APPROVAL if self.outlook.can_ask and not self.outlook.closed else Exit.REFUSED

    def needs(self) -> Iterator[tuple[Scope, list[tuple[int, int, Node]]]]:
        """Yield each scope with the commands that need it and their lines and columns."""
        placed = [(self.source.position(command.start), command) for command in self.analysis.commands]
        for scope in sorted(self.analysis.scopes):
            yield (
                scope,
                [(place.line, place.column, command) for place, command in placed if command.scope is scope],
            )

    def touches(self) -> list[tuple[str, str, list[str]]]:
        """Return each target: its kind, its name, and the commands that name it."""
        found: dict[tuple[str, str], list[str]] = {}
        for command, name in sorted(self.analysis.targets, key=lambda target: (target[1], target[0].keyword)):
            found.setdefault((_KINDS[command.names], name), []).append(command.keyword)
        return [(kind, name, keywords) for (kind, name), keywords in sorted(found.items())]

    def runs(self, config: Config, caller: Principal) -> list[dict[str, str]]:
        """Return the programs on this machine that its targets are asked by: of which target, and which program."""
        owners = [owned for tenant, owned in config.entries() if tenant in (None, caller.tenant)]
        return [
            {"kind": kind, "name": name, "program": program}
            for kind, name, _ in self.touches()
            for program in probed_by(probe_of(owners, kind, name)).values()
        ]

    def to_json(self, caller: Principal, pipeline: Pipeline, config: Config) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "name": self.source.name,
            "admitted": self.refusal is None,
            "caller": caller.subject,
            "scopes": [
                {
                    "scope": scope,
                    "held": scope in caller.scopes,
                    "commands": [
                        {"line": line, "column": column, "command": node.keyword, "target": node.target}
                        for line, column, node in nodes
                    ],
                }
                for scope, nodes in self.needs()
            ],
            "targets": [{"kind": kind, "name": name, "commands": words} for kind, name, words in self.touches()],
            "runs": self.runs(config, caller),
            "worst_case": {
                "commands": dict(self.worst.commands),
                "targets": [
                    {"command": keyword, "target": name, "times": times}
                    for (keyword, name), times in sorted(self.worst.targets.items())
                ],
                "seconds": self.seconds,
                "wait_seconds": pipeline.gate.rules.wait,
                "pipeline_seconds": pipeline.deadlines.pipeline,
            },
            "impact": self.outlook and self.outlook.to_json(),
            "warnings": [one.to_json(self.source) for one in self.analysis.warnings],
            "refusal": self.refusal and self.refusal.to_json(),
        }


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a program; `-` is standard input")
    add_configuration(parser)


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    caller = read_caller(options, config)
    console, errors = Console(options.color), Console(options.color, error=True)
    pipeline = wiring.build(config)
    try:
        source = read_program(options.file, most=config.limits.bytes)
        plan = anyio.run(partial(_plan, source, pipeline, caller, store_is_there=is_there(config)))
    except Refusal as refusal:  # no tree to say anything about
        if options.json:
            write_json({"name": refusal.source.name, "admitted": False, "refusal": refusal.to_json()})
        else:
            say_refusal(errors, refusal)
        return Exit.REFUSED
    if options.json:
        write_json(plan.to_json(caller, pipeline, config))
    else:
        _show(console, plan, pipeline, caller, config)
        console.stream.flush()
        say_warnings(errors, plan.source, plan.analysis.warnings)
        if plan.refusal is not None:
            say_refusal(errors, plan.refusal, explain_nobody(config, caller))
    return plan.exit()


async def _plan(source: Source, pipeline: Pipeline, caller: Principal, *, store_is_there: bool) -> _Plan:
    """Return the plan of a program. Raises ``Refusal`` where it does not parse."""
    refusal: Refusal | None = None
    try:
        pipeline.admit(source.text, caller, name=source.name)
    except Refusal as reasons:
        if reasons.code in (Code.SYNTAX, Code.TOO_LARGE):
            raise
        refusal = reasons
    analysis = analyze(parse(source.text, name=source.name, limits=pipeline.limits))
    inventory = pipeline.inventory_of(caller)
    known = all(inventory.allows(command.names, name) for command, name in analysis.targets)
    worst = pipeline.worst_case(analysis, inventory) if known else analysis.worst_case(lambda _: 0.0)
    outlook = await look_ahead(pipeline, analysis, worst, caller, store_is_there=store_is_there) if known else None
    return _Plan(source, analysis, worst, worst.seconds if known else None, refusal, outlook)


def _show(console: Console, plan: _Plan, pipeline: Pipeline, caller: Principal, config: Config) -> None:
    waits = plan.outlook.verdict() if plan.outlook else None
    if plan.refusal is not None:
        verdict = f"would be refused: {plan.refusal}", RED
    elif waits is not None:
        verdict = waits, YELLOW
    else:
        verdict = "may run", GREEN
    console.line((plan.source.name, BOLD), f", as {caller.subject}: ", verdict)
    console.line(("needs", BOLD))
    for scope, nodes in plan.needs():
        console.line(f"  {scope}", "" if scope in caller.scopes else ", which this caller does not have")
        for line, column, node in nodes:
            console.line(f'    {line}:{column:<6} {node.keyword} "{node.target}"')
    console.line(("touches", BOLD))
    for kind, name, keywords in plan.touches():
        console.line(f"  {kind:<8} {name}: {', '.join(keywords)}")
    _show_programs(console, plan.runs(config, caller))
    if plan.outlook is not None:
        plan.outlook.show(console)
    console.line(("at most", BOLD))
    for (keyword, name), times in sorted(plan.worst.targets.items()):
        console.line(f'  {keyword} "{name}"', f", {times} times" if times > 1 else ", once")
    if plan.seconds is not None:
        wait = pipeline.gate.rules.wait if any(command.mutates for command in plan.analysis.commands) else 0.0
        ends = plan.seconds >= pipeline.deadlines.pipeline
        console.line(f"  {plan.seconds:g} s", ", where the pipeline ends" if ends else "", waits_in(wait))


def _show_programs(console: Console, programs: list[dict[str, str]]) -> None:
    if programs:
        console.line(("runs here", BOLD))
    for one in programs:
        console.line(f"  {one['program']}, which says how {one['kind']} {one['name']} is")


COMMAND = Command(
    summary="say what a program needs and may do, and touch nothing",
    description="Say which scopes a program needs and for which lines, what it touches, in which tier it is and\n"
    "why, the most that it can do, and whether this caller may run it or a person has to approve it\n"
    "first. Nothing is asked of any host or service.",
    examples=("guideway plan restart.diag", "guideway plan --json --as operator restart.diag"),
    exits=(
        (Exit.OK, "this caller may run the program"),
        (Exit.REFUSED, "the program would be refused, also because it is frozen now or nobody could approve it"),
        (Exit.APPROVAL, "a person must approve it first"),
    ),
    arguments=_arguments,
    run=_run,
)
