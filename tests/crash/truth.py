"""What really happened, outside of the store: a file to which each process appends, one write a line.

A line is on its way to the disk's cache when the write returns, so that it outlives whoever is killed then. Moments are
seconds of the machine's monotonic clock, which is the same in all processes.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FAR: Final = float("inf")


class Writer:
    """Appends lines; ``process`` is the number of the replica that does."""

    def __init__(self, path: Path, process: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._process = process

    def write(self, what: str, **facts: Any) -> None:
        """Append a line."""
        line = {"what": what, "at": time.monotonic(), "process": self._process, **facts}
        os.write(self._file, f"{json.dumps(line)}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass
class Effect:
    """A restart of a service as its driver saw it. ``ended`` is when it, or its process, was over at the earliest.

    ``how`` is how it ended: done, failed or cancelled; None where it did not, or has not yet.
    """

    run: str
    process: int
    service: str
    key: str
    bounds: Sequence[str]
    began: float
    ended: float = FAR
    how: str | None = None


@dataclass
class Answer:
    """What a caller was told. ``restarts`` has the service, outcome and reason of each restart's step."""

    run: str
    process: int
    at: float
    seconds: float
    status: str
    code: str | None
    does: str
    restarts: Sequence[tuple[str, str, str | None]]
    ticket: str | None


@dataclass
class Truth:
    """All that happened until the last ``read``. ``decided`` says of tickets what an approver was about to say."""

    path: Path
    effects: list[Effect] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    decided: dict[str, set[bool]] = field(default_factory=lambda: defaultdict(set))
    killed: dict[int, float] = field(default_factory=dict)
    lines: int = 0
    failed: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    _read: int = 0
    _open: dict[tuple[int, int], Effect] = field(default_factory=dict)

    def read(self) -> None:
        """Read on. The last line may be under way."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        process, at = line.pop("process"), line.pop("at")
        self.lines += 1
        match line.pop("what"):
            case "begin":
                number = line.pop("number")
                effect = Effect(process=process, began=at, **line)
                self.effects.append(effect)
                self._open[process, number] = effect
            case "end":
                effect = self._open.pop((process, line["number"]))
                effect.ended, effect.how = at, line["how"]
            case "answer":
                self.answers.append(Answer(process=process, at=at, **line))
            case "decide":
                self.decided[line["ticket"]].add(line["approve"])
            case "failed":
                self.failed.append(line["error"])
            case "freed":
                self.freed.extend(line["places"])
            case "stuck":
                self.stuck.append(line["place"])
            case "killed":  # what was open ended then, or later
                self.killed[line["victim"]] = line["sent"]
                for key in [key for key in self._open if key[0] == line["victim"]]:
                    effect = self._open.pop(key)
                    effect.ended = max(effect.began, line["sent"])
            case what:
                raise ValueError(what)
