"""What a socket's error says about the host that was probed."""

import errno
import os
import socket

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors
from guideway.interpreter.results import Reason

# The network or the host itself has answered, or was asked and stayed silent. Every other error (no route, no
# permission, no descriptor, no address of our own) arises before anything is sent, and says nothing about the host.
_ANSWERS = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
    }
)


def fault(error: BaseException, where: str) -> Fault:
    """Return the failure that an exception from connecting or sending stands for.

    ``where`` names what was asked, a port for example. Of several addresses that were tried, one that answered counts.
    """
    errors = list(os_errors(error))
    for found in errors:
        if found.errno == errno.ECONNREFUSED:
            return Fault(Reason.NO_ANSWER, f"connection refused: the host is up, nothing listens on {where}")
    for found in errors:
        if isinstance(found, socket.gaierror):
            return Fault(Reason.CANNOT_PROBE, "the address does not resolve", str(found.strerror))
        if found.errno in _ANSWERS:
            return Fault(Reason.NO_ANSWER, f"no answer from {where}: {_words(found)}")
    if errors:
        return Fault(Reason.CANNOT_PROBE, f"nothing could be sent: {_words(errors[0])}")
    return Fault(Reason.CANNOT_PROBE, f"nothing could be sent: {type(error).__name__}")


def _words(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno is not None else "no error number"
