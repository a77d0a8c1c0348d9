"""Sessions with a shell, as text: which files there are, what is typed, and what comes back.

A session starts with a line that says what it shows. Then come files, each under ``== NAME``, and at the end, under
``== session``, commands behind ``$``. What a command must write stands below it: standard output as it is, then
standard error behind ``! ``, then ``[N]`` where it must not end with 0. ``<*>`` stands for anything within a line.

``python -m tests.scripts.session FILE…`` prints sessions with what their commands write now.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ANYTHING = "<*>"


@dataclass(frozen=True)
class Turn:
    """One command and what it must write, in lines."""

    command: str
    expected: tuple[str, ...]


@dataclass(frozen=True)
class Session:
    """A session as it stands in its file."""

    head: str
    files: dict[str, str]
    turns: tuple[Turn, ...]


def read(path: Path) -> Session:
    """Return the session of a file."""
    head, *sections = re.split(r"^== (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = dict(zip(sections[::2], sections[1::2], strict=True))
    _, *turns = re.split(r"^\$ (.*)\n", named.pop("session"), flags=re.MULTILINE)
    return Session(
        head,
        named,
        tuple(
            Turn(command, tuple(written.rstrip("\n").split("\n")) if written.strip() else ())
            for command, written in zip(turns[::2], turns[1::2], strict=True)
        ),
    )


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of this machine's user or terminal shows."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "COLUMNS": "80",
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), f"guideway-bytecode-{os.getuid()}")),
    }


def lay_out(session: Session, folder: Path) -> None:
    """Write a session's files into a folder."""
    for name, text in session.files.items():
        (folder / name).write_text(text, encoding="utf-8")


def say(command: str, folder: Path, home: Path, **variables: str) -> list[str]:
    """Run a command in a shell; return what it wrote, as a session writes that down."""
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**environment(home), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    out, err = ran.stdout.decode(), ran.stderr.decode()
    return [
        *out.removesuffix("\n").split("\n" if out else None),
        *(f"! {line}" for line in err.removesuffix("\n").split("\n" if err else None)),
        *([f"[{ran.returncode}]"] if ran.returncode else []),
    ]


def matches(line: str, expected: str) -> bool:
    """Say whether a line is as expected."""
    return re.fullmatch(".*".join(re.escape(part) for part in expected.split(ANYTHING)), line) is not None


def main(paths: list[str]) -> None:
    """Print sessions as they go now."""
    for path in paths:
        session = read(Path(path))
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
            lay_out(session, Path(folder))
            print(session.head, end="")
            for name, text in session.files.items():
                print(f"== {name}\n{text}", end="")
            print("== session")
            for turn in session.turns:
                print(f"$ {turn.command}")
                for line in say(turn.command, Path(folder), Path(home)):
                    print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
