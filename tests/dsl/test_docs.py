"""The reference page says what the code says, and its scripts and outputs are true to the letter."""

import re
from pathlib import Path

import pytest

from guideway.dsl import DEFAULT_LIMITS, Code, Refusal, analyze, draw, format_program, parse
from guideway.dsl.ast import COMMANDS, IfRunning, Target
from guideway.dsl.lexer import NAME_LENGTH

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```([\w-]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KINDS = {Target.HOST: "a host", Target.SERVICE: "a service", Target.RESTARTABLE: "a service that may be restarted"}


def table(name: str) -> list[list[str]]:
    """Return the cells of a table of the page, without its head."""
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    assert found is not None
    rows = [row.strip("|").split("|") for row in found[1].strip().split("\n")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_commands_are_those_of_the_language() -> None:
    assert table("commands") == [
        [
            f"`{_head(command.example)}`",
            KINDS[command.names],
            f"`{command.scope}`",
            "yes" if command.mutates else "no",
            command.summary,
        ]
        for command in COMMANDS
    ]


def _head(example: str) -> str:
    return re.sub(r"\{.*", "{ … }", example)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_is_a_program_in_canonical_form(command: type[IfRunning]) -> None:
    program = parse(command.example)
    assert type(program.statements[0]) is command
    assert len(program.statements) == 1
    assert " ".join(format_program(program).split()) == command.example


def test_the_limits_are_those_of_the_parser() -> None:
    assert [row[1] for row in table("limits")] == [f"{limit:,}" for limit in DEFAULT_LIMITS]
    assert f"at most {NAME_LENGTH} characters" in " ".join(PAGE.split())


def test_every_code_is_explained() -> None:
    assert [row[0] for row in table("codes")] == [f"`{code}`" for code in Code]


def test_the_scripts_are_programs_and_the_outputs_are_theirs() -> None:
    assert len(FENCES) >= 5
    for (kind, text), (following, output) in zip(FENCES, [*FENCES[1:], ("", "")], strict=True):
        match kind:
            case "diag":
                program = parse(text)
                warnings = [draw(found, program.source, severity="warning") for found in analyze(program).warnings]
                if warnings:
                    assert following == "text"
                    assert "\n".join(warnings) + "\n" == output
                else:
                    assert format_program(program) == text
            case "diag-error":
                with pytest.raises(Refusal) as caught:
                    parse(text)
                drawn = [draw(found, caught.value.source) for found in caught.value.diagnostics]
                assert following == "text"
                assert "\n".join(drawn) + "\n" == output
            case _:
                assert kind == "text"
