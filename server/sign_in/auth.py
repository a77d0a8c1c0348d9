"""Requests with a token, and what happens where it is missing, has ended or allows too little.

A person is asked once a request: an issuer that grants less than the server wants ends in an error, never in a loop.
"""

from collections.abc import AsyncGenerator

import anyio
import httpx2

from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.challenge import Challenge, read_challenge
from guideway.server.sign_in.entry import Entry
from guideway.server.sign_in.errors import (
    DeclinedError,
    NotSignedInError,
    ScopesMissingError,
    SignInError,
    theirs,
)
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.signing import asked_for, sign_in


class SignedIn(httpx2.Auth):
    """Puts the token of a session on requests, and asks ``person`` where one is needed; None: nobody can be asked.

    Raises ``SignInError`` from the request.
    """

    def __init__(self, session: Session, person: Person | None = None) -> None:
        self._session = session
        self._person = person
        self._asking = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; where it is challenged, mend what is missing and send it again."""
        used = await self._session.current()
        _authorize(request, used)
        response = yield request
        challenge = await read_challenge(response)
        if challenge is not None and not challenge.wants_more and used is not None:
            # The token ended sooner than was said, or was revoked: another may be had without asking anybody.
            renewed = await self._session.renewed(used)
            if renewed is not None:
                used = renewed
                _authorize(request, used)
                response = yield request
                challenge = await read_challenge(response)
        if challenge is None:
            return
        entry = await self._sign_in(challenge, used)
        _authorize(request, entry)
        response = yield request
        self._require_enough(await read_challenge(response), entry)

    async def _sign_in(self, challenge: Challenge, used: Entry | None) -> Entry:
        if challenge.dpop:
            raise SignInError("the server takes only tokens bound to a key (DPoP), which this shell cannot send")
        async with self._asking:  # one browser at a time
            kept = self._session.store.read(self._session.server)
            if (
                kept is not None
                and kept.lasts()
                and (used is None or kept.tokens.access_token != used.tokens.access_token)
            ):
                return kept  # somebody signed in meanwhile
            if self._person is None:
                raise self._nobody_to_ask(challenge, kept)
            try:
                return await sign_in(self._session, challenge, self._person)
            except DeclinedError as declined:
                if not challenge.wants_more:
                    raise
                # The program lacks its scope as it did before: that is a refusal of it.
                raise _missing(challenge, kept, f"{declined}{f'; {declined.help}' if declined.help else ''}") from None

    def _nobody_to_ask(self, challenge: Challenge, entry: Entry | None) -> SignInError:
        server = self._session.server
        scopes = asked_for(challenge, entry)
        login = f"guideway login {server}" + (f' --scope "{" ".join(scopes)}"' if scopes else "")
        if challenge.wants_more:
            return _missing(challenge, entry, login)
        state = f"not signed in at `{server}`" if entry is None else f"the sign-in at `{server}` has ended"
        if entry is not None and challenge.description:  # the server may refuse what any new sign-in brings, too
            state += f": {theirs(challenge.description)}"
        return NotSignedInError(state, login)

    def _require_enough(self, challenge: Challenge | None, entry: Entry) -> None:
        """Raise for a challenge that comes in spite of a token that was issued for the one before."""
        if challenge is None:
            return
        if challenge.wants_more:
            raise _missing(
                challenge, entry, "the issuer granted less than it was asked for; ask whoever can grant you more"
            )
        reason = f": {theirs(challenge.description)}" if challenge.description else ""
        raise SignInError(f"`{self._session.server}` does not take the token that was issued for it{reason}")


def _authorize(request: httpx2.Request, entry: Entry | None) -> None:
    if entry is not None:
        request.headers["Authorization"] = f"Bearer {entry.tokens.access_token}"


def _missing(challenge: Challenge, entry: Entry | None, mend: str) -> ScopesMissingError:
    granted = entry.scopes if entry is not None else ()
    missing = challenge.missing or [scope for scope in challenge.scopes if scope not in granted]
    said = challenge.description or f"this needs `{'`, `'.join(challenge.scopes)}`"
    return ScopesMissingError(theirs(said), mend, required=challenge.required or challenge.scopes, missing=missing)
