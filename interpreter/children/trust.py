"""Is a program one that nobody but its owner and root can replace? Asked of the file and of every folder above it.

The same question as OpenSSH asks of a file of keys (``StrictModes``), with the same answer for a folder that anybody
may write, sticky or not. Access lists count too: what they give beyond the owner shows in the group's bits (acl(5)).
"""

import os
import stat
from typing import Final

_MOST_LINKS: Final = 40  # as many as the kernel follows (path_resolution(7))
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def distrust(program: str) -> str | None:
    """Say why a program must not be run, None where it may. Each link on the way is looked at, and what it leads to.

    ``program`` is an absolute path. The words begin with what is wrong with which file: lower case, no full stop.
    """
    waiting = [part for part in program.split("/") if part][::-1]
    path, links = "/", 0
    try:
        while True:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return f"`{program}` leads through too many links"
                target = os.readlink(path)
                path = "/" if target.startswith("/") else os.path.dirname(path)
                waiting += [part for part in target.split("/") if part][::-1]
                continue
            if (why := _why(path, found, is_last=not waiting)) is not None:
                return why
            if not waiting:
                return None if os.access(path, os.X_OK) else f"`{path}` is not executable"
            part = waiting.pop()
            path = os.path.dirname(path) if part == ".." else os.path.join(path, part if part != "." else "")
            path = path.rstrip("/") or "/"
    except OSError as error:
        return f"`{path}` cannot be looked at: {os.strerror(error.errno or 0).lower()}"


def _why(path: str, found: os.stat_result, *, is_last: bool) -> str | None:
    what = "" if is_last else ", a folder above the program,"
    if found.st_uid not in (0, os.geteuid()):
        return f"`{path}`{what} belongs to user {found.st_uid}: only root and the user of Guideway may own it"
    if found.st_mode & _OTHERS:
        who = "everybody" if found.st_mode & stat.S_IWOTH else "its group"
        mend = "keep the program elsewhere" if found.st_mode & stat.S_ISVTX else f"chmod go-w {path}"
        return f"`{path}`{what} can be written by {who}: {mend}"
    if is_last and not stat.S_ISREG(found.st_mode):
        return f"`{path}` is no file"
    return None
