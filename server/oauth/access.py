"""What HTTP needs to know to let callers in: who verifies tokens, for which resource, and whose tokens they are."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin, urlsplit

from guideway.server.oauth.verified import Verifier
from guideway.server.sections import ENDPOINT, IssuerSection

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class PageClient:
    """What the approval page is at an issuer: a client of its own. Without a secret it proves itself by PKCE alone."""

    issuer: IssuerSection
    client_id: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """The way in for those who show a token.

    ``resource`` is the endpoint's URL as clients know it, which tokens must be for (RFC 8707). ``issuers`` has at least
    one; whoever comes without a token is sent to the first. ``page`` is None where people cannot sign in to a page.
    """

    verifier: Verifier
    resource: str
    issuers: tuple[IssuerSection, ...]
    page: PageClient | None = None

    @property
    def metadata_url(self) -> str:
        """Where clients find the metadata of the resource."""
        parts = urlsplit(self.resource)
        return f"{parts.scheme}://{parts.netloc}{metadata_path(parts.path)}"

    def url(self, path: str) -> str:
        """Return the URL of a path of this server as clients know it: beside the endpoint, wherever that is."""
        return self.resource if path == ENDPOINT else urljoin(self.resource, path.lstrip("/"))


def metadata_path(path: str) -> str:
    """Return the path of the metadata of a resource at a path: RFC 9728, section 3.1."""
    return _WELL_KNOWN + path.removesuffix("/") if path == "/" else _WELL_KNOWN + path
