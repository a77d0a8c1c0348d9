"""The pages that people see: plain forms without scripts, light or dark. Whatever a client says is shown as text."""

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse

from guideway.dsl.scopes import Scope
from guideway.interpreter.untrusted import clean
from guideway.server.approvals.paths import DEVELOPMENT_CLIENT

_MEANING: Final = {
    Scope.READ: "Look at hosts and services: whether they answer, and in which state they are. Nothing is changed.",
    Scope.WRITE: "Restart services. While one restarts, it does not serve anybody.",
    Scope.APPROVE: (
        "Say yes for you to what others want to run here, such as the restart of a service that much hangs on. "
        "It then runs, with your name on record."
    ),
}

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; }
code, .said { overflow-wrap: anywhere; }
code { font-size: .95em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { opacity: .75; } dd { margin: 0; min-width: 0; }
ul { list-style: none; padding: 0; } li { margin: .75rem 0; }
.not { opacity: .7; } .note { border-inline-start: .25rem solid; padding-inline-start: .75rem; }
input[type=text], input[type=password] { font: inherit; padding: .4rem; width: 100%; box-sizing: border-box; }
button { font: inherit; padding: .5rem 1.25rem; margin: .5rem .5rem 0 0; cursor: pointer; }
""".strip()
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def page(title: str, body: str, *, status: int = 200, sends_to: str | None = None) -> HTMLResponse:
    """Return a page. ``body`` is HTML; ``sends_to`` is where a form of it may lead in the end, beside this server."""
    content = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{_text(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{_text(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action 'self'{_source(sends_to)}"
    )
    return HTMLResponse(content, status, {"Content-Security-Policy": policy})


def sign_in_page(action: str, *, wrong: bool = False) -> HTMLResponse:
    """Return the page that asks for the sign-in code."""
    note = '<p class="note" role="alert">That is not the code.</p>\n' if wrong else ""
    body = (
        "<p>A program asks for access to Guideway. To go on, show that you are at this machine:\n"
        "Guideway has printed a sign-in code where it was started.</p>\n"
        f"{note}{_form(action, 'code', '')}"
        '<p><label>Sign-in code\n<input type="text" name="code" required autofocus autocomplete="off" maxlength="64" '
        'spellcheck="false"></label></p>\n'
        '<button type="submit">Sign in</button>\n</form>'
    )
    return page("Sign in to the development issuer", body, status=401 if wrong else 200)


def person_page(action: str, stamp: str, people: Iterable[str]) -> HTMLResponse:
    """Return the page that asks for whom to go on."""
    choices = "\n".join(
        f'<p><button type="submit" name="person" value="{_text(name)}">{_shown(name)}</button></p>' for name in people
    )
    return page("Who are you?", f"{_form(action, 'person', stamp)}{choices}\n</form>")


def consent_page(
    action: str,
    stamp: str,
    *,
    client_id: str,
    client_name: str | None,
    redirect_uri: str,
    resource: str,
    person: str,
    grantable: Iterable[Scope],
    beyond: Iterable[Scope],
    seconds: int,
    renewable_days: int,
    others: bool,
) -> HTMLResponse:
    """Return the page that says what a client asks for, and asks whether it may have it.

    ``beyond`` is what it asks for and the person cannot give; ``others`` is whether one can be somebody else.
    """
    grantable = list(grantable)
    name = f"<q>{_shown(client_name)}</q> (its own words, which nobody checked)" if client_name else "gives no name"
    if client_id == DEVELOPMENT_CLIENT:  # nobody else can have that id: those that are registered are random
        name = "the approval page of this server"
    leave = f'{_form(action, "leave", stamp)}<button type="submit">Be somebody else</button>\n</form>' if others else ""
    gives = "\n".join(
        f'<li><label><input type="checkbox" name="scope" value="{scope}" checked> {_text(_MEANING[scope])}<br>'
        f"<code>{scope}</code></label></li>"
        for scope in grantable
    )
    lacks = "\n".join(
        f'<li class="not">Not given, because {_shown(person)} may not do it: {_text(_MEANING[scope])}<br>'
        f"<code>{scope}</code></li>"
        for scope in beyond
    )
    allow = '<button type="submit" name="decision" value="allow">Allow</button>\n' if grantable else ""
    renews = f", and the program can renew it for {renewable_days} days" if renewable_days else ""
    body = (
        f'<dl>\n<dt>Program</dt><dd class="said">{name}</dd>\n'
        f"<dt>Identifier</dt><dd><code>{_shown(client_id)}</code></dd>\n"
        f'<dt>Answer goes to</dt><dd class="said">{_destination(redirect_uri)}</dd>\n'
        f"<dt>Server</dt><dd><code>{_shown(resource)}</code></dd>\n"
        f'<dt>You are</dt><dd class="said">{_shown(person)}</dd>\n'
        f"<dt>How long</dt><dd>{_duration(seconds)}{renews}</dd>\n</dl>\n"
        f"{_form(action, 'decision', stamp)}<p>It could then:</p>\n<ul>\n{gives}\n{lacks}\n</ul>\n"
        "<p>Allow it only if you have just started something that asks for this.</p>\n"  # what Enter does stands first
        f'<button type="submit" name="decision" value="deny">Deny</button>\n{allow}</form>\n{leave}'
    )
    return page("A program asks for access", body, sends_to=redirect_uri)


def error_page(message: str, *, status: int = 400) -> HTMLResponse:
    """Return a page that ends here: where nobody may be redirected to, because nobody can be trusted to ask for it."""
    body = f"<p>{_shown(message)}.</p>\n<p>Go back to the program that sent you here.</p>"
    return page("This request cannot go on", body, status=status)


def _form(action: str, step: str, stamp: str) -> str:
    return (
        f'<form method="post" action="{_text(action)}">\n<input type="hidden" name="step" value="{step}">\n'
        f'<input type="hidden" name="stamp" value="{stamp}">\n'
    )


def _text(text: str) -> str:
    return escape(text, quote=True)


def _shown(text: str) -> str:
    """Return somebody else's text for a page: cleaned, bounded, in one line."""
    line = re.sub(r"\s+", " ", clean(text, most=4096))
    return _text(line if len(line) <= 300 else f"{line[:300]}…")


def _destination(redirect_uri: str) -> str:
    parts = urlsplit(redirect_uri)
    if parts.scheme == "http":
        return f"a program on this machine (<code>{_shown(parts.netloc)}</code>)"
    if parts.scheme == "https":
        return f"the web site <code>{_shown(parts.netloc)}</code>"
    return f"the application that opens <code>{_shown(parts.scheme)}:</code> addresses"


def _duration(seconds: int) -> str:
    return f"{seconds // 60} minutes" if seconds >= 120 and seconds % 60 == 0 else f"{seconds} seconds"


def _source(redirect_uri: str | None) -> str:
    """Return what a policy must allow so that a form may be redirected there, which browsers count as its action."""
    if redirect_uri is None:
        return ""
    parts = urlsplit(redirect_uri)
    # Sources cannot spell an IPv6 address (CSP Level 3, section 2.3.1), and a private-use scheme has no host.
    if parts.scheme in ("http", "https") and ":" not in (parts.hostname or ""):
        return f" {parts.scheme}://{parts.netloc}"
    return f" {parts.scheme}:"
