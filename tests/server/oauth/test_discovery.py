"""Where issuers are asked: metadata in both places, endpoints that are believed, TLS."""

import datetime
import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.responses import JSONResponse, RedirectResponse, Response

from guideway.server.oauth.discovery import endpoint, metadata_urls
from guideway.server.oauth.issuer_http import NoAnswer
from guideway.server.sections import IssuerSection
from tests.server.oauth.issuer import Issuer
from tests.server.oauth.trusting import retry_after, subject, trusting

NOT_FOUND: Final[Callable[[], Response]] = lambda: Response(status_code=404)  # noqa: E731


@pytest.mark.parametrize(
    ("issuer", "oauth", "openid"),
    [
        (
            "https://login.example.com",
            "https://login.example.com/.well-known/oauth-authorization-server",
            "https://login.example.com/.well-known/openid-configuration",
        ),
        (
            "https://login.example.com/",
            "https://login.example.com/.well-known/oauth-authorization-server",
            "https://login.example.com/.well-known/openid-configuration",
        ),
        (
            "https://login.example.com:8443/realms/a",
            "https://login.example.com:8443/.well-known/oauth-authorization-server/realms/a",
            "https://login.example.com:8443/realms/a/.well-known/openid-configuration",
        ),
    ],
)
def test_metadata_is_in_front_of_the_path_or_behind_it(issuer: str, oauth: str, openid: str) -> None:
    assert metadata_urls(issuer) == (oauth, openid)


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["", "/", "/realms/a"])
@pytest.mark.parametrize("missing", ["metadata", "openid"])
async def test_either_place_is_enough(path: str, missing: str) -> None:
    with Issuer(path=path) as issuer:
        issuer.replies[missing] = NOT_FOUND
        async with trusting(issuer.section()) as trusted:
            assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_a_page_that_answers_every_address_is_no_metadata(issuer: Issuer) -> None:
    issuer.replies["metadata"] = lambda: Response("<!doctype html>")
    async with trusting(issuer.section()) as trusted:
        assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["https://login.example.com", "{}/", "{}/x", "", None, ["{}"]])
async def test_metadata_of_another_issuer_is_none(issuer: Issuer, name: Any) -> None:
    issuer.metadata["issuer"] = name.format(issuer.url) if isinstance(name, str) else name
    async with trusting(issuer.section()) as trusted:
        await retry_after(trusted, issuer.token())
    assert not issuer.requests["keys"]


@pytest.mark.anyio
async def test_no_redirect_is_followed_to_metadata(issuer: Issuer) -> None:
    with Issuer() as other:
        for name in ("metadata", "openid"):
            issuer.replies[name] = lambda: RedirectResponse(f"{other.origin}/.well-known/openid-configuration")
        async with trusting(issuer.section()) as trusted:
            await retry_after(trusted, issuer.token())
        assert not other.requests


@pytest.mark.anyio
async def test_the_metadata_can_be_elsewhere_and_is_still_the_issuers(issuer: Issuer) -> None:
    with Issuer() as other:
        url = f"{other.origin}/.well-known/openid-configuration"
        other.metadata = issuer.metadata
        async with trusting(issuer.section(metadata_url=url)) as trusted:
            assert await subject(trusted, issuer.token()) == "alice"
        other.metadata = {**issuer.metadata, "issuer": other.url}
        async with trusting(issuer.section(metadata_url=url)) as trusted:
            await retry_after(trusted, issuer.token())
    assert not issuer.requests["metadata"]


@pytest.mark.anyio
async def test_where_the_keys_are_named_no_metadata_is_asked_for(issuer: Issuer) -> None:
    async with trusting(issuer.section(jwks_url=f"{issuer.origin}/keys")) as trusted:
        assert await subject(trusted, issuer.token()) == "alice"
    assert issuer.requests == {"keys": 1}


GOOD: Final = ["https://keys.example.com/keys", "https://login.example.com:8443/keys?p=policy"]
BAD: Final = [
    "http://keys.example.com/keys",
    "http://127.0.0.1/keys",
    "https://user@keys.example.com/keys",
    "https:///keys",
    "https://keys.example.com:port/keys",
    "https://keys.example.com/keys#x",
    "https://keys.example.com/a b",
    "https://keys.example.com/\n",
    "file:///etc/passwd",
    "//keys.example.com",
    "",
    None,
    ["https://keys.example.com/keys"],
]


@pytest.mark.parametrize("url", GOOD)
def test_endpoints_are_used_that_are_protected(url: str) -> None:
    assert endpoint({"jwks_uri": url}, "jwks_uri", IssuerSection(issuer="https://login.example.com")) == url


@pytest.mark.parametrize("url", BAD)
def test_endpoints_are_not_used_that_are_no_such_urls(url: Any) -> None:
    with pytest.raises(NoAnswer, match="its metadata has no proper jwks_uri"):
        endpoint({"jwks_uri": url}, "jwks_uri", IssuerSection(issuer="https://login.example.com"))


def test_only_an_issuer_on_loopback_may_have_endpoints_there() -> None:
    section = IssuerSection(issuer="http://127.0.0.1:8766")
    assert endpoint({"jwks_uri": "http://[::1]:1/keys"}, "jwks_uri", section) == "http://[::1]:1/keys"
    with pytest.raises(NoAnswer):
        endpoint({"jwks_uri": "http://keys.example.com/keys"}, "jwks_uri", section)


@pytest.mark.anyio
async def test_the_metadata_is_read_anew_where_the_keys_have_moved(issuer: Issuer) -> None:
    async with trusting(issuer.section(), gap=0) as trusted:
        await trusted.verify(issuer.token())
        with Issuer() as other:
            issuer.replies["keys"] = NOT_FOUND
            issuer.metadata["jwks_uri"] = f"{other.origin}/keys"
            other.signers = [issuer.rotate()]
            await retry_after(trusted, issuer.token())
            assert await subject(trusted, issuer.token()) == "alice"


def certificates(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 that signs itself, and its key; return the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    file = folder / "certificate.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.mark.anyio
async def test_the_issuers_certificate_must_be_of_the_authorities(tmp_path: Path) -> None:
    file = certificates(tmp_path)
    with Issuer(certificate=file) as issuer:
        async with trusting(issuer.section(ca_file=file)) as trusted:
            assert await subject(trusted, issuer.token()) == "alice"
        async with trusting(issuer.section()) as trusted:
            await retry_after(trusted, issuer.token())


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: no such file or directory"), ("no certificate", "holds no certificates in PEM")],
)
def test_authorities_that_cannot_be_read_are_told_at_the_start(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=r"\[issuers.corp\] `ca_file`: ") as error:
        trusting(IssuerSection(issuer="https://login.example.com", ca_file=file))
    assert why in str(error.value)


@pytest.mark.anyio
async def test_proxies_of_the_environment_are_not_used(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who may set one variable could otherwise read every opaque token."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with trusting(issuer.section()) as trusted:
        assert await subject(trusted, issuer.token()) == "alice"


@pytest.mark.anyio
async def test_metadata_with_a_member_twice_is_none(issuer: Issuer) -> None:
    twice = f'{{"issuer": "{issuer.url}", "jwks_uri": "{issuer.origin}/keys", "jwks_uri": "https://evil.example/"}}'
    issuer.replies["metadata"] = lambda: Response(twice)
    issuer.replies["openid"] = lambda: JSONResponse({"issuer": issuer.url})
    async with trusting(issuer.section()) as trusted:
        await retry_after(trusted, issuer.token())
