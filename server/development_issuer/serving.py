"""Starts and stops the issuer: on this machine's loopback address, for a resource on this machine, and no other way."""

from contextlib import closing
from typing import Final
from urllib.parse import urljoin, urlsplit

import anyio
from anyio.abc import TaskStatus

from guideway.server.approvals.paths import DEVELOPMENT_CLIENT, SIGNED_IN
from guideway.server.development_issuer.app import issuer_app
from guideway.server.development_issuer.authorization import Authorization
from guideway.server.development_issuer.client import Client, ClientMetadata
from guideway.server.development_issuer.documents import ClientDocuments
from guideway.server.development_issuer.folder import default_folder, open_folder
from guideway.server.development_issuer.keys import load_key
from guideway.server.development_issuer.sign_in import SignIn
from guideway.server.development_issuer.store import Store
from guideway.server.development_issuer.tokens import AccessTokens
from guideway.server.http_server import HttpServer
from guideway.server.listen import listen
from guideway.server.section import is_loopback
from guideway.server.sections import DevelopmentIssuerSection

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
        store.keep_client(approval_page(resource))
        tokens = AccessTokens(keys, issuer=url, seconds=section.token_seconds)
        authorization = Authorization(store, tokens, issuer=url, resource=resource, people=section.people)
        app = issuer_app(
            authorization,
            SignIn(sign_in_code),
            documents or ClientDocuments(),
            keys,
            token_seconds=section.token_seconds,
        )
        http = HttpServer(app, lifespan="off")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_end, http)
            tasks.start_soon(http.tell_when_listening, url, task_status)
            with anyio.CancelScope(shield=True):
                await http.serve(sockets=[listener])
            tasks.cancel_scope.cancel()


def approval_page(resource: str) -> Client:
    """Return the client that the approval page of a resource is: it stands beside the endpoint."""
    redirect_uri = urljoin(resource, SIGNED_IN.lstrip("/"))
    return Client(
        DEVELOPMENT_CLIENT, ClientMetadata(redirect_uris=[redirect_uri], client_name="Guideway's approval page")
    )


async def _end(http: HttpServer) -> None:
    """End the server when this task is cancelled."""
    try:
        await anyio.sleep_forever()
    finally:
        http.should_exit = True
