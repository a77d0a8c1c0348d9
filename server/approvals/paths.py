"""Where page and API stand, and by which name the development issuer knows the page. Loads nothing."""

from typing import Final
from urllib.parse import urljoin

PAGE: Final = "/approvals"
API: Final = "/api/approvals"

SIGNED_IN: Final = f"{PAGE}/signed-in"
"""Where an issuer sends browsers back to."""

DEVELOPMENT_CLIENT: Final = "guideway-approval-page"


def api_of(server: str) -> str:
    """Return where the API of a server stands whose endpoint is at a URL: beside it."""
    return urljoin(server, API.lstrip("/"))
