"""The corpus: scripts with what is to be found in them beside them, as ``tests/corpus/README.md`` describes.

``python -m tests.dsl.corpus`` writes the expectations anew; read the difference before you keep it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from guideway.dsl import Limits, Refusal, analyze, draw, format_program, parse
from guideway.dsl.analysis import WorstCase
from guideway.dsl.ast import COMMANDS, Block, Command, GetStatus, IfRunning, Ping, Program, Restart, Statement, TryCatch
from guideway.dsl.printer import format_one_line

CORPUS = Path(__file__).parent.parent / "corpus"

# In seconds; powers of two, so that a sum says of what it is made.
DEADLINES = {"PING": 1.0, "GET_STATUS": 16.0, "RESTART": 256.0, "IF_RUNNING": 4096.0}


@dataclass(frozen=True)
class Case:
    """One script of the corpus, and the file of what is expected of it."""

    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(CORPUS).with_suffix("").as_posix()

    @property
    def text(self) -> str:
        """The script, with its line ends and its byte order mark."""
        return self.path.read_bytes().decode("utf-8")

    @property
    def expected_path(self) -> Path:
        return self.path.with_suffix(".json")

    @property
    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.expected_path.read_text(encoding="utf-8"))
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """What the script is read with, where that is not the default: ``limits`` and ``vocabulary``."""
        if not self.expected_path.exists():
            return {}
        return {key: self.expected[key] for key in ("limits", "vocabulary") if key in self.expected}


def cases(folder: str = "") -> list[Case]:
    """Return the scripts in a folder of the corpus, those in folders below it among them."""
    return [Case(path) for path in sorted((CORPUS / folder).rglob("*.diag"))]


def outcome(text: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to say about a script, in the form of the corpus."""
    vocabulary = [command for command in COMMANDS if command.keyword in settings.get("vocabulary", _ALL)]
    try:
        program = parse(text, limits=Limits(**settings.get("limits", {})), vocabulary=vocabulary)
    except Refusal as refusal:
        return settings | {
            "diagnostics": [found.to_json(refusal.source) for found in refusal.diagnostics],
            "drawn": [draw(found, refusal.source).split("\n") for found in refusal.diagnostics],
        }
    analysis = analyze(program)
    return settings | {
        "tree": [tree(statement) for statement in program.statements],
        "scopes": sorted(analysis.scopes),
        "targets": sorted(f"{command.keyword} {target}" for command, target in analysis.targets),
        "worst_case": worst_case(analysis.worst_case(lambda command: DEADLINES[command.keyword])),
        "warnings": [found.to_json(program.source) for found in analysis.warnings],
        "drawn": [draw(found, program.source, severity="warning").split("\n") for found in analysis.warnings],
        "format": format_program(program).split("\n"),
        "one_line": format_one_line(program),
    }


def tree(statement: Statement) -> dict[str, Any]:
    """Return a tree as nested objects: an implied block and one in braces look alike but for their spans."""
    place: dict[str, Any] = {"span": list(statement.span)}
    match statement:
        case Ping() | GetStatus() | Restart():
            return {"kind": statement.keyword, "target": statement.target} | place
        case IfRunning(then=then, otherwise=otherwise):
            bodies = {"then": tree(then), "otherwise": tree(otherwise) if otherwise else None}
            return {"kind": statement.keyword, "target": statement.target} | place | bodies
        case TryCatch(body=body, handler=handler):
            return {"kind": "TRY"} | place | {"body": tree(body), "handler": tree(handler)}
        case Block(statements=inner):
            return {"kind": "block"} | place | {"statements": [tree(each) for each in inner]}
        case _:
            assert_never(statement)


def worst_case(found: WorstCase) -> dict[str, Any]:
    """Return a worst case as an object."""
    return {
        "commands": dict(found.commands),
        "targets": {f"{keyword} {name}": count for (keyword, name), count in sorted(found.targets.items())},
        "seconds": found.seconds,
    }


def commands(program: Program) -> Iterator[Command]:
    """Yield the commands of a program in the order of the text."""
    return iter(analyze(program).commands)


_ALL = tuple(DEADLINES)


def write(case: Case) -> None:
    """Write what is found now as what is expected."""
    found = json.dumps(outcome(case.text, case.settings), ensure_ascii=False, indent=1)
    case.expected_path.write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in cases():
        write(each)
