"""Who else is on the machine: they see the arguments of every process, and sign people in as themselves if they can."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from guideway.server.sign_in.errors import StorageError
from guideway.server.sign_in.start_page import StartPage
from tests.server.sign_in.started import led_to
from tests.server.sign_in.world import Place, Shell


def test_no_argument_of_the_browser_says_where_it_goes(place: Place, shell: Shell) -> None:
    """Another user polls `ps`. With state and challenge they had a code issued to themselves, and sent it to the port:

    what the person ran from then on ran, and was written down, in that user's name.
    """
    assert shell.run("login", place.url).returncode == 0
    [arguments] = shell.started
    asked = parse_qs(urlsplit(shell.visits[0]).query)
    port = str(urlsplit(asked["redirect_uri"][0]).port)
    for secret in (*asked["state"], *asked["code_challenge"], f":{port}", f"%3A{port}", place.issuer):
        assert secret not in arguments
    page = Path(urlsplit(arguments).path)
    assert not page.parent.exists(), "nothing is left of it once the sign-in has ended"


@pytest.mark.parametrize("decision", ["deny", "allow"])
def test_nothing_is_left_of_a_page_however_the_sign_in_ends(place: Place, shell: Shell, decision: str) -> None:
    folder = shell.home / "tmp"
    folder.mkdir()
    shell.has_browser(decision=decision)
    shell.run("login", place.url, TMPDIR=str(folder))
    [arguments] = shell.started
    assert arguments.startswith(folder.as_uri())
    assert not list(folder.iterdir())


def test_an_issuer_writes_nothing_into_the_page() -> None:
    """An authorization endpoint may hold what HTML takes for its own: the page is a file, and would run it as one."""
    url = "https://login.example.com/a'b\"c<script>&amp;d?e=1&f=2"
    page = StartPage(url)
    try:
        assert led_to(page.uri) == url
        assert "<script>" not in Path(urlsplit(page.uri).path).read_text()
    finally:
        page.remove()


def test_where_no_page_can_be_written_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match="no such file or directory"):
        StartPage("https://login.example.com/")
