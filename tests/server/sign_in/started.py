"""What a browser makes of the page that the shell starts it with."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.refreshes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and given.get("http-equiv") == "refresh":
            self.refreshes.append(given["content"] or "")


def led_to(uri: str) -> str:
    """Return the address that a file leads a browser to, which only its owner can read, or find in its folder."""
    parts = urlsplit(uri)
    assert parts.scheme == "file", uri
    path = Path(unquote(parts.path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    [refresh] = _Page(path.read_text()).refreshes
    wait, _, url = refresh.partition("; url=")
    assert wait == "0"
    return url
