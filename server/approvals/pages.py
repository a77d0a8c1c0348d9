"""The approval page: what a person at a browser is shown and can do. It works without scripts.

It owns cookies, forms and what keeps other sites out of them. Who somebody is ``sign_in`` says, what they may do the
desk. Whoever has not signed in is shown the same at every address, whether there is such a ticket or not.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from guideway.interpreter.approvals import MOST_WORDS, Ticket, TicketState, Undecidable
from guideway.interpreter.records import StoreUnavailable
from guideway.server.approvals.desk import MOST_TICKETS, Desk
from guideway.server.approvals.paths import PAGE, SIGNED_IN
from guideway.server.approvals.rendered import HEADERS, STATIC, page, static
from guideway.server.approvals.shown import (
    decision_values,
    decision_version,
    list_values,
    list_version,
    ticket_values,
)
from guideway.server.approvals.sign_in import NotSignedIn, SignIn
from guideway.server.approvals.view import words
from guideway.server.approvals.visitors import MOST_SECONDS, Visitor, Visitors
from guideway.server.listen import spellings
from guideway.server.oauth.access import Access
from guideway.server.proxies import client_address
from guideway.server.recorded import CALLER, asked_for
from guideway.server.run_log import who

_log: Final = logging.getLogger(__name__)
_SIGN_IN_SECONDS: Final = 600
_TICKET: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TICKETS: Final = 50
_PAST: Final = frozenset(TicketState) - {TicketState.PENDING}
_ENDS: Final = {
    Undecidable.Why.UNKNOWN: (404, "There is no such request", "It may be of another tenant, or was never made."),
    Undecidable.Why.DECIDED: (409, "Somebody has decided already", "Whoever decides first, decides."),
    Undecidable.Why.EXPIRED: (409, "Its time is over", "It does not run. Whoever asked can ask again."),
    Undecidable.Why.OUTDATED: (409, "The policy is another one by now", "Whoever asked can ask again, under this one."),
    Undecidable.Why.OWN_REQUEST: (403, "You asked for this yourself", "Somebody else has to approve it."),
    Undecidable.Why.NO_SCOPE: (403, "You may not approve here", "Your sign-in does not have the right to, any more."),
}

_Answer = Callable[[Request], Awaitable[Response]]
_VisitorsAnswer = Callable[[Request, Visitor], Awaitable[Response]]


class Pages:
    """The pages of a server whose tokens ``access`` takes. Links and cookies are for its address as people know it."""

    def __init__(self, desk: Desk, sign_in: SignIn, visitors: Visitors, access: Access) -> None:
        self._desk = desk
        self._refusals = desk.refusals
        self._sign_in = sign_in
        self._visitors = visitors
        self._url = access.url(PAGE)
        known = urlsplit(self._url)
        self._base = known.path
        self._secure = known.scheme == "https"
        self._origins = {f"{known.scheme}://{authority}" for authority in spellings(self._url)}
        # Cookies do not tell ports apart (RFC 6265, section 8.5), and only https can have the prefix.
        prefix = "__Host-guideway" if self._secure else f"guideway_{known.port or 80}"
        self._cookie, self._way_back = f"{prefix}_approvals", f"{prefix}_signing_in"

    def routes(self) -> list[Route]:
        """Return the routes; whatever else stands below is not there."""
        one = f"{PAGE}/{{ticket}}"
        return [
            *(Route(f"{PAGE}/{name}", self._file(name), methods=["GET"]) for name in STATIC),
            Route(f"{PAGE}/sign-in", self._answered(self._begin), methods=["GET"]),
            Route(SIGNED_IN, self._answered(self._finish), methods=["GET"]),
            Route(f"{PAGE}/sign-out", self._posted(self._leave), methods=["POST"]),
            Route(PAGE, self._visited(self._list), methods=["GET"]),
            Route(f"{PAGE}/live", self._visited(self._live_list), methods=["GET"]),
            Route(one, self._visited(self._ticket), methods=["GET"]),
            Route(f"{one}/live", self._visited(self._live_ticket), methods=["GET"]),
            Route(f"{one}/approve", self._posted(self._approve), methods=["POST"]),
            Route(f"{one}/deny", self._posted(self._deny), methods=["POST"]),
            Route(f"{PAGE}/{{rest:path}}", self._answered(self._nothing), methods=["GET", "POST"]),
        ]

    async def _list(self, _: Request, visitor: Visitor) -> Response:
        values = await self._list_values(visitor, await self._tickets(visitor))
        return self._page("list.html", visitor, title="What waits for a person", **values)

    async def _live_list(self, request: Request, visitor: Visitor) -> Response:
        tickets = await self._tickets(visitor)
        if _has(request, list_version(tickets)):
            return _as_it_is()
        return page("tickets.html", base=self._base, visitor=visitor, **await self._list_values(visitor, tickets))

    async def _tickets(self, visitor: Visitor) -> list[Ticket]:
        """Return what waits, and beside it the last of what does not: however much of that there is, it hides nothing.

        In this order: what is decided on in between is in both, and in none never.
        """
        waiting = await self._desk.newest(visitor.principal, states=[TicketState.PENDING], most=MOST_TICKETS)
        past = await self._desk.newest(visitor.principal, states=_PAST, most=_TICKETS)
        ids = {ticket.id for ticket in waiting}
        return [*waiting, *(ticket for ticket in past if ticket.id not in ids)]

    async def _list_values(self, visitor: Visitor, tickets: Sequence[Ticket]) -> dict[str, Any]:
        return list_values(await self._desk.seen(visitor.principal, tickets))

    async def _ticket(self, request: Request, visitor: Visitor) -> Response:
        seen = await self._desk.ticket(visitor.principal, request.path_params["ticket"])
        return self._ticket_page(visitor, ticket_values(seen))

    def _ticket_page(self, visitor: Visitor, values: dict[str, Any], status: int = 200) -> Response:
        skip = {"skip_to": "decision", "skip_words": "Skip to the decision"}
        return self._page("ticket.html", visitor, status, title=values["t"]["title"], **skip, **values)

    async def _live_ticket(self, request: Request, visitor: Visitor) -> Response:
        ticket_id = request.path_params["ticket"]
        if _has(request, decision_version(await self._desk.found(visitor.principal, ticket_id))):
            return _as_it_is()
        values = decision_values(await self._desk.ticket(visitor.principal, ticket_id))
        return page("live.html", base=self._base, visitor=visitor, **values)

    async def _approve(self, request: Request, visitor: Visitor, form: dict[str, str]) -> Response:
        return await self._decide(request, visitor, form, approve=True)

    async def _deny(self, request: Request, visitor: Visitor, form: dict[str, str]) -> Response:
        return await self._decide(request, visitor, form, approve=False)

    async def _decide(self, request: Request, visitor: Visitor, form: dict[str, str], *, approve: bool) -> Response:
        ticket_id, reason = request.path_params["ticket"], form.get("reason", "")
        problem = f"Use at most {MOST_WORDS} characters." if len(reason) > MOST_WORDS else ""
        try:
            if not problem:
                await self._desk.decide(visitor.principal, ticket_id, approve=approve, reason=reason)
                return self._to(ticket_id)
            self._desk.note(visitor.principal, ticket_id, "invalid_request", problem, approve=approve)
        except Undecidable as error:
            if error.code is not Undecidable.Why.NO_REASON:
                raise
            problem = "Say why it may run in spite of the freeze."
        values = ticket_values(await self._desk.ticket(visitor.principal, ticket_id))
        return self._ticket_page(visitor, values | {"error": problem, "typed": words(reason)}, 422)

    async def _begin(self, request: Request) -> Response:
        """Send a browser to the issuer."""
        ticket_id = request.query_params.get("ticket", "")
        again = "again" in request.query_params
        begun = await self._sign_in.begin(ticket_id if _TICKET.fullmatch(ticket_id) else "", again=again)
        answer = RedirectResponse(begun.url, 303, HEADERS)
        self._set(answer, self._way_back, begun.kept, _SIGN_IN_SECONDS)
        return answer

    async def _finish(self, request: Request) -> Response:
        """Take a browser back from the issuer, under a session of its own."""
        items = request.query_params.multi_items()
        answer = dict(items) if len(dict(items)) == len(items) else {}
        principal, ticket_id = await self._sign_in.finish(request.cookies.get(self._way_back, ""), answer)
        await self._visitors.close(request.cookies.get(self._cookie, ""))
        response = self._to(ticket_id)
        self._set(response, self._cookie, await self._visitors.open(principal), int(MOST_SECONDS))
        self._forget(response, self._way_back)
        _log.info("signed in at the approval page; %s", who(principal))
        return response

    async def _leave(self, request: Request, visitor: Visitor, _: dict[str, str]) -> Response:
        await self._visitors.close(request.cookies.get(self._cookie, ""))
        _log.info("signed out of the approval page; %s", who(visitor.principal))
        response = self._message(
            200,
            "You are signed out here",
            "The issuer may still know you: sign out there too if others use this browser.",
            link=(f"{self._url}/sign-in", "Sign in"),
        )
        self._forget(response, self._cookie)
        return response

    async def _nothing(self, _: Request) -> Response:
        return self._message(404, "There is no such page", "", link=(self._base, "All requests"))

    def _file(self, name: str) -> _Answer:
        async def answer(_: Request) -> Response:
            return static(name)

        return answer

    def _visited(self, answer: _VisitorsAnswer) -> _Answer:
        """Return an endpoint for those who have signed in; others are asked to."""

        async def endpoint(request: Request) -> Response:
            visitor = await self._visitors.find(request.cookies.get(self._cookie, ""))
            if visitor is None:
                address = client_address(request.scope)
                self._refusals.note("a visit", "nobody is signed in", address, code="no_sign_in", most=1)
                return self._ask_to_sign_in(request)
            request.scope[CALLER] = visitor.principal
            return await answer(request, visitor)

        return self._answered(endpoint)

    def _posted(self, answer: Callable[[Request, Visitor, dict[str, str]], Awaitable[Response]]) -> _Answer:
        """Return an endpoint for the forms of these pages; a form of any other is refused."""

        async def checked(request: Request, visitor: Visitor) -> Response:
            form = await _form(request)
            if not self._is_own(request) or not visitor.knows(form.get("stamp", "")):
                _log.warning("a form of another page was refused; %s", who(visitor.principal))
                facts = {"asked": asked_for(request.scope)}
                self._refusals.note_caller(visitor.principal, "foreign_form", "a form of another page", facts=facts)
                link = (self._base, "All requests")
                return self._message(403, "This form is not one of this page", "Nothing was done.", link=link)
            return await answer(request, visitor, form)

        return self._visited(checked)

    def _is_own(self, request: Request) -> bool:
        """Say whether a browser says that a form is of this site: Fetch, section 3.2, and Fetch Metadata."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
        return site == "same-origin" and (origin is None or origin in self._origins)

    def _answered(self, answer: _Answer) -> _Answer:
        """Return an endpoint that says on a page why there is no answer."""

        async def endpoint(request: Request) -> Response:
            try:
                return await answer(request)
            except Undecidable as error:
                status, title, text = _ENDS[error.code]
                link = (self._base, "All requests")
                if error.code not in (Undecidable.Why.UNKNOWN, Undecidable.Why.NO_SCOPE):
                    link = (f"{self._base}/{request.path_params['ticket']}", "See the request")
                return self._message(status, title, text, link=link)
            except NotSignedIn as error:
                self._note_not_signed_in(request, error)
                text, help_ = (_sentence(each) for each in (str(error), error.help))
                wanted = request.cookies.get(self._way_back, "").rpartition(".")[2]
                more = f"&ticket={wanted}" if _TICKET.fullmatch(wanted) else ""
                link = (f"{self._url}/sign-in?again=1{more}", "Sign in")
                response = self._message(error.status, "You are not signed in", text, help_, link=link)
                self._forget(response, self._way_back)
                return response
            except StoreUnavailable as error:
                _log.error("the approval page cannot be shown, the store: %s", error)
                return self._message(
                    503, "Nothing can be decided now", "The store of requests cannot be used.", "Try again in a while."
                )

        return endpoint

    def _note_not_signed_in(self, request: Request, error: NotSignedIn) -> None:
        if error.person is not None:
            self._refusals.note_caller(error.person, "not_signed_in", "who signed in may not approve here")
        else:
            # Some of the words are the issuer's, or of whoever says to come from there: they are no key.
            key, address = ("not_signed_in", error.status), client_address(request.scope)
            self._refusals.note("a sign-in", str(error), address, code="not_signed_in", key=key)

    def _ask_to_sign_in(self, request: Request) -> Response:
        ticket_id = str(request.path_params.get("ticket", ""))
        wanted = f"?ticket={ticket_id}" if _TICKET.fullmatch(ticket_id) else ""
        return self._message(
            403,
            "Sign in to decide",
            "What waits here is shown to those who may approve it.",
            f"You sign in at {urlsplit(self._sign_in.issuer).netloc}, and come back here.",
            link=(f"{self._url}/sign-in{wanted}", "Sign in"),
        )

    def _message(
        self, status: int, title: str, text: str, help_: str = "", *, link: tuple[str, str] = ("", "")
    ) -> Response:
        return self._page(
            "message.html", None, status, title=title, text=text, help_=help_, link=link[0], link_words=link[1]
        )

    def _page(self, template: str, visitor: Visitor | None, status: int = 200, **values: Any) -> Response:
        values = {"skip_to": "main", "skip_words": "Skip to the content", "visitor": visitor} | values
        return page(template, status, base=self._base, **values)

    def _to(self, ticket_id: str) -> Response:
        """Return a redirect to a ticket's page, else to the list: no redirect here leads anywhere else."""
        return RedirectResponse(f"{self._base}/{ticket_id}" if ticket_id else self._base, 303, HEADERS)

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        path = "/" if self._secure else self._base
        response.set_cookie(name, value, seconds, path=path, secure=self._secure, httponly=True, samesite="lax")

    def _forget(self, response: Response, name: str) -> None:
        path = "/" if self._secure else self._base
        response.delete_cookie(name, path=path, secure=self._secure, httponly=True, samesite="lax")


def _has(request: Request, version: str) -> bool:
    """Say whether a browser that asks again and again has a part of a page as it is: then none is made."""
    return request.query_params.get("version") == version


def _as_it_is() -> Response:
    return Response(status_code=204, headers=HEADERS)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form, each of which stands once; nothing of what is no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return {}
    try:
        found = parse_qs((await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
