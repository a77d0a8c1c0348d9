"""A cluster's API server: one client for all workloads behind it, whose calls are bounded in time and size.

Owns the connections, and what the library raises. Never knows what an answer means.
"""

import asyncio
import os
import socket
import ssl
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import anyio
import httpx2
from lightkube import ApiError, AsyncClient
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster as Server
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors
from guideway.interpreter.drivers.kubernetes.kubeconfig import read
from guideway.interpreter.drivers.kubernetes.tls import context_of
from guideway.interpreter.drivers.kubernetes.transport import Transport
from guideway.interpreter.results import Reason

#: How long one call may take, in seconds; and how long its connection may take to be made.
CALL_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
_T = TypeVar("_T")


class Lost(Fault):
    """The API server cannot be reached, or did not answer: what was asked may have been done or not."""

    def __init__(self, message: str, output: str = "", mend: str = "") -> None:
        super().__init__(Reason.UNREACHABLE, message, output, mend)


class Refusal(Exception):  # noqa: N818  # the driver makes a ``Fault`` of it
    """An error instead of an answer: its HTTP status, and its text, which is untrusted."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status)
        self.status = status
        self.text = text


class Cluster:
    """A cluster by its kubeconfig and context; without a kubeconfig, the one that this process runs in.

    Whoever asks over it is a member from then on, until they leave; the last one to leave closes the connections.
    """

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._members: set[object] = set()
        self._client: AsyncClient | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, member: object, ask: Callable[[AsyncClient], Awaitable[_T]]) -> _T:
        """Return an answer. Raises ``Refusal`` for an error of the API server's, and ``Fault``."""
        self._members.add(member)
        client = self._client = self._client or _made(read(self._kubeconfig, self._context))
        try:
            with anyio.fail_after(CALL_SECONDS):
                return await ask(client)
        except TimeoutError:
            raise Lost(f"the API server did not answer within {CALL_SECONDS:g} s") from None
        except httpx2.TimeoutException:
            raise Lost("the API server did not answer in time") from None
        except httpx2.HTTPStatusError as error:
            status = error.response.status_code
            if status == 401:  # the kubeconfig may have another token or certificate by now
                self._forget(client)
            raise Refusal(status, (error.status.message or "") if isinstance(error, ApiError) else "") from None
        except httpx2.LocalProtocolError:  # whose text has the token in it
            raise Fault(Reason.UNREACHABLE, "its token has characters in it that no token has") from None
        except httpx2.TransportError as error:
            self._forget(client)
            raise _unreachable(error) from error
        except (ConfigError, OSError, UnicodeError):
            self._forget(client)
            raise Fault(Reason.UNREACHABLE, "the file of its token cannot be read") from None
        except Exception as error:  # whatever the library makes of what it read
            raise Fault(Reason.UNKNOWN, "what answers does not speak as an API server does") from error

    async def leave(self, member: object) -> None:
        """Be a member no more."""
        self._members.discard(member)
        if self._members:
            return
        if self._client is not None:
            self._forget(self._client)
        while self._closing:
            await asyncio.wait(self._closing)  # which cancels nothing when it is cancelled

    def _forget(self, client: AsyncClient) -> None:
        """Use another client from now on. Calls that are out over this one end."""
        if self._client is client:
            self._client = None
            # A task of its own: who asked may be about to be cancelled, and connections must be closed all the same.
            task = asyncio.get_running_loop().create_task(client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _made(config: SingleConfig) -> AsyncClient:
    try:
        transport = Transport(context_of(config))
        return AsyncClient(
            config=_without_tls(config),
            timeout=httpx2.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,
            transport=transport,
            field_manager="guideway",
        )
    except (OSError, ValueError):  # ssl.SSLError is an OSError, binascii.Error a ValueError
        raise Fault(
            Reason.UNREACHABLE, "the kubeconfig cannot be used: a certificate or key of it cannot be read"
        ) from None
    except ConfigError:
        raise Fault(Reason.UNREACHABLE, "the kubeconfig cannot be used: it has no credentials known here") from None


def _without_tls(config: SingleConfig) -> SingleConfig:
    """Return what the library has to know: the transport has the TLS, and loading one that is not used takes 25 ms."""
    user = config.user and User(
        token=config.user.token,
        token_file=config.user.token_file,
        username=config.user.username,
        password=config.user.password,
    )
    return config._replace(cluster=Server(server=config.cluster.server, insecure=True), user=user)


def _unreachable(error: BaseException) -> Fault:
    for one in os_errors(error):
        match one:
            case ssl.SSLCertVerificationError():
                why = "the API server's certificate is not of the authority that was configured for it"
                return Fault(Reason.UNREACHABLE, why)
            case ssl.SSLError():
                return Lost("the API server ended the connection in its TLS handshake")
            case socket.gaierror():
                return Lost("the API server's name cannot be resolved")
            case OSError(errno=int(number)):
                return Lost(f"the API server cannot be reached: {os.strerror(number).lower()}")
            case _:  # what has no number says nothing
                continue
    return Lost("the API server ended the connection without an answer")


_CLUSTERS: weakref.WeakValueDictionary[tuple[Path | None, str | None], Cluster] = weakref.WeakValueDictionary()


def cluster_of(kubeconfig: Path | None, context: str | None) -> Cluster:
    """Return the cluster of a kubeconfig's context, the same one for everybody."""
    cluster = _CLUSTERS.get((kubeconfig, context))
    if cluster is None:
        cluster = _CLUSTERS[kubeconfig, context] = Cluster(kubeconfig, context)
    return cluster
