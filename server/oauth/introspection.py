"""Opaque tokens: what their issuer says about them (RFC 7662), and for how long that is believed.

An answer is believed for ``cache_seconds`` from when its question was sent, and never beyond the token's expiry: for as
long a revoked token is still good. Where there is no connection to the issuer, what it said of a token goes on until
the token expires, for an hour at most. An issuer that is slow, or answers with an error, may have been made so by
whoever wants a revoked token to go on: then there is no answer, and nobody is let in.

Anybody can make up tokens that nobody knows. Questions about those have places of their own, fewer than those about
tokens that were verified before, and neither wait for the other nor tell it that the issuer does not answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from guideway.interpreter import secret
from guideway.server.oauth.claims import introspected_caller
from guideway.server.oauth.discovery import discover, endpoint
from guideway.server.oauth.flight import Flight
from guideway.server.oauth.issuer_http import (
    IssuerHttp,
    NoAnswer,
    Outage,
    Silent,
    Unreachable,
    basic_credentials,
)
from guideway.server.oauth.trusted import Patience, TrustedIssuer
from guideway.server.oauth.turns import Crowded, Turns
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused, Verified
from guideway.server.sections import IntrospectionSection

MOST_INACTIVE: Final = 2_048
_INACTIVE_SECONDS: Final = 10.0

STRANGERS_AT_ONCE: Final = 4
VERIFIED_AT_ONCE: Final = 6
MOST_WAITING: Final = 40
"""Questions of either kind that wait for their turn."""


def read_secret(name: str, asks: IntrospectionSection) -> str:
    """Return the secret of ``[issuers.NAME.introspection]``. Raises ``ValueError``, naming the key and its mistake."""
    table = f"[issuers.{name}.introspection]"
    if asks.client_secret_env is not None:
        where = f"{table} `client_secret_env`: the environment variable `{asks.client_secret_env}`"
    elif asks.client_secret_file is not None:
        where = f"{table} `client_secret_file`: `{asks.client_secret_file}`"
    else:
        raise ValueError(f"{table} needs `client_secret_file` or `client_secret_env`")
    try:
        return secret.read_secret(asks.client_secret_file, asks.client_secret_env)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


@dataclass(slots=True)
class Answer:
    """What came of asking about an active token, and when that was asked (by the clock that never goes back)."""

    verified: Verified
    asked_at: float


class Busy(NoAnswer):
    """The issuer was not asked: there were too many questions before this one."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What the issuer said, and when it was asked."""

    members: dict[str, Any]
    asked_at: float


@dataclass(frozen=True, slots=True)
class _Lane:
    """One kind of questions: their turns, and whether the issuer answers them."""

    turns: Turns
    outage: Outage


class Introspection:
    """Asks one issuer about opaque tokens. Raises ``ValueError`` where its secret cannot be read.

    ``now`` is in seconds since the epoch, ``ticks`` a clock that never goes back.
    """

    def __init__(
        self,
        issuer: TrustedIssuer,
        http: IssuerHttp,
        patience: Patience,
        now: Callable[[], float],
        ticks: Callable[[], float],
    ) -> None:
        asks = issuer.section.introspection
        if asks is None:
            raise ValueError(
                f"[issuers.{issuer.name}] `introspection` is missing: opaque tokens have to be asked about"
            )
        self._asks = asks
        self._credentials = basic_credentials(asks.client_id, read_secret(issuer.name, asks))
        self._issuer = issuer
        self._http = http
        self._patience = patience
        self._now = now
        self._ticks = ticks
        self._strangers = _Lane(Turns(STRANGERS_AT_ONCE, MOST_WAITING), Outage(issuer.name, patience.gap, ticks))
        self._verified = _Lane(Turns(VERIFIED_AT_ONCE, MOST_WAITING), Outage(issuer.name, patience.gap, ticks))
        self._answered_at = ticks()
        self._url: str | None = None
        self._discovered_at = 0.0
        self._flights: dict[bytes, Flight[_Said | NoAnswer]] = {}
        self._inactive: dict[bytes, float] = {}
        self._tasks: TaskGroup | None = None

    def ready(self, tasks: TaskGroup) -> None:
        """Be ready to ask. There is nothing to fetch beforehand."""
        self._tasks = tasks

    def is_fresh(self, answer: Answer) -> bool:
        """Say whether an answer is believed without asking again."""
        return self._ticks() - answer.asked_at < self._asks.cache_seconds

    async def ask(self, token: str, digest: bytes, before: Answer | None) -> Answer:
        """Return what the issuer says about a token, or what it said ``before`` where there is no connection to it now.

        Raises ``TokenRefused`` and ``IssuerUnavailable``.
        """
        if self._ticks() < self._inactive.get(digest, 0.0):
            raise TokenRefused("the token is not active")
        lane = self._strangers if before is None else self._verified
        said = lane.outage.why or await self._said(token, digest, lane)
        if isinstance(said, Unreachable) and before and self._ticks() - before.asked_at < self._patience.stale:
            return before
        if isinstance(said, Busy):
            raise IssuerUnavailable("the issuer of the token is being asked about too many others", 1)
        if isinstance(said, NoAnswer):
            raise lane.outage.unavailable()
        if said.members.get("active") is not True:
            self._remember_inactive(digest)
            raise TokenRefused("the token is not active")
        return Answer(introspected_caller(said.members, self._issuer, self._now()), said.asked_at)

    def _remember_inactive(self, digest: bytes) -> None:
        self._inactive.pop(digest, None)
        while len(self._inactive) >= MOST_INACTIVE:
            del self._inactive[next(iter(self._inactive))]
        self._inactive[digest] = self._ticks() + min(self._asks.cache_seconds, _INACTIVE_SECONDS)

    async def _said(self, token: str, digest: bytes, lane: _Lane) -> _Said | NoAnswer:
        """Return the issuer's answer; whoever asks about a token that is being asked about gets the same one."""
        if self._tasks is None:
            raise RuntimeError("the issuers are not entered")
        flight = self._flights.get(digest)
        if flight is None:
            flight = self._flights[digest] = Flight(self._tasks, lambda: self._in_turn(token, digest, lane))
        return await flight.result()

    async def _in_turn(self, token: str, digest: bytes, lane: _Lane) -> _Said | NoAnswer:
        """Ask when it is this question's turn, in the time of one request from now."""
        asked_at: float | None = None
        try:
            with anyio.fail_after(self._patience.request):
                async with lane.turns.turn():
                    if (why := lane.outage.why) is not None:  # meanwhile
                        return why
                    asked_at = self._ticks()
                    said = await self._post(token)
        except Crowded:
            return Busy("too many wait")
        except TimeoutError:
            if asked_at is None:
                return Busy("its turn did not come")
            silent = Silent("it did not answer in time", url=self._asks.endpoint or self._url)
            return self._unanswered(silent, asked_at, lane)
        except NoAnswer as why:
            return self._unanswered(why, asked_at or 0.0, lane)
        finally:
            del self._flights[digest]
        self._answered_at = self._ticks()
        lane.outage.over()
        return _Said(said, asked_at)

    def _unanswered(self, why: NoAnswer, asked_at: float, lane: _Lane) -> NoAnswer:
        # An error, or silence while others were answered, may be about this token alone.
        if isinstance(why, Unreachable) or (isinstance(why, Silent) and self._answered_at <= asked_at):
            lane.outage.began(why)
        else:
            lane.outage.noted(why)
        if not isinstance(why, Silent):
            self._answered_at = self._ticks()
        self._url = None
        return why

    async def _post(self, token: str) -> dict[str, Any]:
        url = self._asks.endpoint or await self._discovered()
        return await self._http.post(url, {"token": token, "token_type_hint": "access_token"}, self._credentials)

    async def _discovered(self) -> str:
        if self._url is None or self._ticks() - self._discovered_at >= self._patience.refresh:
            section = self._issuer.section
            self._url = endpoint(await discover(self._http, section), "introspection_endpoint", section)
            self._discovered_at = self._ticks()
        return self._url
