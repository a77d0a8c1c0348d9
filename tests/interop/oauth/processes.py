"""Processes of the tests that say with an object of JSON that they are ready, and end with their test."""

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Environment = Mapping[str, str]

_SECONDS = 20


@contextmanager
def running(command: Sequence[str], environment: Environment) -> Iterator[dict[str, Any]]:
    """Run a process; give what it says first. It is told to stop by the end of its input, and by SIGTERM."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        patience = threading.Timer(_SECONDS * 3, process.kill)
        patience.start()
        try:
            said = _first_object(process.stdout)
            patience.cancel()
            if said is None:
                process.wait(_SECONDS)
                errors.seek(0)
                pytest.fail(f"`{' '.join(command)}` ended with {process.returncode}:\n{errors.read()}", pytrace=False)
            yield said
        finally:
            patience.cancel()
            process.stdin.close()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _first_object(output: Iterable[str]) -> dict[str, Any] | None:
    text = ""
    for line in output:
        text += line
        try:
            said: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError:
            continue
        return said
    return None


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which nothing of this machine's user shows."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **more}
