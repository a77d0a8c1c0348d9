"""A request's message as the protocol's own reader of its era sees it: whoever looks at it beforehand sees the same."""

import json
from collections.abc import Callable
from typing import Any, Final

import pydantic_core
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Scope as Request

_VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()


def read_message(body: bytes, request: Request) -> Any:
    """Return what a body says. Raises ``ValueError`` for what is no JSON to the SDK either.

    Two parsers differ in what they take (half of a surrogate pair, depth) and in which of two keys of one name counts.
    """
    version = next((value for name, value in request["headers"] if name == _VERSION), None)
    legacy = version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS
    read: Callable[[bytes], Any] = pydantic_core.from_json if legacy else json.loads
    try:
        return read(body)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
