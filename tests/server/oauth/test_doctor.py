"""``guideway doctor`` asks each issuer as the server does, and says what is wrong with it, and how to mend it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import pytest
from starlette.responses import JSONResponse, Response

from guideway.server import config
from guideway.server.cli.finding import Finding, Grade
from guideway.server.cli.issuers import look_at_issuers
from tests.server.certificates import Authority
from tests.server.oauth.issuer import CLIENT_ID, Issuer, signer

SERVER = 'url = "https://guideway.example.com/mcp"'
OPAQUE = f"""tokens = "opaque"
introspection = {{ client_id = "{CLIENT_ID}", client_secret_env = "GUIDEWAY_TEST_SECRET" }}"""


def look(folder: Path, issuer: str, keys: str = "") -> list[Finding]:
    """Return what is found of an issuer."""
    file = folder / "guideway.toml"
    file.write_text(f'[server]\n{SERVER}\n[issuers.corp]\nissuer = "{issuer}"\n{keys}\n')
    return anyio.run(look_at_issuers, config.load(file))


def test_an_issuer_that_is_well(issuer: Issuer, tmp_path: Path) -> None:
    [finding] = look(tmp_path, issuer.url)
    assert finding == Finding(Grade.OK, "issuer corp", f"publishes 1 key for `ES256` ({issuer.origin}/keys)")
    [finding] = look(tmp_path, issuer.url, OPAQUE)
    assert finding == Finding(Grade.OK, "issuer corp", f"answers about tokens ({issuer.origin}/introspection)")


Spoils = Callable[[Issuer], None]


def answering(name: str, answer: Callable[[], Response]) -> Spoils:
    return lambda issuer: issuer.replies.update({name: answer})


def named(**changes: object) -> Spoils:
    return lambda issuer: issuer.metadata.update(changes)


ILLS: Final[dict[str, tuple[Spoils, str, str, str]]] = {
    "it is down": (Issuer.stop, "", "it cannot be reached: nothing listens there (", "start it, or mend its address"),
    "another name": (
        named(issuer="https://login.example.com/"),
        "",
        "its metadata is that of another issuer (",
        "`issuer` of [issuers.corp] is to be written as there: `https://login.example.com/`",
    ),
    "no keys": (lambda issuer: issuer.signers.clear(), "", "of 0 keys none can be used (", "`algorithms` names those"),
    "keys for nothing that is allowed": (
        lambda issuer: issuer.signers.__setitem__(0, signer("ES384")),
        "",
        "of 1 keys none can be used: its algorithm is not allowed (",
        "`algorithms` names those that it signs with, where they are others than `ES256`",
    ),
    "a page in place of keys": (
        answering("keys", lambda: Response("<!doctype html>")),
        "",
        "its answer is not a JSON object (",
        "its address leads to something else",
    ),
    "no introspection": (
        named(introspection_endpoint=None),
        OPAQUE,
        "its metadata has no proper introspection_endpoint (",
        "`endpoint` of [issuers.corp.introspection] says where it is",
    ),
    "a secret that it does not know": (
        lambda issuer: setattr(issuer, "client_secret", "another"),
        OPAQUE,
        "it answered HTTP 401 (",
        "is `client_id` of [issuers.corp.introspection] a client there, and its secret right?",
    ),
    "an address of something else": (
        answering("introspection", lambda: JSONResponse({"hello": "world"})),
        OPAQUE,
        "it does not say that a token that nobody has is not active (",
        "RFC 7662",
    ),
    "no variable": (
        lambda _: None,
        OPAQUE.replace("GUIDEWAY_TEST_SECRET", "GUIDEWAY_NO_SECRET"),
        "`client_secret_env`: the environment variable `GUIDEWAY_NO_SECRET` is empty or not set",
        "the environment of whoever runs this server sets it",
    ),
}


@pytest.mark.parametrize("ill", ILLS)
def test_what_is_wrong_with_an_issuer_is_said_with_its_address_and_a_mend(
    issuer: Issuer, tmp_path: Path, ill: str
) -> None:
    spoil, keys, message, mend = ILLS[ill]
    spoil(issuer)
    [finding] = look(tmp_path, issuer.url, keys)
    assert (finding.grade, finding.about) == (Grade.WRONG, "issuer corp")
    assert finding.message.startswith(message), finding
    assert issuer.origin in finding.message or "environment" in finding.message
    assert mend in (finding.mend or ""), finding


@pytest.mark.parametrize(("mode", "words"), [(None, "cannot be read: no such file"), (0o604, "by anybody: chmod o=")])
def test_a_secret_that_is_not_there_or_everybodys(issuer: Issuer, tmp_path: Path, mode: int | None, words: str) -> None:
    if mode is not None:
        (tmp_path / "secret").write_text("s3cret-s3cret")
        (tmp_path / "secret").chmod(mode)
    asks = f'tokens = "opaque"\nintrospection = {{ client_id = "{CLIENT_ID}", client_secret_file = "secret" }}'
    [finding] = look(tmp_path, issuer.url, asks)
    assert words in finding.message
    assert "s3cret" not in finding.message
    assert "chmod 600" in (finding.mend or "")
    assert not issuer.requests["introspection"]


def test_a_certificate_of_an_authority_that_is_not_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server("cert")
    pair.key.rename(tmp_path / "key.pem")
    with Issuer(certificate=pair.certificate) as issuer:
        [finding] = look(tmp_path, issuer.url)
        assert "its certificate is not trusted: " in finding.message
        assert finding.mend == "`ca_file` of [issuers.corp] names the authority that signed it"
        [finding] = look(tmp_path, issuer.url, f'ca_file = "{authority.file}"')
        assert finding.grade is Grade.OK
    [finding] = look(tmp_path, issuer.url, 'ca_file = "nowhere.pem"')
    assert finding.message.endswith("cannot be read: no such file or directory")


def test_https_where_http_is_spoken(issuer: Issuer, tmp_path: Path) -> None:
    [finding] = look(tmp_path, issuer.url.replace("http:", "https:"))
    assert finding.message.startswith("it cannot be reached: it speaks no TLS there (https://")
    assert "`https` and its port" in (finding.mend or "")


def test_what_clients_will_find_otherwise_is_a_note(issuer: Issuer, tmp_path: Path) -> None:
    issuer.metadata["scopes_supported"] = ["openid", "mcp:diag:read"]
    well, scopes, audience = look(tmp_path, issuer.url, 'audience = "api://guideway"')
    assert well.grade is Grade.OK
    assert scopes.grade is audience.grade is Grade.NOTE
    assert scopes.message.startswith("it does not name `mcp:diag:write` among its scopes")
    assert "clients ask for tokens for `https://guideway.example.com/mcp`" in audience.message
    assert "`api://guideway`" in audience.message


def test_the_command_tells_it(issuer: Issuer, tmp_path: Path) -> None:
    look(tmp_path, issuer.url)
    guideway = Path(sys.executable).with_name("guideway")
    ran = subprocess.run(
        [guideway, "doctor", "--json", "--config", str(tmp_path / "guideway.toml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [f["grade"] for f in json.loads(ran.stdout)["findings"] if f["about"] == "issuer corp"] == ["ok"]
