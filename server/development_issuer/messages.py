"""Between Starlette and Authlib: a request's parameters, read once and strictly, and Authlib's answers as responses.

RFC 6749, section 3.1: no parameter twice, and one without a value was not sent. Values are printable ASCII, as the
RFC's own grammar says (appendix A), so that none needs a second thought in a header, a page or an error.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from authlib.common.urls import add_params_to_uri
from authlib.oauth2 import OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from starlette.requests import Request
from starlette.responses import Response

MOST_BYTES: Final = 16 * 1024
"""Of a body. A query is bounded by the HTTP parser, and by this too."""

_REPEATABLE: Final = "resource"  # RFC 8707, section 2
_FREE: Final = frozenset({"state"})  # may have quotes; every other may end up in a description, which must not


class MalformedRequest(ValueError):  # noqa: N818  # it is an answer, not a fault
    """The parameters cannot be read. The message is plain ASCII, and holds no value of one."""


class Parameters(dict[str, str]):
    """Parameters by name. ``resources`` are all values of the one parameter that may stand more than once."""

    resources: tuple[str, ...] = ()


def read_parameters(encoded: str) -> Parameters:
    """Return the parameters of a query or form. Raises ``MalformedRequest``."""
    if len(encoded) > MOST_BYTES:
        raise MalformedRequest("the request is too large")
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=50, encoding="utf-8", errors="strict")
    except ValueError:
        raise MalformedRequest("the parameters cannot be read") from None
    parameters = Parameters()
    for name, value in pairs:
        if not _plain(name) or not (_plain(value) or (name in _FREE and value.isascii() and value.isprintable())):
            raise MalformedRequest("a parameter has characters that none may have")
        if value and name in parameters and name != _REPEATABLE:
            raise MalformedRequest(f"the parameter {name[:40]} stands twice")
        if value:
            parameters.setdefault(name, value)
    parameters.resources = tuple(value for name, value in pairs if name == _REPEATABLE and value)
    return parameters


def _plain(text: str) -> bool:
    """Say whether a text is of what an error's description may hold (RFC 6749, section 4.1.2.1)."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


async def read_body(request: Request) -> bytes:
    """Return a bounded body. Raises ``MalformedRequest``."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise MalformedRequest("the request is too large")
    return bytes(body)


async def read_form(request: Request, media_type: str = "application/x-www-form-urlencoded") -> str:
    """Return a body that is of a media type, as text. Raises ``MalformedRequest``."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
        raise MalformedRequest(f"the body must be {media_type}")
    body = await read_body(request)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRequest("the body is not UTF-8") from None


class Message(OAuth2Request):
    """A request as Authlib reads it. Its parameters are those of one place, the query or the form, never of both."""

    def __init__(self, request: Request, parameters: Parameters) -> None:
        super().__init__(request.method, str(request.url), None, request.headers)
        self.payload = BasicOAuth2Payload(parameters)
        self.resources = parameters.resources
        self._parameters = parameters

    @property
    def args(self) -> dict[str, str | None]:
        """Return the parameters."""
        return dict(self._parameters)

    @property
    def form(self) -> dict[str, str]:
        """Return the parameters."""
        return self._parameters


def to_response(status: int, body: Any, headers: Mapping[str, str], issuer: str) -> Response:
    """Return a response. Whatever goes back to a client by redirect says who sent it (RFC 9207)."""
    sent = dict(headers)
    if "Location" in sent:
        sent["Location"] = add_params_to_uri(sent["Location"], [("iss", issuer)])
        status = 303  # the browser comes from a form, and must not send it on (RFC 9700, section 4.12)
    text = json.dumps(body) if isinstance(body, dict) else str(body)
    return Response(text, status, sent)
