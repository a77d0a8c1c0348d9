"""``guideway plan``: what a program needs and may do, and whether this caller may run it. Touches nothing."""

import argparse
from collections.abc import Iterator
from typing import Any

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
from guideway.server.cli.console import BOLD, GREEN, RED, Console, write_json
from guideway.server.cli.files import read_program
from guideway.server.cli.refusals import say_refusal, say_warnings

_KINDS = {Target.HOST: "host", Target.SERVICE: "service", Target.RESTARTABLE: "service"}


class _Plan(Record):
    """What is known of a program beforehand. ``seconds`` is None where a target is unknown, and so is its deadline."""

    source: Source
    analysis: Analysis
    worst: WorstCase
    seconds: float | None
    refusal: Refusal | None

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

    def to_json(self, caller: Principal, pipeline: Pipeline) -> dict[str, Any]:
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
            "worst_case": {
                "commands": dict(self.worst.commands),
                "targets": [
                    {"command": keyword, "target": name, "times": times}
                    for (keyword, name), times in sorted(self.worst.targets.items())
                ],
                "seconds": self.seconds,
                "pipeline_seconds": pipeline.deadlines.pipeline,
            },
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
        plan = _plan(read_program(options.file, most=config.limits.bytes), pipeline, caller)
    except Refusal as refusal:  # no tree to say anything about
        if options.json:
            write_json({"name": refusal.source.name, "admitted": False, "refusal": refusal.to_json()})
        else:
            say_refusal(errors, refusal)
        return Exit.REFUSED
    if options.json:
        write_json(plan.to_json(caller, pipeline))
    else:
        _show(console, plan, pipeline, caller)
        console.stream.flush()
        say_warnings(errors, plan.source, plan.analysis.warnings)
        if plan.refusal is not None:
            say_refusal(errors, plan.refusal, explain_nobody(config, caller))
    return Exit.OK if plan.refusal is None else Exit.REFUSED


def _plan(source: Source, pipeline: Pipeline, caller: Principal) -> _Plan:
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
    worst = analysis.worst_case(lambda command: pipeline.deadline(inventory, command) if known else 0)
    return _Plan(source, analysis, worst, worst.seconds if known else None, refusal)


def _show(console: Console, plan: _Plan, pipeline: Pipeline, caller: Principal) -> None:
    verdict = ("may run", GREEN) if plan.refusal is None else (f"would be refused: {plan.refusal}", RED)
    console.line((plan.source.name, BOLD), f", as {caller.subject}: ", verdict)
    console.line(("needs", BOLD))
    for scope, nodes in plan.needs():
        console.line(f"  {scope}", "" if scope in caller.scopes else ", which this caller does not have")
        for line, column, node in nodes:
            console.line(f'    {line}:{column:<6} {node.keyword} "{node.target}"')
    console.line(("touches", BOLD))
    for kind, name, keywords in plan.touches():
        console.line(f"  {kind:<8} {name}: {', '.join(keywords)}")
    console.line(("at most", BOLD))
    for (keyword, name), times in sorted(plan.worst.targets.items()):
        console.line(f'  {keyword} "{name}"', f", {times} times" if times > 1 else ", once")
    limit = pipeline.deadlines.pipeline
    if plan.seconds is not None:
        console.line(f"  {min(plan.seconds, limit):g} s", ", where the pipeline ends" if plan.seconds > limit else "")


COMMAND = Command(
    summary="say what a program needs and may do, and touch nothing",
    description="Say which scopes a program needs and for which lines, what it touches, the most that it can do, and\n"
    "whether this caller may run it. Nothing is asked of any host or service.",
    examples=("guideway plan restart.diag", "guideway plan --json --as operator restart.diag"),
    exits=((Exit.OK, "this caller may run the program"), (Exit.REFUSED, "the program would be refused")),
    arguments=_arguments,
    run=_run,
)
