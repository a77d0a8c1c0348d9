"""A person at a browser, without one: the issuer's pages are plain forms, so that posting them is all it takes."""

import ssl
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Self
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

#: Made once: reading the system's authorities takes longer than a test.
TLS = ssl.create_default_context()


class Page(HTMLParser):
    """The forms of a page: of each its action, its hidden fields and what it offers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.actions: list[str] = []
        self.offers: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append({})
            self.actions.append(given["action"])
        elif tag == "input" and given.get("type") == "hidden":
            self.forms[-1][given["name"]] = given["value"]
        elif given.get("name") and given.get("value"):
            self.offers.append((given["name"], given["value"]))

    def form(self, step: str) -> tuple[str, dict[str, str]]:
        """Return the action and the hidden fields of the form of a step."""
        return next((a, f) for a, f in zip(self.actions, self.forms, strict=True) if f["step"] == step)

    def steps(self) -> list[str]:
        """Return the steps that the page has forms for."""
        return [form["step"] for form in self.forms]


class Browser:
    """One browser: what it signed in to it stays signed in to."""

    def __init__(self) -> None:
        self.http = httpx2.AsyncClient(verify=TLS, follow_redirects=False, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def open(self, url: str) -> httpx2.Response:
        """Return what an address shows."""
        return await self.http.get(url)

    async def submit(self, response: httpx2.Response, step: str, fields: dict[str, str | list[str]]) -> httpx2.Response:
        """Return the answer to a page's form, filled in. A redirect to a page of the issuer's own is followed."""
        action, hidden = Page(response.text).form(step)
        url = urljoin(str(response.url), action)
        answer = await self.http.post(url, data={**hidden, **fields})
        here = answer.headers.get("location", "")
        return await self.http.get(urljoin(url, here)) if here.startswith("/") else answer

    async def consent(self, url: str, code: str, person: str) -> httpx2.Response:
        """Return the page that asks for consent, after signing in where that is asked."""
        page = await self.open(url)
        if "code" in Page(page.text).steps():
            page = await self.submit(page, "code", {"code": code})
        if "leave" in Page(page.text).steps():
            page = await self.submit(page, "leave", {})
        if "person" in Page(page.text).steps():
            page = await self.submit(page, "person", {"person": person})
        return page


async def approve(
    url: str, code: str, person: str, *, scopes: Iterable[str] | None = None, decision: str = "allow"
) -> str:
    """Go through the pages of an authorization request, and return the address that its client is sent to.

    ``scopes`` None leaves ticked what the page has ticked.
    """
    async with Browser() as browser:
        page = await browser.consent(url, code, person)
        ticked = [value for name, value in Page(page.text).offers if name == "scope"]
        given = ticked if scopes is None else list(scopes)
        answer = await browser.submit(page, "decision", {"scope": given, "decision": decision})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])


def parameters(location: str) -> dict[str, str]:
    """Return the parameters that a client was sent, each of which stands once."""
    found = parse_qs(urlsplit(location).query, strict_parsing=True, keep_blank_values=True)
    assert all(len(values) == 1 for values in found.values()), location
    return {name: values[0] for name, values in found.items()}
