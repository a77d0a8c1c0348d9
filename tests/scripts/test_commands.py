"""Each command's help and examples, and what the quick ones load."""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guideway.server.cli.command import Exit
from guideway.server.cli.entry import COMMANDS, load
from tests.scripts.session import environment

SLOW = {"demo"}  # tests/system runs it
ELSEWHERE = "https://"  # tests/server/sign_in runs these on a server
CONFIGURATION = """
caller = "operator"
[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]
[callers.reader]
scopes = ["mcp:diag:read"]
[callers.approver]
scopes = ["mcp:diag:approve"]
[server]
port = {port}
[hosts."api.internal"]
probe = "memory"
[services.database]
driver = "memory"
impact = "low"
reversibility = "easy"
settle_seconds = 0
"""
DEVELOPMENT = """
[development_issuer]
people = { alice = ["mcp:diag:read", "mcp:diag:write"] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with what the examples name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (tmp_path / "guideway.toml").write_text(CONFIGURATION.format(port=port))
    (tmp_path / "development.toml").write_text(DEVELOPMENT)
    (tmp_path / "restart.diag").write_text('RESTART "database"\n')
    (tmp_path / "look.diag").write_text('PING "api.internal"\nGET_STATUS "database"\n')
    return tmp_path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def examples(*, served: bool) -> Iterator[str]:
    for name in COMMANDS:
        for example in load(name).examples:
            if name not in SLOW and ELSEWHERE not in example and ("--http" in example) is served:
                yield example


@pytest.mark.parametrize("example", [*examples(served=False)])
def test_an_example_works(example: str, folder: Path) -> None:
    ran = run(example, folder)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("example", [*examples(served=True)])
def test_an_example_that_serves_works_and_ends_at_a_signal(example: str, folder: Path) -> None:
    with subprocess.Popen(
        example.split(), cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"serving http://(127\.0\.0\.1):(\d+)/mcp as (operator|reader) with mcp:diag:read", line)
        assert found, line
        with socket.create_connection((found[1], int(found[2])), timeout=30):
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serving_standard_input_ends_at_a_signal(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        ["guideway", "serve", "--stdio"],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert '"id":1' in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) == 0  # and standard input is still open


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_and_every_exit_code(name: str, folder: Path) -> None:
    ran = run(f"guideway {name} --help", folder)
    command = load(name)
    assert ran.returncode == 0
    assert command.examples
    assert all(f"  {example}\n" in ran.stdout for example in command.examples)
    codes = re.findall(r"^  (\d+) ", ran.stdout.partition("exit codes:")[2], re.MULTILINE)
    assert [int(code) for code in codes] == [*(code for code, _ in command.exits), Exit.USAGE]
    assert max(map(len, ran.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_color(name: str) -> None:
    flags = load(name).parser(name).format_usage()
    assert "--json" in flags
    assert "--color" in flags


def sample(action: argparse.Action) -> str:
    return str(next(iter(action.choices))) if action.choices else "7"


def shapes(name: str) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield options, each with its value, and what else a command takes: with as much of that as it can be given."""
    actions = [action for action in load(name).parser(name)._actions if "-h" not in action.option_strings]
    others: list[str] = []
    needed: list[list[str]] = []
    optional: list[list[str]] = []
    for action in actions:
        if not action.option_strings:
            others += [sample(action), *(["more", "still-more"] if action.nargs in {"*", "+"} else [])]
            continue
        flag = [action.option_strings[-1], *([] if action.nargs == 0 else [sample(action)])]
        (needed if action.required else optional).append(flag)
    yield needed, others
    for flag in optional:
        yield [*needed, ["--color", "never"], flag], others


@pytest.mark.parametrize("name", [name for name in COMMANDS if any(others for _, others in shapes(name))])
def test_options_may_stand_first_last_and_in_between(name: str) -> None:
    def parsed(arguments: list[str]) -> dict[str, object]:
        parser = load(name).parser(name)
        return vars(parser.parse_args(parser.options_first(arguments)))

    for options, others in shapes(name):
        together = [argument for option in options for argument in option]
        meant = parsed([*others, *together])
        assert meant == parsed([*together, *others])
        for at in range(1, len(others)):
            assert meant == parsed([*others[:at], *together, *others[at:]])
        if len(options) > 1:
            first, *rest = options
            assert meant == parsed([*first, *others, *(argument for option in rest for argument in option)])


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("check -- -odd.diag", {"files": ["-odd.diag"]}),
        ("check --json -- -odd.diag --json", {"files": ["-odd.diag", "--json"], "json": True}),
        ("run --wait -", {"file": "-", "wait": True}),
        ("inventory check --config=gw2.toml w-1", {"config": "gw2.toml", "names": ["w-1"]}),
    ],
)
def test_what_is_no_option_stays_what_it_is(command: str, kept: dict[str, object]) -> None:
    name, *arguments = command.split()
    parser = load(name).parser(name)
    assert vars(parser.parse_args(parser.options_first(arguments))).items() >= kept.items()


def loaded_by(code: str, *arguments: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for a piece of code, beyond what it starts with."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint('\\n'.join(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def third_party(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"guideway"}


def test_the_language_loads_no_third_party_package() -> None:
    modules = loaded_by("import guideway.dsl")
    assert "guideway.dsl.parser" in modules
    assert third_party(modules) == set()


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_the_quick_commands_load_the_language_and_nothing_slow(command: str, folder: Path) -> None:
    code = "from guideway.server.cli import main; assert main(sys.argv[1:]) == 0"
    modules = loaded_by(code, command, os.fspath(folder / "restart.diag"))
    assert f"guideway.server.cli.{command}" in modules
    assert third_party(modules) == set()
    slow = {"asyncio", "dataclasses", "inspect", "json", "logging", "pathlib", "shutil", "subprocess", "tomllib"}
    assert not modules & slow
    assert not any(module.startswith(("guideway.interpreter", "guideway.grammar")) for module in modules)
