"""Starts and stops the issuer: on this machine's loopback address, for a resource on this machine, and no other way."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final
from urllib.parse import urlsplit

import anyio
import uvicorn
from anyio.abc import TaskStatus

from guideway.server.development_issuer.app import issuer_app
from guideway.server.development_issuer.authorization import Authorization
from guideway.server.development_issuer.documents import ClientDocuments
from guideway.server.development_issuer.folder import default_folder, open_folder
from guideway.server.development_issuer.keys import load_key
from guideway.server.development_issuer.sign_in import SignIn
from guideway.server.development_issuer.store import Store
from guideway.server.development_issuer.tokens import AccessTokens
from guideway.server.listen import listen
from guideway.server.sections import DevelopmentIssuerSection, is_loopback

HOST: Final = "127.0.0.1"


def issuer_url(port: int) -> str:
    """Return the URL by which an issuer is known, and which its tokens name: without a slash at its end."""
    return f"http://{HOST}:{port}"


async def serve(
    section: DevelopmentIssuerSection,
    *,
    resource: str,
    sign_in_code: str,
    host: str = HOST,
    documents: ClientDocuments | None = None,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the issuer until this task is cancelled. The task status is given its URL once it is listening.

    ``resource`` is the URL of the one server that its tokens are for. Whoever shows ``sign_in_code`` may be any of the
    section's people.

    Raises ``ValueError`` for another address than loopback, ``StateError`` where the state folder cannot be used, and
    ``OSError`` where the port cannot be bound.
    """
    if host != HOST:
        raise ValueError(f"the development issuer is served on {HOST} only, not on `{host}`")
    if not is_loopback(urlsplit(resource).hostname or ""):
        raise ValueError(f"the development issuer serves loopback only, and `{resource}` is reached from elsewhere")
    folder = open_folder(section.state_folder or default_folder())
    keys = load_key(folder)
    with listen(HOST, section.port) as listener, closing(Store(folder / "state.sqlite")) as store:
        url = issuer_url(listener.getsockname()[1])
        tokens = AccessTokens(keys, issuer=url, seconds=section.token_seconds)
        authorization = Authorization(store, tokens, issuer=url, resource=resource, people=section.people)
        app = issuer_app(
            authorization,
            SignIn(sign_in_code),
            documents or ClientDocuments(),
            keys,
            token_seconds=section.token_seconds,
        )
        http = _Uvicorn(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end, http)
            tasks.start_soon(_tell_when_listening, http, url, task_status)
            with anyio.CancelScope(shield=True):
                await http.serve(sockets=[listener])
            tasks.cancel_scope.cancel()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the program around it, and says when it is listening."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _tell_when_listening(http: _Uvicorn, url: str, task_status: TaskStatus[str]) -> None:
    await http.listening.wait()
    task_status.started(url)


async def _end(http: _Uvicorn) -> None:
    """End the server when this task is cancelled."""
    try:
        await anyio.sleep_forever()
    finally:
        http.should_exit = True
