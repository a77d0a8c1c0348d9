"""Where an issuer's endpoints are: its metadata, by RFC 8414 or by OpenID Connect Discovery.

Metadata that names another issuer is none, and no endpoint in it may be less protected than the issuer itself is.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from guideway.dsl.errors import quoted
from guideway.server.oauth.issuer_http import IssuerHttp, NoAnswer, Silent
from guideway.server.section import is_loopback
from guideway.server.sections import IssuerSection

_MENDS: Final = {
    "jwks_uri": "`jwks_url` of [issuers.NAME] says where its keys are; or are its tokens opaque (`tokens`)?",
    "introspection_endpoint": "`endpoint` of [issuers.NAME.introspection] says where it is; or are its tokens JWTs?",
}


def metadata_urls(issuer: str) -> tuple[str, str]:
    """Return where an issuer's metadata may be: RFC 8414, section 3.1, and OpenID Connect Discovery, section 4.1."""
    parts = urlsplit(issuer)
    path = parts.path.removesuffix("/")
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}/.well-known/oauth-authorization-server{path}", f"{origin}{path}/.well-known/openid-configuration"


async def discover(http: IssuerHttp, section: IssuerSection) -> dict[str, Any]:
    """Return an issuer's metadata. Raises ``NoAnswer``."""
    urls = metadata_urls(section.issuer) if section.metadata_url is None else (section.metadata_url,)
    problem, another = None, None
    for url in urls:
        try:
            metadata = await http.get(url)
        except Silent:
            raise
        except NoAnswer as answer:
            problem = NoAnswer(f"no metadata: {answer}", answer.mend, url=url)
            continue
        named = metadata.get("issuer")
        if named == section.issuer:  # RFC 8414, section 3.3: character by character
            return metadata
        mend = f"`issuer` of [issuers.NAME] is to be written as there: {quoted(str(named), 200)}"
        another = another or NoAnswer("its metadata is that of another issuer", mend, url=url)
    problem = another or problem
    assert problem is not None  # noqa: S101  # there is at least one URL
    raise problem


def endpoint(metadata: Mapping[str, Any], name: str, section: IssuerSection) -> str:
    """Return the URL of an endpoint that the metadata names. Raises ``NoAnswer``."""
    url = metadata.get(name)
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        raise _improper(name, section)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise _improper(name, section) from None
    # The configuration lets an issuer be without TLS on loopback only; only such a one may have endpoints there.
    plain = parts.scheme == "http" and is_loopback(host) and section.issuer.startswith("http:")
    if not host or parts.username is not None or parts.fragment or not (parts.scheme == "https" or plain):
        raise _improper(name, section)
    return url


def _improper(name: str, section: IssuerSection) -> NoAnswer:
    return NoAnswer(f"its metadata has no proper {name}", _MENDS.get(name), url=section.issuer)
