"""A client, and the metadata that it may come with: the same rules whether it registers or names its document.

Every client is public: it has no secret, and proves itself by PKCE alone. What it says of itself is a claim, and is
shown as one.
"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

from authlib.oauth2.rfc6749 import ClientMixin
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from guideway.dsl.scopes import Scope
from guideway.server.section import is_loopback

GRANT_TYPES: Final = ("authorization_code", "refresh_token")
DEFAULT_SCOPE: Final = Scope.READ
"""What a client is given that does not say what it wants."""

#: Editors whose private-use scheme is not a domain name in reverse, as RFC 8252, section 7.1, asks.
_EDITORS: Final = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf"})

#: RFC 6749, sections 4.1.2 and 4.1.2.1; RFC 9207, section 2.
_ANSWERS: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
_HOST: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")  # it goes into a header of a page
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+")


def check_redirect_uri(uri: str) -> str:
    """Return a redirect URI that a code may be sent to. Raises ``ValueError``.

    Allowed are https, http to this machine (RFC 8252, section 7.3), and private-use schemes that are a domain name in
    reverse (section 7.1). So there is no way to ``javascript:``, ``data:`` or ``file:``. What an answer says must not
    stand there already: the client might read that instead.
    """
    if not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        raise ValueError("must be printable ASCII without spaces")
    parts = urlsplit(uri)
    if "#" in uri or parts.username is not None or parts.password is not None:
        raise ValueError("must be without fragment, user and password")
    _ = parts.port  # raises for one that is none
    if parts.scheme in ("https", "http"):
        if not _HOST.fullmatch(parts.netloc) or (parts.scheme == "http" and not is_loopback(parts.hostname or "")):
            raise ValueError("must be https, or http to a loopback address")
    elif parts.scheme not in _EDITORS and not _SCHEME.fullmatch(parts.scheme):
        raise ValueError("must be https, http to a loopback address, or a scheme such as com.example.app")
    if not _ANSWERS.isdisjoint(name for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ValueError("must be without the parameters that an answer has, such as code and state")
    return uri


RedirectUri = Annotated[str, Field(max_length=2048), AfterValidator(check_redirect_uri)]
Word = Annotated[str, Field(max_length=64)]


class ClientMetadata(BaseModel):
    """What is taken of a client's metadata (RFC 7591, section 2); everything else is left.

    ``scope`` is left too: it would be a ceiling that a client names before it knows what it will need.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    redirect_uris: Annotated[list[RedirectUri], Field(min_length=1, max_length=10)]
    client_name: Annotated[str, Field(max_length=200)] | None = None
    grant_types: Annotated[list[Word], Field(max_length=20)] = ["authorization_code"]
    response_types: Annotated[list[Word], Field(max_length=20)] = ["code"]


class MetadataRefused(ValueError):  # noqa: N818  # it is an answer, not a fault
    """Metadata that no client can have. ``about_redirect`` says which of the errors of RFC 7591 it is."""

    def __init__(self, message: str, *, about_redirect: bool = False) -> None:
        super().__init__(message)
        self.about_redirect = about_redirect


def read_metadata(given: Any) -> ClientMetadata:
    """Return the metadata of a JSON value. Raises ``MetadataRefused``."""
    try:
        metadata = ClientMetadata.model_validate(given)
    except ValidationError as errors:
        error = errors.errors(include_url=False, include_input=False)[0]
        field = str(error["loc"][0]) if error["loc"] else "client metadata"
        # Only what the rules themselves say: no part of the value, and nothing that a header or page must escape.
        reason = str(error["ctx"]["error"]) if error["type"] == "value_error" else error["type"].replace("_", " ")
        raise MetadataRefused(f"{field}: {reason}", about_redirect=field == "redirect_uris") from None
    if "code" not in metadata.response_types or "authorization_code" not in metadata.grant_types:
        raise MetadataRefused("only the authorization code grant is served")
    return metadata


class Client(ClientMixin):
    """A client as Authlib asks about it."""

    def __init__(self, client_id: str, metadata: ClientMetadata) -> None:
        self.client_id = client_id
        self.metadata = metadata

    def __repr__(self) -> str:
        return f"Client({self.client_id!r})"

    @classmethod
    def from_json(cls, client_id: str, text: str) -> "Client":
        """Return the client that ``to_json`` told of."""
        return cls(client_id, ClientMetadata.model_validate(json.loads(text)))

    def to_json(self) -> str:
        """Return the metadata in the form that is kept."""
        return self.metadata.model_dump_json()

    def get_client_id(self) -> str:
        """Return the identifier."""
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        """Return none: where a code is sent must be said in each request."""
        return ""

    def get_allowed_scope(self, scope: Any) -> str:
        """Return those of the scopes asked for that exist, in the order of the scopes; the default where none is named.

        Unknown ones grant nothing and are left out (RFC 6749, section 3.3); Authlib refuses where nothing is left.
        """
        asked = str(scope).split(" ") if scope else [DEFAULT_SCOPE.value]
        # Authlib asks for None where the scope is to be refused, which its stubs leave out.
        return " ".join(scope.value for scope in Scope if scope.value in asked) or None  # type: ignore[return-value]

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Say whether a code may be sent somewhere: character by character, but for the port of a loopback address.

        Native applications cannot know which port they will be given (RFC 8252, section 7.3).
        """
        return redirect_uri in set(self._spellings(redirect_uri))

    def _spellings(self, asked: str) -> Iterator[str]:
        for registered in self.metadata.redirect_uris:
            yield registered
            try:
                parts, port = urlsplit(registered), urlsplit(asked).port
            except ValueError:
                continue
            host = parts.hostname or ""
            if parts.scheme == "http" and is_loopback(host):
                name = f"[{host}]" if ":" in host else host
                yield parts._replace(netloc=name if port is None else f"{name}:{port}").geturl()

    def check_client_secret(self, client_secret: str) -> bool:  # noqa: ARG002  # there is none
        """Refuse: no client has a secret."""
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002  # the same everywhere
        """Say whether a client may authenticate in a way: only in none."""
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        """Say whether a client may ask for a response type."""
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        """Say whether a client may use a grant type: one that is served, and that it named."""
        return grant_type in GRANT_TYPES and grant_type in self.metadata.grant_types
