"""The configuration: its defaults, its mistakes and their places, where it is looked for, and what is made of it."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guideway.dsl.analysis import analyze
from guideway.dsl.parser import Limits, parse
from guideway.dsl.printer import format_program
from guideway.dsl.scopes import Scope
from guideway.interpreter.results import Status
from guideway.server import wiring
from guideway.server.config import Config, load
from guideway.server.config_errors import ConfigError, Problem
from guideway.server.config_file import find

MISTAKES = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8").rstrip("\n").split("\n---\n")[1:]
WHOLE = """\
caller = "operator"

[callers.operator]
scopes = ["mcp:diag:read", "mcp:diag:write"]

[callers.idle]

[server]
host = "::1"
port = 9000

[limits]
bytes = 1000
nesting = 10
commands = 20
reads_at_once = 7

[deadlines]
ping = 1
get_status = 2.5
if_running = 3
restart = 4
pipeline = 5

[hosts."api.internal"]
probe = "http"
url = "http://127.0.0.1:8080/health"
ping_seconds = 7

[services.database]
driver = "supervisord"
socket = "run/supervisor.sock"
program = "database"
health = { probe = "tcp", address = "127.0.0.1", port = 5432 }
restart_seconds = 60
settle_seconds = 2
health_seconds = 3
restartable = false
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "guideway.toml"


def read(file: Path, text: str) -> Config:
    file.write_text(text, encoding="utf-8")
    return load(file)


# What a file says, and what holds where it says nothing


def test_without_a_file_nobody_may_do_anything() -> None:
    config = load(None)
    assert wiring.caller(config).scopes == frozenset()
    assert config.server.host == "127.0.0.1"
    pipeline = wiring.build(config)
    assert not pipeline.inventory.hosts
    assert not pipeline.inventory.services


def test_an_empty_file_says_what_no_file_says(file: Path) -> None:
    assert wiring.caller(read(file, "")) == wiring.NOBODY


def test_a_byte_order_mark_counts_for_nothing(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + WHOLE.encode())
    assert load(file).caller == "operator"


def test_a_caller_without_scopes_has_none(file: Path) -> None:
    config = read(file, WHOLE)
    assert wiring.caller(config, "idle").scopes == frozenset()
    assert wiring.caller(config).scopes == {Scope.READ, Scope.WRITE}
    with pytest.raises(KeyError):
        wiring.caller(config, "operater")


def test_every_key_arrives_where_it_counts(file: Path) -> None:
    config = read(file, WHOLE)
    assert (config.server.host, config.server.port) == ("::1", 9000)
    pipeline = wiring.build(config)
    assert pipeline.limits == Limits(bytes=1000, nesting=10, commands=20)
    assert pipeline.reads_at_once == 7
    deadlines = pipeline.deadlines
    assert [deadlines.ping, deadlines.get_status, deadlines.if_running, deadlines.restart, deadlines.pipeline] == [
        *(1, 2.5, 3, 4, 5)
    ]
    program = parse('PING "api.internal" RESTART "database"')
    assert [pipeline.deadline(pipeline.inventory, command) for command in analyze(program).commands] == [7, 60]
    assert not pipeline.inventory.services["database"].restartable
    entry = config.shared.services["database"]
    assert (entry.kind, entry.health_kind) == ("supervisord", "tcp")
    assert (entry.common.settle_seconds, entry.common.health_seconds) == (2, 3)


def test_a_path_is_relative_to_the_file_and_not_to_who_reads_it(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    file.write_text(WHOLE)
    driver: Any = load(Path("..", file.name)).shared.services["database"].driver
    assert driver.socket.is_absolute()
    assert driver.socket.resolve() == tmp_path / "run/supervisor.sock"


@pytest.mark.anyio
async def test_the_deepest_nesting_that_can_be_configured_runs(file: Path) -> None:
    config = read(
        file,
        '[limits]\nnesting = 100\n[callers.me]\nscopes = ["mcp:diag:read"]\n[services.a]\ndriver = "memory"\n',
    )
    text = 'TRY { GET_STATUS "a" ' * 49 + 'IF_RUNNING "a" THEN { GET_STATUS "a" }' + " } CATCH { }" * 49
    text = "{" * 50 + text + "}" * 50
    program = parse(text, limits=Limits(nesting=100))
    assert parse(format_program(program), limits=Limits(nesting=100)) == program
    report = await wiring.build(config).run(text, wiring.caller(config, "me"))
    assert report.status is Status.COMPLETED
    assert len(report.steps) == 51


# Mistakes


@pytest.mark.parametrize("text", MISTAKES, ids=[text.partition("#!")[0].strip() for text in MISTAKES])
def test_a_mistake_is_told_where_it_stands(file: Path, text: str) -> None:
    lines = enumerate(text.split("\n"), start=1)
    expected = [f"{file}:{number}: {line.partition('#! ')[2]}" for number, line in lines if "#! " in line]
    with pytest.raises(ConfigError) as caught:
        read(file, text)
    assert str(caught.value).split("\n") == expected


@pytest.mark.parametrize(
    ("text", "line", "end"),
    [
        ('caller = "me\nx = 1\n', 1, '`"` on'),
        ('caller = "me', 1, '`"` or'),
        ("a = 1\ncaller = 'me\nx = 1\n", 2, "`'` on"),
        ("caller = 'me\nx = 'y'\n", 1, "`'` on"),
        ('a = """\n\'\n"""\nb = [\'x\', \'y\n]\n# all\n', 4, "`'` on"),
    ],
)
def test_a_string_that_never_closes_is_told_on_its_line(file: Path, text: str, line: int, end: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(file, text)
    (problem,) = caught.value.problems
    assert (problem.message, problem.line) == ("is not TOML: a string never closes", line)
    assert problem.help is not None
    assert end in problem.help


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caller = \xff", "is not UTF-8"),
        (b"# " + b"x" * 4 * 1024 * 1024, "is larger than 4,194,304 bytes"),
        (b"a = " + b"[" * 5000, "is nested too deeply"),
        (b"a = \x00", "is not TOML: invalid value"),
    ],
    ids=["encoding", "size", "nesting", "nul"],
)
def test_what_is_no_configuration_at_all_is_told(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert [one.message for one in caught.value.problems] == [message]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_told_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = WHOLE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "double", "cut", "value"])):
            case "drop":
                lines[at] = ""
            case "double":
                lines.insert(at, lines[data.draw(st.integers(0, len(lines) - 1))])
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
            case _:
                value = data.draw(st.sampled_from(["{}", "[]", "-1", "true", '""', "inf", "1979-05-27", "[{a=1}]"]))
                lines[at] = f"{lines[at].partition('=')[0]} = {value}"
    file = tmp_path_factory.getbasetemp() / "damaged.toml"
    wrong: tuple[Problem, ...] = ()
    try:
        wiring.build(read(file, "\n".join(lines)))
    except ConfigError as error:
        wrong = error.problems
    assert all(one.line is not None and 1 <= one.line <= len(lines) for one in wrong)


# Whom a file is trusted from, and where it is looked for


def test_a_file_that_anybody_can_write_is_not_read(file: Path) -> None:
    read(file, "")
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by anybody; chmod o-w"):
        load(file)


def test_somebody_elses_file_in_the_current_folder_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "guideway.toml"
    file.write_text("")
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    else:  # the file stays ours, and we become somebody else
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=r"belongs to user .*; name it with --config guideway\.toml"):
        find(None, {})
    assert find("guideway.toml", {}) == Path("guideway.toml")


def test_the_first_place_that_has_a_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    user, xdg, system = tmp_path / "home", tmp_path / "xdg", tmp_path / "etc"
    monkeypatch.setattr("guideway.server.config_file.SYSTEM_FOLDER", system)
    environment = {"HOME": str(user), "XDG_CONFIG_HOME": str(xdg)}
    assert find(None, environment) is None
    places = [
        (system / "guideway.toml", environment),
        (user / ".config/guideway/guideway.toml", {"HOME": str(user), "XDG_CONFIG_HOME": "relative"}),
        (xdg / "guideway/guideway.toml", environment),
        (Path("guideway.toml"), environment),
        (tmp_path / "named.toml", {**environment, "GUIDEWAY_CONFIG": str(tmp_path / "named.toml")}),
    ]
    for place, variables in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        assert find(None, variables) == place
    assert find("given.toml", places[-1][1]) == Path("given.toml")
