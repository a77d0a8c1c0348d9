"""How long `guideway check` takes on a small file, against a bare interpreter that only parses its arguments.

Both run from compiled bytecode, as installed programs do: the bytecode goes to a folder of its own and is there before
the first run that counts, whatever PYTHONDONTWRITEBYTECODE says. They run in turns, so that whatever else the
machine does falls on both alike.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from bench import Figure

PROGRAM = (
    'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } '
    'CATCH { RESTART "database" }\n'
)
BARE = "import argparse; p = argparse.ArgumentParser(); p.add_argument('files', nargs='+'); p.parse_args()"
CHECK = "import sys; from guideway.server.cli import main; sys.exit(main())"  # what the installed script says
RUNS = 60
MOST = 1.5


def main() -> list[Figure]:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "small.diag")
        file.write_text(PROGRAM, encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
        commands = ((sys.executable, "-c", BARE, str(file)), (sys.executable, "-c", CHECK, "check", str(file)))
        spent: tuple[list[float], list[float]] = ([], [])
        for run in range(-2, RUNS):
            for command, times in zip(commands, spent, strict=True):
                since = perf_counter()
                subprocess.run(command, env=environment, check=True)
                if run >= 0:
                    times.append(perf_counter() - since)
    bare, check = (median(times) * 1000 for times in spent)
    ratio = check / bare
    return [
        Figure("a bare interpreter with argparse", f"{bare:.1f} ms"),
        Figure("guideway check", f"{check:.1f} ms"),
        Figure("guideway check / bare", f"{ratio:.2f}", f"at most {MOST}", ratio <= MOST),
    ]
