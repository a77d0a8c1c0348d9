"""The providers, the server and the clients' environment, each started once for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.oauth import django_provider, guideway_server, metadata_document, oidc_provider
from tests.interop.oauth.django_provider import ASKS_AS, Site
from tests.interop.oauth.guideway_server import Guideway
from tests.interop.oauth.oidc_provider import Provider
from tests.interop.oauth.processes import Environment, environment

LEEWAY = 2  # little, so that tests need not wait for tokens to run out


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of the certificate, and of its key, under which a client's document is published."""
    return metadata_document.certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def node(node_path: str, certificate: tuple[Path, Path]) -> Environment:
    """Return the environment of programs on Node: the right Node first, and that certificate trusted."""
    return environment() | {"PATH": node_path, "NODE_EXTRA_CA_CERTS": str(certificate[0])}


@pytest.fixture(scope="session")
def document(certificate: tuple[Path, Path]) -> Iterator[str]:
    """Return the address of a client's metadata document."""
    with metadata_document.published(*certificate) as url:
        yield url


@pytest.fixture(scope="session")
def running_provider(node: Environment) -> Iterator[Provider]:
    """Run the provider while the tests run."""
    with oidc_provider.serving(node) as provider:
        yield provider


@pytest.fixture
def provider(running_provider: Provider) -> Provider:
    """Return the provider with its settings as at first, and nothing asked of it."""
    running_provider.set()
    return running_provider


@pytest.fixture(scope="session")
def guideway(running_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guideway]:
    """Run a server that believes the provider's tokens."""
    issuer = f'''
[issuers.provider]
issuer = "{running_provider.issuer}"
leeway_seconds = {LEEWAY}
'''
    with guideway_server.serving(issuer, tmp_path_factory.mktemp("guideway")) as server:
        yield server


@pytest.fixture(scope="session")
def running_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run the provider of opaque tokens while the tests run."""
    with django_provider.serving(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def site(running_site: Site) -> Iterator[Site]:
    """Return that provider, up; where a test has stopped it, it is started again."""
    yield running_site
    running_site.start()


@pytest.fixture(scope="session")
def asking_guideway(running_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guideway]:
    """Run a server that asks that provider about tokens, and believes its answers for a second."""
    issuer = f"""
[issuers.site]
issuer = "{running_site.issuer}"
tokens = "opaque"

[issuers.site.introspection]
client_id = "{ASKS_AS}"
client_secret_env = "SITE_SECRET"
cache_seconds = 1.0
"""
    folder = tmp_path_factory.mktemp("asking")
    with guideway_server.serving(issuer, folder, SITE_SECRET=running_site.secret) as server:
        yield server
