"""What of Linux Python 3.11 has no call for: prctl(2) and unshare(2). Standard library only: the launcher loads it."""

import ctypes
import os
import sys
from typing import Final

LINUX: Final = sys.platform == "linux"

# Operations of prctl(2).
_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_SET_NO_NEW_PRIVS: Final = 38
# Flags of unshare(2).
NEW_IPC: Final = 0x0800_0000
NEW_USER: Final = 0x1000_0000
NEW_PID: Final = 0x2000_0000


def _call(name: str, *arguments: int) -> None:
    """Make a call of the C library. Raises ``OSError``."""
    library = ctypes.CDLL(None, use_errno=True)
    longs = (ctypes.c_ulong(argument) for argument in arguments[1:])
    if getattr(library, name)(ctypes.c_int(arguments[0]), *longs) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def unshare(flags: int) -> None:
    """Take this process, or for ``NEW_PID`` its next children, into namespaces of their own. Raises ``OSError``."""
    _call("unshare", flags)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, whatever session it is in (Linux 3.4)."""
    _call("prctl", _SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(signal: int) -> None:
    """Have a signal sent to this process when its parent ends. Lost at fork, and when its user changes."""
    _call("prctl", _SET_PDEATHSIG, signal, 0, 0, 0)


def set_dumpable(allowed: bool) -> None:
    """Say whether other processes of this user may look into this one's memory and environment."""
    _call("prctl", _SET_DUMPABLE, int(allowed), 0, 0, 0)


def gain_no_privileges() -> None:
    """See that no exec from here on gives more rights: set-user-ID bits and capabilities of files do nothing."""
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
