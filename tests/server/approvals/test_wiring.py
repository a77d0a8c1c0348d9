"""Which page a configuration has: none, the development issuer's, or one whose people sign in where it says."""

import re
from pathlib import Path

import pytest

from guideway.server import wiring
from guideway.server.approvals.paths import DEVELOPMENT_CLIENT
from guideway.server.config import load
from guideway.server.config_errors import ConfigError
from guideway.server.oauth.access import PageClient
from guideway.server.sections import IssuerSection

pytestmark = pytest.mark.anyio
DOCUMENT = (Path(__file__).parents[3] / "docs" / "approvals.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT.partition("### Signing in")[2], re.MULTILINE | re.DOTALL)[0]
DEVELOPMENT = IssuerSection(issuer="http://127.0.0.1:8766")


async def page(folder: Path, text: str, development: IssuerSection | None = None) -> PageClient | None:
    """Return the page of a configuration."""
    path = folder / "guideway.toml"
    path.write_text(text)
    async with wiring.access(load(path), "https://guideway.example.com/mcp", development=development) as access:
        return access.page


async def test_what_the_documentation_shows_is_a_page(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    found = await page(tmp_path, SHOWN.replace("/etc/guideway/page-secret", str(secret)))
    assert found is not None
    assert (found.client_id, found.secret) == ("guideway-approvals", "s3cret")
    assert found.issuer.issuer == "https://login.example.com/realms/ops"


async def test_a_secret_that_cannot_be_read_is_told_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[approvals\] `client_secret_file`: what it names cannot be read"):
        await page(tmp_path, SHOWN.replace("/etc/guideway/page-secret", str(tmp_path / "none")))


async def test_what_is_not_installed_is_told_with_how_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "find_spec", lambda name: None if name == "jinja2" else object())
    with pytest.raises(ConfigError, match=r"needs `jinja2`; pip install '.\[approvals\]'"):
        await page(tmp_path, SHOWN.replace("client_secret_file", "# "))


async def test_without_a_client_only_the_development_issuer_has_a_page(tmp_path: Path) -> None:
    text = SHOWN.partition("[approvals]")[0]
    assert await page(tmp_path, text) is None
    found = await page(tmp_path, text, DEVELOPMENT)
    assert found == PageClient(DEVELOPMENT, DEVELOPMENT_CLIENT)
