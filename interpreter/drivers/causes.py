"""The operating system's own errors behind a library's exception, and what they say of whoever was to be reached."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.results import Reason

_ROOT: Final = 0


def os_errors(error: BaseException | None) -> Iterator[OSError]:
    """Yield every ``OSError`` with a number behind an exception, through groups, the outermost first."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from os_errors(member)
        if isinstance(error, OSError) and error.errno is not None:
            yield error
        error = error.__cause__ or error.__context__


def unreachable(error: BaseException, who: str, socket: Path | None = None) -> Fault:
    """Return the fault for an exception from a connection to a service manager's socket.

    ``socket`` is where that is on this machine, None where it is on another one, or is none.
    """
    match next((found.errno for found in os_errors(error)), None):
        case None:
            return Fault(Reason.UNREACHABLE, f"{who} closed the connection without an answer")
        case errno.EACCES | errno.EPERM:
            mend = who_may_connect(socket) if socket is not None else ""
            return Fault(Reason.NO_PERMISSION, f"this process may not connect to the socket of {who}", mend=mend)
        case errno.ENOENT:
            mend = f"start it, or name its socket: there is no `{socket}`" if socket is not None else ""
            return Fault(Reason.UNREACHABLE, f"{who} is not there: its socket does not exist", mend=mend)
        case errno.ECONNREFUSED:
            mend = f"start it, or name its socket: nobody listens at `{socket}`" if socket is not None else ""
            return Fault(Reason.UNREACHABLE, f"{who} is not there: nothing listens on its socket", mend=mend)
        case number:
            return Fault(Reason.UNREACHABLE, f"{who} cannot be reached: {os.strerror(number).lower()}")


def who_may_connect(socket: Path) -> str:
    """Return what forbids this process to connect to a socket, as far as modes and owners say, for operators.

    To connect takes leave to write, and to search every folder above (unix(7)). A group is named where its members may,
    and not root's: what else a member of that may do nobody means by it.
    """
    try:
        for folder in (*reversed(socket.parents), None):
            if folder is not None and not os.access(folder, os.X_OK, effective_ids=True):
                return f"this user may not enter the folder {_described(folder)}"
        mode, group = socket.stat().st_mode, socket.stat().st_gid
        described = _described(socket)
    except OSError as error:
        return f"`{socket}` cannot be looked at: {(error.strerror or type(error).__name__).lower()}"
    if mode & stat.S_IWOTH:
        return f"everybody may, so something else forbids it, such as SELinux or AppArmor: {described}"
    if mode & stat.S_IWGRP and group != _ROOT:
        return f"members of the group `{_name(grp.getgrgid, group)}` may: {described}"
    return f"nobody but its owner may: {described}"


def _described(path: Path) -> str:
    """Return a path with its mode, owner and group, as `ls -l` shows them."""
    found = path.stat()
    owner, group = _name(pwd.getpwuid, found.st_uid), _name(grp.getgrgid, found.st_gid)
    return f"`{path}` ({stat.filemode(found.st_mode)} {owner} {group})"


def _name(look_up: Callable[[int], Any], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
