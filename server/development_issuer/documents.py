"""Client id metadata documents: a client that is an https address tells of itself there.

(draft-ietf-oauth-client-id-metadata-document, which MCP 2025-11-25 asks for.) Whoever asks for access names the
address, so fetching it must not become a way into this network: https only, no redirect, none but public addresses,
and the connection goes to the very address that was checked. Size and time are bounded.
"""

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx2

from guideway.server.development_issuer.client import Client, ClientMetadata, MetadataRefused, read_metadata
from guideway.server.kept import Kept

_MOST_BYTES: Final = 16 * 1024
_SECONDS: Final = 5.0
_KEPT_SECONDS: Final = 300.0
_KEPT_DOCUMENTS: Final = 100

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: an IPv4 address in IPv6's clothes


class DocumentRefused(Exception):  # noqa: N818  # it is an answer, not a fault
    """There is no client behind the address. The message holds no part of what came from it."""


def is_document(client_id: str) -> bool:
    """Say whether a client identifier is the address of a document."""
    return client_id.startswith("https://")


def is_public(address: Address) -> bool:
    """Say whether an address is on the public internet, whatever it is wrapped in."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        if address.sixtofour or address.teredo:
            return False
    return address.is_global and not address.is_multicast


class ClientDocuments:
    """Fetches documents. ``trust`` are the authorities, None the system's; ``may_connect`` says to which addresses."""

    def __init__(
        self, trust: ssl.SSLContext | None = None, *, may_connect: Callable[[Address], bool] = is_public
    ) -> None:
        self._trust = trust
        self._may_connect = may_connect
        self._kept: Kept[str, tuple[float, Client]] = Kept(_KEPT_DOCUMENTS)

    async def client(self, client_id: str) -> Client:
        """Return the client of a document. Raises ``DocumentRefused``. What was good is believed for five minutes."""
        kept = self._kept.get(client_id)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        host, port, path = _read_address(client_id)
        try:
            with anyio.fail_after(_SECONDS):
                text = await self._first(await self._resolve(host, port), host, port, path)
        except (httpx2.HTTPError, OSError, ValueError):  # also TimeoutError and ssl.SSLError
            raise DocumentRefused("its metadata document cannot be fetched") from None
        client = Client(client_id, _read(client_id, text))
        self._kept.keep(client_id, (time.monotonic() + _KEPT_SECONDS, client))
        return client

    async def _resolve(self, host: str, port: int) -> list[Address]:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [ipaddress.ip_address(str(place[0]).partition("%")[0]) for *_, place in found]
        if not addresses or not all(self._may_connect(address) for address in addresses):
            raise DocumentRefused("its metadata document is not on the public internet")
        return addresses

    async def _first(self, addresses: list[Address], host: str, port: int, path: str) -> bytes:
        """Return what the first of the addresses answers that can be connected to."""
        for address in addresses[:-1]:
            try:
                return await self._fetch(address, host, port, path)
            except httpx2.ConnectError:
                continue
        return await self._fetch(addresses[-1], host, port, path)

    async def _fetch(self, address: Address, host: str, port: int, path: str) -> bytes:
        name = f"[{address}]" if address.version == 6 else str(address)
        async with (
            httpx2.AsyncClient(verify=self._trust or True, trust_env=False, timeout=_SECONDS) as http,
            http.stream(
                "GET",
                f"https://{name}:{port}{path}",
                headers={"Host": host if port == 443 else f"{host}:{port}", "Accept": "application/json"},
                extensions={"sni_hostname": host},  # the certificate is the name's, as if the address were the name
            ) as answer,
        ):
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if answer.status_code != 200 or not (kind == "application/json" or kind.endswith("+json")):
                raise DocumentRefused("its metadata document was not answered with JSON")
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise DocumentRefused("its metadata document is too large")
            return bytes(body)


def _read_address(client_id: str) -> tuple[str, int, str]:
    """Return host, port and path of a document's address. Raises ``DocumentRefused``."""
    try:
        parts = urlsplit(client_id)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        raise DocumentRefused("its address is not a URL") from None
    segments = parts.path.split("/")
    if parts.scheme != "https" or not host or parts.path in ("", "/") or {".", ".."} & set(segments):
        raise DocumentRefused("its address must be https and have a path")
    if parts.username is not None or parts.password is not None or parts.query or "#" in client_id:
        raise DocumentRefused("its address must be without user, query and fragment")
    return host, port, parts.path


def _read(client_id: str, text: bytes) -> ClientMetadata:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise DocumentRefused("its metadata document is not JSON") from None
    if not isinstance(document, dict) or document.get("client_id") != client_id:
        raise DocumentRefused("its metadata document tells of another client")
    if "client_secret" in document or document.get("token_endpoint_auth_method", "none") != "none":
        raise DocumentRefused("its metadata document asks for a secret or a key, and clients have none here")
    try:
        return read_metadata(document)
    except MetadataRefused as refusal:
        raise DocumentRefused(f"its metadata document is refused: {refusal}") from None
