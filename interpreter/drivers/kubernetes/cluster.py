"""A cluster's API server: one client for all workloads behind it, whose calls are bounded in time and size.

Owns the connections, and what the library raises. Never knows what an answer means.
"""

import asyncio
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
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
from guideway.interpreter.results import Reason

#: How long one call may take, in seconds; and how long its connection may take to be made.
CALL_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
#: How many bytes an answer may have: an object of Kubernetes has at most 1.5 MiB, and a list is asked for in parts.
LARGEST_ANSWER: Final = 8 << 20
#: How many calls are out at once; others wait for their turn.
CONNECTIONS: Final = 8

_T = TypeVar("_T")


class Lost(Fault):
    """The API server cannot be reached, or did not answer: what was asked may have been done or not."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNREACHABLE, message)


class Refusal(Exception):  # noqa: N818  # the driver makes a ``Fault`` of it
    """An error instead of an answer: its HTTP status, and its text, which is untrusted."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status)
        self.status = status
        self.text = text


class _TooLongError(Exception):
    pass


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > LARGEST_ANSWER:
                raise _TooLongError
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """HTTP whose answers are bounded. They come as they are: what is compressed has no bound."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.aclose()
            raise _TooLongError
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream)
        return response


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
        transport = _Transport(
            verify=context_of(config), trust_env=False, limits=httpx2.Limits(max_connections=CONNECTIONS)
        )
        return AsyncClient(
            config=_without_certificates(config),  # the transport has them
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


def _without_certificates(config: SingleConfig) -> SingleConfig:
    user = config.user and User(
        token=config.user.token,
        token_file=config.user.token_file,
        username=config.user.username,
        password=config.user.password,
    )
    return config._replace(cluster=Server(server=config.cluster.server), user=user)


def _unreachable(error: BaseException) -> Fault:
    found = list(os_errors(error))
    for one in found:
        if isinstance(one, ssl.SSLCertVerificationError):
            return Fault(
                Reason.UNREACHABLE, "the API server's certificate is not of the authority that was configured for it"
            )
        if isinstance(one, ssl.SSLError):
            return Lost("the API server ended the connection in its TLS handshake")
    if not found:
        return Lost("the API server ended the connection without an answer")
    return Lost(f"the API server cannot be reached: {(found[-1].strerror or 'an error of the network').lower()}")


_CLUSTERS: weakref.WeakValueDictionary[tuple[Path | None, str | None], Cluster] = weakref.WeakValueDictionary()


def cluster_of(kubeconfig: Path | None, context: str | None) -> Cluster:
    """Return the cluster of a kubeconfig's context, the same one for everybody."""
    return _CLUSTERS.setdefault((kubeconfig, context), Cluster(kubeconfig, context))
