"""What ``guideway doctor`` says of programs that are run as checks: what this system has to hold them."""

import os
import shutil
from typing import Final

from guideway.interpreter.children.order import ENVIRONMENT, How, Means, Order
from guideway.interpreter.children.run import run
from guideway.server.cli.finding import Finding, Grade
from guideway.server.cli.inventory_target import probe_in, probed_by
from guideway.server.config import Config

_ABOUT: Final = "checks"
_HOLDS: Final = {
    Means.NAMESPACES: "each check has a namespace of processes, which all end with it",
    Means.CGROUP: "each check has a control group: memory and processes of the whole check are bounded",
    Means.SUBREAPER: "processes that a check leaves come back and are ended",
    Means.NO_NEW_PRIVS: "no check gets more rights than it starts with",
}
_LACKS: Final = {
    Means.NAMESPACES: "no namespaces of processes",
    Means.CGROUP: "no control group that bounds all",
    Means.SUBREAPER: "processes that a check leaves do not come back",
    Means.NO_NEW_PRIVS: "a check may get more rights than it starts with",
}
_MEND: Final = "docs/bounds.md says what then cannot be held, and how to have it"


async def look_at_checks(config: Config) -> list[Finding]:
    """Run a program that does nothing, where any is configured, and return what held it."""
    entries = [entry for _, owned in config.entries() for entry in owned.every_host().values()]
    services = [entry for _, owned in config.entries() for entry in owned.every_service().values()]
    count = sum(bool(probed_by(probe_in(entry))) for entry in (*entries, *services))
    if not count:
        return []
    nothing = shutil.which("true", path=ENVIRONMENT["PATH"])
    if nothing is None:
        return [Finding(Grade.NOTE, _ABOUT, "there is no `true` on this machine to try with")]
    try:
        ended = await run(Order(nothing, checked=False))
    except OSError as error:
        return [Finding(Grade.WRONG, _ABOUT, f"no program can be started: {os.strerror(error.errno or 0).lower()}")]
    if (ended.how, ended.number) != (How.EXITED, 0):
        why = f"a program that does nothing does not end well: {ended.why or f'{ended.how} {ended.number}'}"
        return [Finding(Grade.WRONG, _ABOUT, why)]
    held = [_finding(means, ended.missing.get(means)) for means in Means]
    return [Finding(Grade.OK, _ABOUT, f"{count} run programs, each within limits (setrlimit)"), *held]


def _finding(means: Means, missing: str | None) -> Finding:
    if missing is None:
        return Finding(Grade.OK, _ABOUT, f"{means}: {_HOLDS[means]}")
    return Finding(Grade.NOTE, _ABOUT, f"{means}: {_LACKS[means]}: {missing}", _MEND)
