"""A refusal, drawn for a person."""

from guideway.dsl.errors import Refusal, draw
from guideway.dsl.scopes import scope_list
from guideway.server.cli.console import BOLD, CYAN, RED, Console


def say_refusal(console: Console, refusal: Refusal, note: str | None = None) -> None:
    """Write every reason of a refusal, the scopes where they are what is missing, and then ``note`` too."""
    for one in refusal.diagnostics:
        console.drawing(draw(one, refusal.source), RED)
    if refusal.missing_scopes:
        console.line(("required scopes: ", BOLD), scope_list(refusal.required_scopes))
        console.line(("missing scopes: ", BOLD), scope_list(refusal.missing_scopes))
        if note:
            console.line(("note: ", CYAN), note)
