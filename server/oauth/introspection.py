"""Opaque tokens: what their issuer says about them (RFC 7662), and for how long that is believed.

An answer is believed for ``cache_seconds`` and never beyond the token's expiry, so that a revoked token is believed for
as long. While the issuer does not answer, what it said of a token goes on until the token expires, for an hour at most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anyio.abc import TaskGroup

from guideway.interpreter import secret
from guideway.server.oauth.claims import introspected_caller
from guideway.server.oauth.discovery import discover, endpoint
from guideway.server.oauth.flight import Flight
from guideway.server.oauth.issuer_http import IssuerHttp, NoAnswer, Outage, Unreachable, basic_credentials
from guideway.server.oauth.trusted import Patience, TrustedIssuer
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused, Verified
from guideway.server.sections import IntrospectionSection

MOST_INACTIVE: Final = 2_048
_INACTIVE_SECONDS: Final = 10.0


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
    """What came of asking about an active token, and when (by the clock that never goes back)."""

    verified: Verified
    asked_at: float


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
        self._outage = Outage(issuer.name, patience.gap, ticks)
        self._url: str | None = None
        self._discovered_at = 0.0
        self._flights: dict[bytes, Flight[dict[str, Any] | NoAnswer]] = {}
        self._inactive: dict[bytes, float] = {}
        self._tasks: TaskGroup | None = None

    def ready(self, tasks: TaskGroup) -> None:
        """Be ready to ask. There is nothing to fetch beforehand."""
        self._tasks = tasks

    def is_fresh(self, answer: Answer) -> bool:
        """Say whether an answer is believed without asking again."""
        return self._ticks() - answer.asked_at < self._asks.cache_seconds

    async def ask(self, token: str, digest: bytes, before: Answer | None) -> Answer:
        """Return what the issuer says about a token, or what it said ``before`` where it does not answer now.

        Raises ``TokenRefused`` and ``IssuerUnavailable``.
        """
        if self._ticks() < self._inactive.get(digest, 0.0):
            raise TokenRefused("the token is not active")
        try:
            said = await self._said(token, digest)
        except IssuerUnavailable:
            if before is not None and self._ticks() - before.asked_at < self._patience.stale:
                return before
            raise
        if said.get("active") is not True:
            self._remember_inactive(digest)
            raise TokenRefused("the token is not active")
        return Answer(introspected_caller(said, self._issuer, self._now()), self._ticks())

    def _remember_inactive(self, digest: bytes) -> None:
        self._inactive.pop(digest, None)
        while len(self._inactive) >= MOST_INACTIVE:
            del self._inactive[next(iter(self._inactive))]
        self._inactive[digest] = self._ticks() + min(self._asks.cache_seconds, _INACTIVE_SECONDS)

    async def _said(self, token: str, digest: bytes) -> dict[str, Any]:
        """Return the issuer's answer; whoever asks about a token that is being asked about gets the same one."""
        self._outage.check()
        if self._tasks is None:
            raise RuntimeError("the issuers are not entered")
        flight = self._flights.get(digest)
        if flight is None:
            flight = self._flights[digest] = Flight(self._tasks, lambda: self._post(token, digest))
        said = await flight.result()
        if isinstance(said, NoAnswer):
            raise self._outage.unavailable()
        return said

    async def _post(self, token: str, digest: bytes) -> dict[str, Any] | NoAnswer:
        try:
            url = self._asks.endpoint or await self._discovered()
            said = await self._http.post(url, {"token": token, "token_type_hint": "access_token"}, self._credentials)
        except NoAnswer as why:
            if isinstance(why, Unreachable):
                self._outage.began(why)
            else:  # it may be this token alone that the issuer cannot answer about
                self._outage.noted(why)
            self._url = None
            return why
        finally:
            del self._flights[digest]
        self._outage.over()
        return said

    async def _discovered(self) -> str:
        if self._url is None or self._ticks() - self._discovered_at >= self._patience.refresh:
            section = self._issuer.section
            self._url = endpoint(await discover(self._http, section), "introspection_endpoint", section)
            self._discovered_at = self._ticks()
        return self._url
