"""What a server asks for in a 401 or a 403 (RFC 6750, section 3; RFC 9728, section 5.1), read with caution."""

import re
from typing import Final

import httpx2
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
)

from guideway.dsl.record import Record
from guideway.server.sign_in.entry import words
from guideway.server.sign_in.servers import facts

#: RFC 6749, section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


class Challenge(Record):
    """``wants_more``: the token is good, and its scopes are too few.

    ``scopes`` are in the issuer's words; ``required`` and ``missing`` as the server's own language has them.
    """

    wants_more: bool
    scopes: tuple[str, ...]
    description: str | None
    resource_metadata: str | None
    dpop: bool
    required: tuple[str, ...]
    missing: tuple[str, ...]

    def response(self, request: httpx2.Request, scopes: tuple[str, ...]) -> httpx2.Response:
        """Return the same challenge as a response that asks for ``scopes``."""
        parts = [
            *(['error="insufficient_scope"'] if self.wants_more else []),
            *([f'scope="{" ".join(scopes)}"'] if scopes else []),
            *([f'resource_metadata="{self.resource_metadata}"'] if self.resource_metadata else []),
        ]
        header = f"Bearer {', '.join(parts)}".strip()
        return httpx2.Response(
            403 if self.wants_more else 401, headers={"WWW-Authenticate": header}, content=b"", request=request
        )


async def read_challenge(response: httpx2.Response) -> Challenge | None:
    """Return the challenge of a response, None where it is none."""
    wants_more = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    if response.status_code != 401 and not wants_more:
        return None
    await response.aread()
    body = facts(response)
    header = response.headers.get("WWW-Authenticate", "")
    return Challenge(
        wants_more,
        tuple(word for word in words(extract_scope_from_www_auth(response)) if is_scope(word)),
        extract_field_from_www_auth(response, "error_description"),
        extract_resource_metadata_from_www_auth(response),
        bool(re.match(r"DPoP\b", header, re.IGNORECASE)) and "bearer" not in header.lower(),
        _strings(body.get("required_scopes")),
        _strings(body.get("missing_scopes")),
    )


def _strings(found: object) -> tuple[str, ...]:
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def is_scope(word: str) -> bool:
    """Say whether a word can be a scope."""
    return _SCOPE.fullmatch(word) is not None
