"""How the tool is described to one kind of caller: in the model's terms, with that caller's own grammar and names."""

from collections.abc import Iterator
from typing import Any, Final

import mcp_types as types

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import COMMANDS, Target
from guideway.dsl.parser import parse
from guideway.dsl.scopes import Scope
from guideway.grammar import copy_for, published_grammar, trim
from guideway.grammar.dialects.lark import print_grammar
from guideway.grammar.model import Grammar, Rule
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.server.schema import output_schema

GRAMMAR_KEY: Final = "io.github.guideway/grammar"
"""The ``_meta`` key of the whole grammar: a reversed domain, as the MCP specification wants keys of its users to be."""

_MOST_NAMES: Final = 50  # of each kind; a longer list costs a model more than the answer to a wrong name
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
    allowed = [command for command in COMMANDS if command.scope in scopes]
    changes = any(command.mutates for command in allowed)
    does = (["looks at hosts and services"] if any(not command.mutates for command in allowed) else []) + (
        ["restarts services"] if changes else []
    )
    return types.Tool(
        name=name,
        title="Run a diagnostic program",
        description=_description(scopes, pipeline.inventory, does),
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


def _description(scopes: frozenset[Scope], inventory: Inventory, does: list[str]) -> str:
    return "\n".join(
        [
            f"Run one small program that {' and '.join(does)} of this installation.",
            "Put several commands into one program instead of calling once for each.",
            "A program stops at its first failed command and fails, unless a TRY contains that.",
            "",
            "Examples:",
            *examples(scopes, inventory),
            "",
            "Grammar (Lark syntax; keywords are upper case, names stand in double quotes):",
            *_rules(trim(published_grammar(), scopes), inventory),
        ]
    )


def _rules(grammar: Grammar, inventory: Inventory) -> Iterator[str]:
    """Yield the grammar as a model reads it best: the rules, and for each kind of name what it can be.

    How characters make tokens is left out; the whole grammar stands in ``_meta``.
    """
    rules = (paragraph for paragraph in grammar.paragraphs if any(isinstance(d, Rule) for d in paragraph.definitions))
    yield print_grammar(Grammar(tuple(rules)))
    for kind in Target:
        if kind.value in grammar.terminals:
            names = inventory.names(kind)
            listed = " | ".join(f'"{name}"' for name in names[:_MOST_NAMES]) or "(none)"
            yield f"{kind.value}: {listed}" + (f" | … {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else "")


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
