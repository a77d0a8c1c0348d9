"""Containers of every kind that a restart can meet: those that work, and each way in which one does not."""

from typing import Any

_SERVES = 'trap "exit 0" TERM; echo ready; sleep 100000 & wait'
_SECOND = 1_000_000_000


def _container(*command: str, **settings: Any) -> dict[str, Any]:
    return {"Cmd": list(command), "StopTimeout": 1, **settings}


def _shell(script: str, **settings: Any) -> dict[str, Any]:
    return _container("sh", "-c", script, **settings)


def _checked(script: str, seconds: float = 0.1, **settings: Any) -> dict[str, Any]:
    """Return the settings of a health check that is unhealthy at its first failure."""
    check = {"Test": ["CMD-SHELL", script], "Interval": int(seconds * _SECOND), "Retries": 1}
    return {"Healthcheck": {**check, **settings}}


RETURNS: dict[str, Any] = {"HostConfig": {"RestartPolicy": {"Name": "always"}}}
#: Process 1 of a container gets no signal that it has no handler for, so that this one ignores SIGTERM.
IGNORES = ("sleep", "100000")

CONTAINERS: dict[str, dict[str, Any]] = {
    "good": _shell(_SERVES),
    "other": _shell(_SERVES),
    "quick": _container(*IGNORES, StopTimeout=0),  # killed at once
    "never": _shell(_SERVES),
    "terminated": _shell(_SERVES.replace("exit 0", "exit 143")),
    "removed": _shell(_SERVES, HostConfig={"AutoRemove": True}),
    "terminal": _shell("echo on a terminal; exec sleep 100000", Tty=True),
    # has a health check
    "healthy": _shell(_SERVES, **_checked("exit 0")),
    "unhealthy": _shell(_SERVES, **_checked("echo no such table; exit 1")),
    "recovers": _shell(
        'trap "exit 0" TERM; rm -f /tmp/well; sleep 0.6; touch /tmp/well; sleep 100000 & wait',
        **_checked("test -e /tmp/well"),
    ),
    "unchecked": _shell(_SERVES, **_checked("exit 0", seconds=3600)),
    # ends by itself
    "missing": _container("/nonexistent/program"),
    "no_user": _shell(_SERVES, User="nosuchuser"),
    "dies_at_once": _shell("echo no such database >&2; exit 3"),
    "dies_later": _shell("echo started; sleep 0.5; echo no such database >&2; exit 3"),
    "dies_unchecked": _shell("sleep 0.5; exit 3", **_checked("exit 0", seconds=3600)),
    "leaves": _shell("sleep 0.3; exit 0"),
    "task": _shell("exit 0"),
    "hungry": _container("tail", "/dev/zero", HostConfig={"Memory": 8 * 1024 * 1024, "MemorySwap": 8 * 1024 * 1024}),
    # and is started again
    "returns": _shell("sleep 0.3; exit 3", **RETURNS),
    "returns_at_once": _shell("exit 3", **RETURNS),
    "returns_unchecked": _shell("sleep 0.3; exit 3", **RETURNS, **_checked("exit 0", seconds=3600)),
    "returns_sick": _shell("sleep 0.3; exit 3", **RETURNS, **_checked("exit 1")),
    # takes too long
    "stubborn": _container(*IGNORES, StopTimeout=600),
    "dragging": _container(*IGNORES),
    # writes
    "wordy": _shell("i=0; while [ $i -lt 900 ]; do echo äöü€𝄞$i; i=$((i+1)); done; exit 3"),
    "endless": _shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 3"),
    "binary": _shell("printf '\\377\\376\\033[31mred\\n'; exit 3"),
}
