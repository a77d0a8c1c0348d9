"""What is kept of one server's sign-in, as requests need it: a token that still lasts, renewed by one shell at a time.

A refresh token is good once (OAuth 2.1, section 4.3.1): two shells that used one would have an issuer revoke all that
came from it. So it is used under a lock that the whole machine shares, and what came of it is kept before all else.
"""

from base64 import b64encode
from typing import Final
from urllib.parse import quote

import anyio
import httpx2
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from guideway.server.sign_in.entry import MARGIN, Entry
from guideway.server.sign_in.errors import ServerError, SignInError
from guideway.server.sign_in.servers import client, explain, facts, require_private, said
from guideway.server.sign_in.store import TokenStore

_SECONDS: Final = 20.0  # that one renewal may take; Ctrl-C waits for it, or the new token would be lost


class Session:
    """The sign-in at one server. ``ca_file`` is whom to trust beside the system's authorities."""

    def __init__(self, server: str, store: TokenStore, ca_file: str | None = None) -> None:
        self.server = server
        self.store = store
        self.ca_file = ca_file

    async def current(self) -> Entry | None:
        """Return what is kept, renewed where it is about to end; None where nothing is, or nothing that lasts.

        Raises ``SignInError``.
        """
        entry = self.store.read(self.server)
        if entry is None or entry.lasts(MARGIN):
            return entry
        renewed = await self.renewed(entry)
        return renewed or (entry if entry.lasts() else None)

    async def renewed(self, used: Entry) -> Entry | None:
        """Return the entry with another access token than ``used`` has; None where a person must sign in again.

        Raises ``SignInError`` where the issuer cannot be asked.
        """
        async with self.store.lock(self.server):
            entry = self.store.read(self.server)
            if entry is None:
                return None
            if entry.tokens.access_token != used.tokens.access_token and entry.lasts(MARGIN):
                return entry  # another shell was first
            if entry.tokens.refresh_token is None:
                return None
            try:
                with anyio.fail_after(_SECONDS, shield=True):
                    return await self._renew(entry)
            except TimeoutError:
                raise ServerError(f"`{entry.issuer}` did not renew the token within {_SECONDS:.0f} seconds") from None

    async def keep(self, entry: Entry) -> None:
        """Keep a new entry."""
        with anyio.CancelScope(shield=True):
            async with self.store.lock(self.server):
                self.store.write(entry)

    async def revoke(self, entry: Entry) -> bool:
        """Ask the issuer to revoke the tokens (RFC 7009); say whether it can. Raises ``SignInError`` if it did not."""
        endpoint = entry.metadata.revocation_endpoint
        if endpoint is None:
            return False
        # The refresh token first: it is the one that lasts, and many issuers revoke all that came from it.
        held = (("refresh_token", entry.tokens.refresh_token), ("access_token", entry.tokens.access_token))
        for hint, token in held:
            if token is None:
                continue
            response = await self._post(str(endpoint), entry, {"token": token, "token_type_hint": hint})
            # An issuer that cannot revoke access tokens may say so (RFC 7009, section 2.2.1); they end by themselves.
            if response.status_code != 200 and not (
                hint == "access_token" and _error(response) == "unsupported_token_type"
            ):
                raise SignInError(f"`{entry.issuer}` did not revoke the tokens: {said(response)}")
        return True

    async def _renew(self, entry: Entry) -> Entry | None:
        refresh = {"grant_type": "refresh_token", "refresh_token": entry.tokens.refresh_token or ""}
        response = await self._post(str(entry.metadata.token_endpoint), entry, refresh | {"resource": entry.resource})
        match response.status_code, _error(response):
            case 200, _:
                try:
                    renewed = entry.renewed(OAuthToken.model_validate_json(response.content))
                except ValidationError:  # whose text would quote the answer
                    raise ServerError(f"`{entry.issuer}` renewed the token and gave none that can be read") from None
                self.store.write(renewed)
                return renewed
            case _, "invalid_grant":  # it has ended, was revoked, or was used before
                self.store.write(entry.without_renewal())
                return None
            case _, "invalid_client" | "unauthorized_client":  # the registration has ended, and all with it
                self.store.remove(self.server)
                return None
            case _:
                raise ServerError(f"`{entry.issuer}` did not renew the token: {said(response)}", "try again in a while")

    async def _post(self, endpoint: str, entry: Entry, form: dict[str, str]) -> httpx2.Response:
        require_private(endpoint, self.server)
        form, headers = authenticated(entry.client, form)
        try:
            async with client(self.server, self.ca_file) as http:
                return await http.post(endpoint, data=form, headers=headers)
        except httpx2.TransportError as error:
            raise explain(error, self.server) or error from None


def authenticated(client: OAuthClientInformationFull, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a form, and headers, with which a client tells an issuer who it is (RFC 6749, section 2.3.1)."""
    named = form | {"client_id": client.client_id}
    match client.token_endpoint_auth_method, client.client_secret:
        case "client_secret_post", str(secret):
            return named | {"client_secret": secret}, {}
        case "client_secret_basic", str(secret):
            pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
            return named, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        case _:
            return named, {}


def metadata(redirect_uri: str) -> OAuthClientMetadata:
    """Return what is registered of this client (RFC 7591): a program on a person's machine, without a secret."""
    return OAuthClientMetadata(
        client_name="Guideway",
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="none",  # noqa: S106  # the name of a method
    )


def _error(response: httpx2.Response) -> str | None:
    error = facts(response).get("error") if response.status_code >= 400 else None
    return error if isinstance(error, str) else None
