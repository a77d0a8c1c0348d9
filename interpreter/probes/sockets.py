"""How a host's name is looked up and its port connected to, and what a socket's error says about the host.

A name server that keeps silent says nothing about the host: until its address is known, nothing has been sent to it.
A name is looked up once, and what was found is what is connected to: an answer that was looked at is the one that is
used.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors
from guideway.interpreter.probes.addresses import Family, Reach, objection, parse
from guideway.interpreter.results import Reason

_FAMILIES: Final = {Family.ANY: socket.AF_UNSPEC, Family.IPV4: socket.AF_INET, Family.IPV6: socket.AF_INET6}

# A lookup ends so long before the deadline of whoever probes, or a tenth of it: in time to say that it was the lookup.
_SPARE_SECONDS: Final = 0.05
# Of a name with more addresses than this the others are not tried: what one PING may open is bounded.
_MOST_ADDRESSES: Final = 8
_NEXT_SECONDS: Final = 0.25  # RFC 8305, section 5
#: Lookups that are under way in this process, those among them that nobody waits for any more; others wait their turn.
MOST_LOOKUPS: Final = 256
_PLACES: Final = threading.BoundedSemaphore(MOST_LOOKUPS)
_FULL_SECONDS: Final = 0.02  # until it is tried again where there are so many


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address with a port, as the socket calls of its family take it."""

    family: socket.AddressFamily
    name: tuple[Any, ...]


def time_left() -> float:
    """Return how many seconds may still be spent, so that there is time to say what came of it; may be infinite."""
    seconds = anyio.current_effective_deadline() - anyio.current_time()
    return max(0.0, seconds - min(_SPARE_SECONDS, seconds / 10))


async def resolve(host: str, port: int, reach: Reach) -> list[Address]:
    """Return the addresses that may be sent to, at least one, in the system's order of preference (RFC 6724).

    Raises ``Fault`` (``cannot_probe``), before any deadline.
    """
    with anyio.move_on_after(time_left()):
        try:
            found = await _look_up(host, port, _FAMILIES[reach.family])
        except OSError as error:
            raise fault(error, "the host", sent=False) from error
        return _allowed(found, reach)
    raise Fault(Reason.CANNOT_PROBE, "the address was not resolved in time")


def _allowed(found: Sequence[Any], reach: Reach) -> list[Address]:
    """Return those of the addresses that may be sent to, each once."""
    allowed: dict[Any, Address] = {}
    objections = []
    for family, _, _, _, name in found:
        why = objection(ipaddress.ip_address(name[0]), link_local=reach.link_local)
        if why is None:
            allowed.setdefault(name, Address(family, name))
        else:
            objections.append(f"`{name[0]}`, which {why}")
    if not allowed:
        raise Fault(Reason.CANNOT_PROBE, f"the address resolves to {objections[0]}")
    return list(allowed.values())[:_MOST_ADDRESSES]


async def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Any]:
    """Ask the system for the addresses of a host. A lookup cannot be stopped; nobody waits for one that was given up:
    the threads of the event loop's own would keep the process, and each other's turn, until the resolver gives up too.
    Since nobody can stop them, there are only so many.
    """
    if parse(host) is not None:  # asks nobody
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    while not _PLACES.acquire(blocking=False):  # noqa: ASYNC110  # it is of all event loops, and given back by threads
        await anyio.sleep(_FULL_SECONDS)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def settle(settled: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            settled(value)

    def ask() -> None:
        result: tuple[Callable[[Any], None], Any]
        try:
            result = answer.set_result, socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001  # it is raised where it is waited for
            result = answer.set_exception, error
        _PLACES.release()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *result)

    try:
        threading.Thread(target=ask, name=f"lookup of {host}", daemon=True).start()
    except RuntimeError as error:  # the system has no thread left
        _PLACES.release()
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
    return await answer


async def connect(addresses: Sequence[Address], where: str) -> tuple[socket.socket, float]:
    """Return a connected socket, and the seconds that connecting it took. Raises ``Fault``.

    The addresses are tried in their order, the next one when one has failed or is not there after a quarter second
    (RFC 8305, "happy eyeballs"); the first that accepts counts. ``where`` names the port in messages.
    """
    connected: list[tuple[socket.socket, float]] = []
    faults: list[Fault] = []

    async def attempt(address: Address, over: anyio.Event) -> None:
        try:
            connected.append(await _connect(address, where))
            tasks.cancel_scope.cancel()
        except Fault as failed:
            faults.append(failed)
            over.set()

    try:
        async with anyio.create_task_group() as tasks:
            for address in addresses:
                over = anyio.Event()
                tasks.start_soon(attempt, address, over)
                with anyio.move_on_after(_NEXT_SECONDS):
                    await over.wait()
        if not connected:
            # What was answered says more about the host than what could not be sent.
            raise next((one for one in faults if one.reason is Reason.NO_ANSWER), faults[0])
        return connected.pop(0)
    finally:
        for late, _ in connected:
            late.close()


async def _connect(address: Address, where: str) -> tuple[socket.socket, float]:
    try:
        opened = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        raise fault(error, where, sent=False) from error
    try:
        opened.setblocking(False)
        began = anyio.current_time()
        try:
            opened.connect(address.name)
        except BlockingIOError:
            pass
        except OSError as error:  # at once: it did not leave this machine
            raise fault(error, where, sent=False) from error
        await anyio.wait_writable(opened)
        seconds = anyio.current_time() - began
        if number := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise fault(OSError(number, os.strerror(number)), where)  # noqa: TRY301  # the socket is closed for it too
    except BaseException:
        opened.close()
        raise
    return opened, seconds


def fault(error: BaseException, where: str, *, sent: bool = True) -> Fault:
    """Return the failure that an exception from looking up, connecting or sending stands for.

    ``where`` names what was asked, a port for example. Once something was sent, an error is the word of the network or
    the host, or of nobody on the link; any before (no route, no permission, no descriptor) says nothing about the host.
    """
    errors = list(os_errors(error))
    for found in errors:
        if isinstance(found, socket.gaierror):
            return Fault(Reason.CANNOT_PROBE, "the address does not resolve", str(found.strerror))
        if found.errno == errno.ECONNREFUSED:
            return Fault(Reason.NO_ANSWER, f"connection refused: the host is up, nothing listens on {where}")
    if sent and errors:
        return Fault(Reason.NO_ANSWER, f"no answer from {where}: {words(errors[0])}")
    what = words(errors[0]) if errors else type(error).__name__
    return Fault(Reason.CANNOT_PROBE, f"nothing could be sent: {what}")


def words(error: OSError) -> str:
    """Return the system's words for an error."""
    return os.strerror(error.errno).lower() if error.errno is not None else "no error number"
