"""A refusal and warnings, drawn for a person."""

from guideway.dsl.analysis import analyze
from guideway.dsl.errors import Diagnostic, Refusal, draw
from guideway.dsl.parser import Limits, parse
from guideway.dsl.scopes import scope_list
from guideway.dsl.source import Source
from guideway.server.cli.console import BOLD, CYAN, RED, YELLOW, Console


def say_warnings(console: Console, source: Source, warnings: tuple[Diagnostic, ...]) -> None:
    """Write what is right in a program, and easy to misread."""
    for one in warnings:
        console.drawing(draw(one, source, severity="warning"), YELLOW)


def say_program_warnings(console: Console, source: Source, limits: Limits) -> None:
    """Write the warnings of a program that is about to run."""
    try:
        say_warnings(console, source, analyze(parse(source.text, name=source.name, limits=limits)).warnings)
    except Refusal:  # it comes in the report of the run
        return
    console.stream.flush()


def say_refusal(console: Console, refusal: Refusal, note: str | None = None) -> None:
    """Write every reason of a refusal, the scopes where they are what is missing, and then ``note`` too."""
    for one in refusal.diagnostics:
        console.drawing(draw(one, refusal.source), RED)
    if refusal.missing_scopes:
        console.line(("required scopes: ", BOLD), scope_list(refusal.required_scopes))
        console.line(("missing scopes: ", BOLD), scope_list(refusal.missing_scopes))
        if note:
            console.line(("note: ", CYAN), note)
