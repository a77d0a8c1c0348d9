"""Files and folders that others prepared for whoever runs a command there.

The story: an operator works in a shared folder, on a machine with another locale, or in a shell that somebody tampered
with. No command may read a configuration that another user chose, or harm a file that it was not meant to change.
"""

import os
import subprocess
from pathlib import Path

import pytest

from guideway.server.cli.command import Exit
from guideway.server.config_errors import ConfigError
from guideway.server.config_file import find
from tests.scripts.session import environment

UGLY = 'TRY{PING "a"}CATCH{} # déjà vu\n'
CANONICAL = 'TRY {\n  PING "a"\n} CATCH {\n}  # déjà vu\n'


def guideway(folder: Path, *arguments: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["guideway", *arguments],
        cwd=folder,
        env=environment(folder) | variables,
        input=text.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16", "utf-8"])
def test_a_program_is_written_as_utf_8_whatever_the_terminal_speaks(tmp_path: Path, encoding: str) -> None:
    ran = guideway(tmp_path, "fmt", "-", text=UGLY, PYTHONIOENCODING=encoding)
    assert ran.stdout.decode("utf-8") == CANONICAL


def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", 'printf "%s" "$1" > pipe', "sh", UGLY], cwd=tmp_path)
    ran = guideway(tmp_path, "fmt", "pipe")
    assert writer.wait(30) == 0
    assert ran.returncode == Exit.USAGE
    assert b"it is no plain file" in ran.stderr
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_a_link_and_its_file_is_formatted(tmp_path: Path) -> None:
    (tmp_path / "real.diag").write_text(UGLY, encoding="utf-8")
    (tmp_path / "real.diag").chmod(0o640)
    (tmp_path / "link.diag").symlink_to("real.diag")
    assert guideway(tmp_path, "fmt", "link.diag").returncode == Exit.OK
    assert (tmp_path / "link.diag").is_symlink()
    assert (tmp_path / "real.diag").read_text(encoding="utf-8") == CANONICAL
    assert (tmp_path / "real.diag").stat().st_mode & 0o777 == 0o640


def test_formatting_at_once_leaves_one_whole_file(tmp_path: Path) -> None:
    (tmp_path / "shared.diag").write_text(UGLY * 500, encoding="utf-8")
    writers = [
        subprocess.Popen(["guideway", "fmt", "shared.diag"], cwd=tmp_path, env=environment(tmp_path)) for _ in range(4)
    ]
    assert {writer.wait(60) for writer in writers} == {Exit.OK}
    assert (tmp_path / "shared.diag").read_text(encoding="utf-8") == CANONICAL * 500
    assert [path.name for path in tmp_path.iterdir()] == ["shared.diag"]


def test_somebody_elses_link_to_a_trusted_file_does_not_choose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the folder cannot write the file, and could still say which of all trusted files is meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guideway.toml").symlink_to("/etc/passwd")  # a file of root's
    assert find(None, {}) == Path("guideway.toml")
    if os.geteuid() == 0:
        os.lchown("guideway.toml", 12345, -1)
    else:  # the link stays ours, and we become somebody else
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match="belongs to user"):
        find(None, {})


@pytest.mark.parametrize("variables", [{"HOME": ""}, {"HOME": "."}, {}, {"HOME": "", "XDG_CONFIG_HOME": ".config"}])
def test_no_variable_makes_the_current_folder_a_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("guideway.server.config_file.SYSTEM_FOLDER", tmp_path / "none")
    (tmp_path / ".config" / "guideway").mkdir(parents=True)
    (tmp_path / ".config" / "guideway" / "guideway.toml").write_text("")
    assert find(None, variables) is None


def test_a_files_name_cannot_forge_a_line(tmp_path: Path) -> None:
    name = "x\nerror: all is lost\x1b[31m"
    for command in (["check", name], ["fmt", name], ["run", name], ["plan", "--config", name, "-"]):
        ran = guideway(tmp_path, *command)
        assert ran.returncode == Exit.USAGE
        assert all(line.isprintable() for line in ran.stderr.decode().splitlines())
        assert ran.stderr.decode().count("\n") == 1
