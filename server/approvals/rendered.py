"""Pages as they are sent: templates that escape everything, and the headers that browsers heed."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from guideway.server.approvals.view import MOST_NAME, words

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # not `no-referrer`: forms would then be posted with `Origin: null`
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
STATIC: Final = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""The files that pages ask for, beside themselves."""


def page(template: str, status: int = 200, **values: Any) -> Response:
    """Return a page."""
    return HTMLResponse(_templates().get_template(template).render(values), status, HEADERS)


def static(name: str) -> Response:
    """Return one of the files beside the pages."""
    return Response(_static(name), headers=HEADERS, media_type=STATIC[name])


@cache
def _static(name: str) -> bytes:
    return files("guideway.server.approvals").joinpath("static", name).read_bytes()


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("guideway.server.approvals"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["who"] = lambda name: words(name, MOST_NAME)
    templates.filters["when"] = _when
    templates.filters["duration"] = duration
    return templates


def _when(moment: str) -> str:
    """Return a moment for people; scripts show it in their own time."""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%d %B %Y, %H:%M:%S UTC").lstrip("0")


def duration(seconds: float) -> str:
    """Return a time for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if rest else f"{minutes} min"
