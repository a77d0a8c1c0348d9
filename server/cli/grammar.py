"""``guideway grammar``: the copy of the grammar that a caller is shown, or that a set of scopes allows."""

import argparse
import json
import sys
from enum import StrEnum
from typing import Any

import anyio

from guideway.dsl.parser import DEFAULT_LIMITS, Limits
from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope
from guideway.grammar import (
    DIALECTS,
    FINITE,
    READS,
    Engine,
    GrammarCopy,
    Layout,
    NoGrammar,
    NothingToName,
    Shape,
    Wrap,
    copy_for,
    request_for,
)
from guideway.server import engines, wiring
from guideway.server.cli.command import Command, Complaint, Exit, add_configuration
from guideway.server.cli.configured import explain_nobody, read_caller, read_config
from guideway.server.cli.console import write_json
from guideway.server.cli.scopes import add_scope_option, given, require_known
from guideway.server.publish import Names, nameable


class _Holder(Record):
    """Whose copy it is. ``note`` says why there may be none; ``names`` None is any name."""

    scopes: frozenset[Scope]
    names: Names | None
    limits: Limits
    note: str | None


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_option(parser, "the copy for these, with any name, and not a caller's with the inventory's names")
    parser.add_argument(
        "--dialect",
        choices=DIALECTS,
        metavar="DIALECT",
        help=f"{', '.join(DIALECTS[:-1])} or {DIALECTS[-1]} (default: lark, or what --for reads best)",
    )
    parser.add_argument("--for", dest="engine", choices=_values(Engine), help="the part of a request to this engine")
    generated = parser.add_argument_group("for copies that a model generates by")
    generated.add_argument(
        "--layout", choices=_values(Layout), help=f"how programs are written (default: {Layout.ONE_LINE})"
    )
    generated.add_argument("--wrap", choices=_values(Wrap), help="what stands around the program (default: nothing)")
    generated.add_argument("--nesting", type=int, metavar="N", help=f"bodies inside bodies (default: {FINITE.nesting})")
    generated.add_argument(
        "--statements", type=int, metavar="N", help=f"at most so many in a row (default: {FINITE.statements})"
    )
    generated.add_argument(
        "--unbounded", action="store_true", help="any number in a row, as deep as the server reads: may never end"
    )
    add_configuration(parser)


def _values(of: type[StrEnum]) -> list[str]:
    """Return the values as plain texts, as which a complaint shows them."""
    return [member.value for member in of]


def _run(options: argparse.Namespace) -> int:
    engine = None if options.engine is None else Engine(options.engine)
    copy = _copy(options, _holder(options), options.dialect or ("lark" if engine is None else READS[engine][0]))
    refused = anyio.run(engines.refusal, copy)
    if refused is not None:
        raise Complaint(refused, help="this is a fault of guideway, not of yours: please report it", code="engine")
    fragment = None if engine is None else _fragment(engine, copy)
    if options.json:
        write_json(_machine_form(copy, engine, fragment))
    elif fragment is None:
        sys.stdout.write(copy.text)
    else:
        sys.stdout.write(json.dumps(fragment, indent=2, ensure_ascii=False) + "\n")
    return Exit.OK


def _holder(options: argparse.Namespace) -> _Holder:
    if options.scope is not None:
        if options.caller is not None:
            raise Complaint("--scope and --as cannot go together")
        return _Holder(require_known(given(options.scope)), None, DEFAULT_LIMITS, None)
    config = read_config(options)
    caller = read_caller(options, config)
    pipeline = wiring.build(config)
    return _Holder(
        caller.scopes, nameable(pipeline.inventory_of(caller)), pipeline.limits, explain_nobody(config, caller)
    )


def _copy(options: argparse.Namespace, holder: _Holder, dialect: str) -> GrammarCopy:
    try:
        copy = copy_for(
            holder.scopes,
            dialect,
            names=holder.names,
            layout=Layout(options.layout or Layout.ONE_LINE),
            shape=_shape(options, holder.limits),
            wrap=Wrap(options.wrap or Wrap.NONE),
            limits=holder.limits,
        )
    except NothingToName as none:
        raise Complaint(str(none), help="no host or service fits: guideway inventory list") from None
    except NoGrammar as none:
        raise Complaint(
            str(none), help=holder.note or f"one of {', '.join(sorted((Scope.READ, Scope.WRITE)))}"
        ) from None
    except ValueError as error:
        raise Complaint(f"there is no such copy in `{dialect}`: {error}") from None
    if copy.shape is None:
        given = {name: getattr(options, name) for name in ("layout", "nesting", "statements", "unbounded")}
        idle = [name for name, value in given.items() if value is not None and value is not False]
        if idle:
            raise Complaint(f"the dialect `{dialect}` is not for generation: --{idle[0]} means nothing there")
    return copy


def _shape(options: argparse.Namespace, limits: Limits) -> Shape | None:
    nesting, statements = options.nesting, options.statements
    if options.unbounded:
        if nesting is not None or statements is not None:
            raise Complaint("--unbounded cannot go with --nesting or --statements")
        return Shape(limits.nesting, None)
    if nesting is None and statements is None:
        return None
    return Shape(
        FINITE.nesting if nesting is None else nesting, FINITE.statements if statements is None else statements
    )


def _fragment(engine: Engine, copy: GrammarCopy) -> dict[str, Any]:
    try:
        return request_for(engine, copy)
    except ValueError as error:
        raise Complaint(str(error)) from None


def _machine_form(copy: GrammarCopy, engine: Engine | None, fragment: dict[str, Any] | None) -> dict[str, Any]:
    compiler = engines.engine_for(copy)
    form: dict[str, Any] = {
        "dialect": copy.dialect,
        "sha256": copy.sha256,
        "scopes": sorted(copy.scopes),
        "layout": copy.layout,
        "wrap": copy.wrap,
        "bounds": copy.shape
        and {
            "nesting": copy.shape.nesting,
            "statements": copy.shape.statements,
            "longest_bytes": copy.longest_bytes,
            "longest_tokens": copy.longest_tokens,
            "way_out_bytes": copy.way_out_bytes,
        },
        "names": {kind.value: form.value for kind, form in copy.names.items()},
        "notes": list(copy.notes),
        "compiled_by": compiler and compiler.name,
        "definition": copy.text,
    }
    return form if engine is None else {**form, "for": engine, "request": fragment}


COMMAND = Command(
    summary="print a caller's copy of the grammar",
    description="Print the grammar of the programs that a caller may run: only the commands that their scopes\n"
    "allow, and only the names of the inventory; or with --scope, of whoever has these, with any name.\n"
    "Where an engine that reads the dialect is installed here, it has compiled the copy.\n"
    "docs/grammar.md says which engine takes what.",
    examples=(
        "guideway grammar",
        "guideway grammar --as reader --json",
        "guideway grammar --as reader --dialect gbnf --wrap hermes --layout lines",
        "guideway grammar --as reader --for vllm",
        'guideway grammar --scope "mcp:diag:read mcp:diag:write" --dialect lark',
    ),
    exits=((Exit.OK, "the grammar was printed"),),
    arguments=_arguments,
    run=_run,
)
