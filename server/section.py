"""What every table of the configuration is made of: its strictness, and the kinds of text that several tables hold."""

import ipaddress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


def is_loopback(host: str) -> bool:
    """Say whether an address, or `localhost`, can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def address(host: str) -> str:
    """Check an address to listen on."""
    try:
        return host if host == "localhost" else str(ipaddress.ip_address(host))
    except ValueError:
        raise ValueError("must be an IP address or `localhost`") from None


def _url(text: str) -> str:
    """Check an absolute URL that a secret or a key may come from. It is kept as it is written: issuers are compared
    character by character (RFC 8414, section 3.3).
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("must be a URL") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        raise ValueError("must be a URL such as `https://login.example.com`, without user or password")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("must be `https`, except on loopback")
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be a plain URL without query or fragment")
    return text


Url = Annotated[str, AfterValidator(_url)]
Text = Annotated[str, Field(min_length=1, max_length=1024)]
FilePath = Annotated[Path, Strict(False)]


class Section(BaseModel):
    """A table of the file. Nothing is coerced, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
