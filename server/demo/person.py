"""The person of the demo: signs in at the development issuer and allows what is asked, by the forms of its pages.

It stands in for somebody at a browser, and knows nothing but what such a person sees.
"""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Final
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp.shared.auth import AuthorizationCodeResult

from guideway.server.demo.world import DemoError

_MOST_PAGES: Final = 5


class Person:
    """Goes through the issuer's pages. ``say`` is told what is allowed, scope by scope."""

    def __init__(self, name: str, sign_in_code: str, say: Callable[[str], None]) -> None:
        self._fields = {"code": sign_in_code, "person": name}
        self._name = name
        self._say = say
        self._sent: dict[str, str] = {}

    async def open(self, url: str) -> None:
        """Open the page that a client sends its person to, and stop where that sends them back to the client."""
        async with httpx2.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(url)
            for _ in range(_MOST_PAGES):
                form = _Form(answer.text)
                if scopes := form.offers.get("scope"):
                    self._say(f"  {self._name} is asked, and allows: {', '.join(scopes)}")
                filled = form.hidden | {"scope": scopes or [], "decision": "allow"} | self._fields
                answer = await browser.post(urljoin(url, form.action), data=filled)
                leads_to = urljoin(url, answer.headers.get("Location", ""))
                if urlsplit(leads_to).netloc != urlsplit(url).netloc:
                    self._sent = {name: value for name, [value] in parse_qs(urlsplit(leads_to).query).items()}
                    return
                answer = await browser.get(leads_to)
        raise DemoError("the development issuer's pages did not lead back to the client")

    async def answer(self) -> AuthorizationCodeResult:
        """Return what the client was sent."""
        return AuthorizationCodeResult.model_validate(self._sent)


class _Form(HTMLParser):
    """The first form of a page: where it goes, its hidden fields, and the values that it offers by name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.hidden: dict[str, str | list[str]] = {}
        self.offers: dict[str, list[str]] = {}
        self._forms = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._forms += 1
        if self._forms != 1:
            return
        if tag == "form":
            self.action = given["action"]
        elif given.get("type") == "hidden":
            self.hidden[given["name"]] = given["value"]
        elif given.get("name"):
            self.offers.setdefault(given["name"], []).append(given.get("value", ""))
