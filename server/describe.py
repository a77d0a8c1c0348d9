"""How the tool is described to one kind of caller: in the model's terms, with that caller's own grammar and names.

What is said stays bounded, however large the inventory is: a description has at most a few thousand characters, and a
copy that is longer than ``MOST_INLINE`` is named by its resource and its digest.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import mcp_types as types

from guideway.dsl.analysis import analyze
from guideway.dsl.ast import COMMANDS, Command, Target
from guideway.dsl.parser import parse
from guideway.dsl.patterns import STAR_LENGTH, NamePattern, Spelling
from guideway.dsl.scopes import Scope
from guideway.grammar import GrammarCopy, published_grammar, trim
from guideway.grammar.dialects.lark import print_grammar
from guideway.grammar.model import Grammar, Rule
from guideway.grammar.trim import rule_name
from guideway.server.publish import Names, Wanted, resource_uri
from guideway.server.schema import CONFIRMATION, output_schema

GRAMMAR_KEY: Final = "io.github.guideway/grammar"
"""The ``_meta`` key of the whole grammar: a reversed domain, as the MCP specification wants keys of its users to be."""

MOST_INLINE: Final = 16_384
"""The longest text of a copy, in bytes, that stands in ``_meta`` itself."""

# Of each kind; a longer list costs a model more than the answer to a wrong name, which names what is near.
_MOST_NAMES: Final = 50
_MOST_CHARACTERS: Final = 1_000
_MOST_LEFT_OUT: Final = 10
_STAR: Final = f"each * stands for 1 to {STAR_LENGTH} letters, digits, _ or -"

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


def describe(
    name: str,
    scopes: frozenset[Scope],
    names: Names,
    *,
    published: GrammarCopy,
    generating: GrammarCopy | str,
    input_schema: dict[str, Any],
) -> types.Tool:
    """Return the tool as a caller with these scopes and names sees it.

    ``published`` is their copy in Lark, ``generating`` the one to generate by in GBNF, or why there is none.
    Raises ``NoGrammar`` where the scopes and names let no program run.
    """
    grammar = trim(published_grammar(), scopes, [kind for kind in Target if names[kind]])
    commands = [command for command in COMMANDS if rule_name(command) in grammar.rules]
    changes = any(command.mutates for command in commands)
    return types.Tool(
        name=name,
        title="Run a diagnostic program",
        description="\n".join(_description(grammar, commands, scopes, names)),
        input_schema=input_schema,
        # Of every caller's results: one who steps up between the listing and the call gets more in theirs.
        output_schema=output_schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=not changes,
            # A restart cuts off whoever uses the service, and a second one does so again.
            destructive_hint=changes,
            idempotent_hint=not changes,
            # It reaches what the inventory names and nothing else.
            open_world_hint=False,
        ),
        _meta={GRAMMAR_KEY: _meta(published, generating)},
    )


def _meta(published: GrammarCopy, generating: GrammarCopy | str) -> dict[str, Any]:
    """Return the copies for a program: whole, or where one is too long, the resource that holds it."""
    notes = list(published.notes)
    found: dict[str, Any] = {
        "type": "grammar",
        "syntax": published.dialect,
        **_text("definition", published),
        "sha256": published.sha256,
        "uri": resource_uri(Wanted(published.dialect)),
    }
    if isinstance(generating, str):
        notes.append(generating)
    else:
        found |= {
            **_text(generating.dialect, generating),
            f"{generating.dialect}_sha256": generating.sha256,
            f"{generating.dialect}_uri": resource_uri(Wanted(generating.dialect)),
            "longest_bytes": generating.longest_bytes,
            "way_out_bytes": generating.way_out_bytes,
        }
        notes += [note for note in generating.notes if note not in notes]
    return found | {
        "scopes": sorted(published.scopes),
        "names": {kind.value: form.value for kind, form in published.names.items()},
        "notes": notes,
    }


def _text(key: str, copy: GrammarCopy) -> dict[str, str]:
    return {key: copy.text} if len(copy.text.encode()) <= MOST_INLINE else {}


def _description(
    grammar: Grammar, commands: list[type[Command]], scopes: frozenset[Scope], names: Names
) -> Iterator[str]:
    yield f"Run one small program that {_does(commands)} of this installation."
    yield "Put several commands into one program instead of calling once for each."
    yield "A program stops at its first failed command and fails, unless a TRY contains that."
    if any(command.mutates for command in commands):
        yield (
            "Some restarts need a person's approval first: then nothing has run, and the answer names a ticket. "
            f"Once a person has approved it, call again with the same program and that ticket as `{CONFIRMATION}`."
        )
    yield ""
    yield "Examples:"
    yield from examples(scopes, names)
    yield ""
    yield "Grammar (Lark syntax; keywords are upper case, names stand in double quotes):"
    # As a model reads it best: the rules, and for each kind of name what it can be. How characters make tokens is left
    # out; the whole grammar stands in ``_meta``.
    rules = (paragraph for paragraph in grammar.paragraphs if any(isinstance(d, Rule) for d in paragraph.definitions))
    yield print_grammar(Grammar(tuple(rules)))
    for kind in Target:
        if kind.value in grammar.terminals:
            yield f"{kind.value}: {_listed(names[kind])}"


def _does(commands: Iterable[type[Command]]) -> str:
    asked = {command.names for command in commands if not command.mutates}
    looks = [word for kind, word in ((Target.HOST, "hosts"), (Target.SERVICE, "services")) if kind in asked]
    does = [f"looks at {' and '.join(looks)}"] if looks else []
    return " and ".join([*does, *(["restarts services"] if any(command.mutates for command in commands) else [])])


def _listed(names: Sequence[Spelling]) -> str:
    """Return the first names as alternatives, at least one, and how many more there are; what a star is, behind one."""
    lengths = accumulate(len(str(name)) for name in names[:_MOST_NAMES])
    shown = max(1, sum(length <= _MOST_CHARACTERS for length in lengths))
    more = [f"… {len(names) - shown} more"] if names[shown:] else []
    listed = " | ".join([*(f'"{name}"' for name in names[:shown]), *more])
    left_out = sorted({name for one in names[:shown] if isinstance(one, NamePattern) for name in one.but})
    if left_out:
        few = [f'"{name}"' for name in left_out[:_MOST_LEFT_OUT]]
        few += [f"… {len(left_out) - len(few)} more"] if left_out[len(few) :] else []
        listed += f", but not {', '.join(few)}"
    return f"{listed} ({_STAR})" if any(isinstance(name, NamePattern) for name in names) else listed


def examples(scopes: frozenset[Scope], names: Names, most: int = 2) -> list[str]:
    """Return programs that a caller with these scopes may write with these names, the richest first."""
    first = {kind.value: _first(names[kind]) for kind in Target if names[kind]}
    found = []
    for example in _EXAMPLES:
        try:
            text = example.format_map(first)
        except KeyError:  # there is nothing of that kind
            continue
        if analyze(parse(text)).scopes <= scopes:
            found.append(text)
    return found[:most]


def _first(names: Sequence[Spelling]) -> str:
    """Return the first name, or where there are patterns alone, one that the first of them means."""
    texts = (name for name in names if isinstance(name, str))
    made = (name for one in names if isinstance(one, NamePattern) for name in one.names())
    return next(texts, None) or next(made)
