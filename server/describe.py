"""How the tool is described to one kind of caller: in the model's terms, with that caller's own grammar and names."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import mcp_types as types

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.parser import parse
from guideway.dsl.scopes import Scope
from guideway.grammar import GrammarCopy, copy_for
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.server.schema import output_schema

GRAMMAR_KEY: Final = "io.github.guideway/grammar"
"""The ``_meta`` key of the whole grammar: a reversed domain, as the MCP specification wants keys of its users to be."""

_MOST_NAMES: Final = 50  # of each kind; a longer list costs a model more than the answer to a wrong name
_KINDS: Final = {Target.HOST: "host", Target.SERVICE: "service", Target.RESTARTABLE: "service that may be restarted"}
_EXAMPLES: Final = (
    (
        'TRY {{ IF_RUNNING "{RESTARTABLE}" THEN {{ PING "{HOST}" }} ELSE {{ RESTART "{RESTARTABLE}" }} }} '
        'CATCH {{ RESTART "{RESTARTABLE}" }}'
    ),
    'IF_RUNNING "{SERVICE}" THEN {{ PING "{HOST}" }} ELSE {{ GET_STATUS "{SERVICE}" }}',
    'TRY {{ PING "{HOST}" }} CATCH {{ GET_STATUS "{SERVICE}" }}',
    'TRY {{ RESTART "{RESTARTABLE}" }} CATCH {{ RESTART "{RESTARTABLE}" }}',
    'GET_STATUS "{SERVICE}"',
    'PING "{HOST}"',
    'RESTART "{RESTARTABLE}"',
)


def describe(name: str, pipeline: Pipeline, scopes: frozenset[Scope], input_schema: dict[str, Any]) -> types.Tool:
    """Return the tool as a caller with these scopes sees it. Raises ``NoGrammar`` where they let no program run."""
    copy = copy_for(scopes, dialect="lark")
    commands = [command for command in COMMANDS if command.scope in scopes]
    changes = any(command.mutates for command in commands)
    return types.Tool(
        name=name,
        title="Run a diagnostic program",
        description=_description(copy, commands, scopes, pipeline.inventory),
        input_schema=input_schema,
        output_schema=output_schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=not changes,
            # A restart cuts off whoever uses the service, and a second one does so again.
            destructive_hint=changes,
            idempotent_hint=not changes,
            # It reaches what the inventory names and nothing else.
            open_world_hint=False,
        ),
        _meta={
            GRAMMAR_KEY: {
                "type": "grammar",
                "syntax": copy.dialect,
                "definition": copy.text,
                "sha256": copy.sha256,
                "scopes": sorted(copy.scopes),
            }
        },
    )


def _description(
    copy: GrammarCopy, commands: list[type[Command]], scopes: frozenset[Scope], inventory: Inventory
) -> str:
    return "\n".join(
        [
            "Run one small program that looks at hosts and services of this installation"
            + (" and restarts services." if any(command.mutates for command in commands) else "; it changes nothing."),
            "Put several commands into one program instead of calling once for each.",
            "",
            "Commands:",
            *(f'- {command.keyword} "<{_KINDS[command.names]}>": {command.summary}' for command in commands),
            "A sequence stops at its first failed command and fails. TRY runs its body; where that fails, CATCH runs.",
            "",
            "Names that a program can use:",
            *_names(commands, inventory),
            "",
            "Examples:",
            *examples(scopes, inventory),
            "",
            "Grammar (Lark):",
            copy.text.strip(),
        ]
    )


def _names(commands: Iterable[type[Command]], inventory: Inventory) -> Iterator[str]:
    for kind in dict.fromkeys(command.names for command in commands):
        names = inventory.names(kind)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        listed = ", ".join(f'"{name}"' for name in names[:_MOST_NAMES]) or "none"
        yield f"- <{_KINDS[kind]}>: {listed}{more}"


def examples(scopes: frozenset[Scope], inventory: Inventory, most: int = 2) -> list[str]:
    """Return programs that a caller with these scopes may run on this inventory, the richest first."""
    names = {kind.value: inventory.names(kind)[0] for kind in Target if inventory.names(kind)}
    found = []
    for example in _EXAMPLES:
        try:
            text = example.format_map(names)
        except KeyError:  # nothing of that kind is in the inventory
            continue
        if analyze(parse(text)).scopes <= scopes:
            found.append(text)
    return found[:most]
