"""The operating system's own errors behind a library's exception, and what they say of whoever was to be reached."""

import errno
import os
from collections.abc import Iterator

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.results import Reason


def os_errors(error: BaseException | None) -> Iterator[OSError]:
    """Yield every ``OSError`` with a number behind an exception, through groups, the outermost first."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for member in error.exceptions:
                yield from os_errors(member)
        if isinstance(error, OSError) and error.errno is not None:
            yield error
        error = error.__cause__ or error.__context__


def unreachable(error: BaseException, who: str) -> Fault:
    """Return the fault for an exception from a connection to a service manager's socket."""
    match next((found.errno for found in os_errors(error)), None):
        case None:
            return Fault(Reason.UNREACHABLE, f"{who} closed the connection without an answer")
        case errno.EACCES | errno.EPERM:
            return Fault(Reason.NO_PERMISSION, f"this process may not connect to the socket of {who}")
        case errno.ENOENT:
            return Fault(Reason.UNREACHABLE, f"{who} is not there: its socket does not exist")
        case errno.ECONNREFUSED:
            return Fault(Reason.UNREACHABLE, f"{who} is not there: nothing listens on its socket")
        case number:
            return Fault(Reason.UNREACHABLE, f"{who} cannot be reached: {os.strerror(number).lower()}")
