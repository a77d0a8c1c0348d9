"""What a socket's error says about the host that was probed, and how its name is looked up.

A name server that keeps silent says nothing about the host: until its address is known, nothing has been sent to it.
"""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio

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


# A lookup ends so long before the deadline of whoever probes, or a tenth of it: in time to say that it was the lookup.
_SPARE_SECONDS: Final = 0.05


async def resolve(address: str) -> tuple[int, str]:
    """Return the family and the first address of a host. Raises ``Fault`` (``cannot_probe``), before any deadline."""
    seconds = anyio.current_effective_deadline() - anyio.current_time()
    with anyio.move_on_after(seconds - min(_SPARE_SECONDS, seconds / 10)):
        try:
            found = await _look_up(address)
        except OSError as error:
            raise fault(error, "the host") from error
        return found[0][0], str(found[0][4][0])
    raise Fault(Reason.CANNOT_PROBE, "the address was not resolved in time")


async def _look_up(address: str) -> list[Any]:
    """Ask the system for the addresses of a host. A lookup cannot be stopped; nobody waits for one that was given up:
    the threads of the event loop's own would keep the process, and each other's turn, until the resolver gives up too.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def settle(settled: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            settled(value)

    def ask() -> None:
        result: tuple[Callable[[Any], None], Any]
        try:
            result = answer.set_result, socket.getaddrinfo(address, None, type=socket.SOCK_DGRAM)
        except Exception as error:  # noqa: BLE001  # it is raised where it is waited for
            result = answer.set_exception, error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *result)

    threading.Thread(target=ask, name=f"lookup of {address}", daemon=True).start()
    return await answer


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
