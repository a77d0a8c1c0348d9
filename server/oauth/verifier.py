"""Who is behind a token: the issuer that it is from is found among the trusted ones, and what that issuer's tokens must
show is checked.

Owns the verdicts, and for how long each may be used again. A verdict on a JWT lasts until the token expires or its key
is withdrawn, one on an opaque token for as long as the issuer's answer is believed. A token that was verified already
costs no request, and no other caller's token can push out more than the oldest verdict.

Only JWTs say which issuer they are from. Any other token is shown to the issuers of opaque tokens, one after the other
in the order of the configuration, until one knows it: with several such issuers each sees the tokens of those after it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from guideway.server.oauth.access_token import Unverified, check_form, check_header, is_signed_by, read
from guideway.server.oauth.claims import caller
from guideway.server.oauth.introspection import Answer, Introspection
from guideway.server.oauth.issuer_http import IssuerHttp, authorities
from guideway.server.oauth.keys import IssuerKeys
from guideway.server.oauth.trusted import DEFAULT_PATIENCE, Patience, TrustedIssuer, trusted_issuer
from guideway.server.oauth.verified import IssuerUnavailable, TokenRefused, Verified
from guideway.server.sections import IssuerSection, TenantSection

MOST_VERDICTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Signed:
    """A verdict on a JWT: it holds while the key is published that signed it."""

    verified: Verified
    key: bytes
    keys: IssuerKeys

    def holds(self) -> bool:
        return self.key in self.keys


@dataclass(frozen=True, slots=True)
class _Answered:
    """A verdict on an opaque token: it holds while the issuer's answer is believed."""

    verified: Verified
    answer: Answer
    issuer: Introspection

    def holds(self) -> bool:
        return self.issuer.is_fresh(self.answer)


_Verdict = _Signed | _Answered


class TrustedIssuers:
    """The issuers of the configuration, by name; a ``Verifier`` while it is entered.

    ``resource`` is the server's URL, which is the audience where an issuer is given no other. ``now`` is in seconds
    since the epoch, ``ticks`` a clock that never goes back.

    Raises ``ValueError`` where a secret or a file of the configuration cannot be used, naming its key.
    """

    def __init__(
        self,
        issuers: Mapping[str, IssuerSection],
        *,
        resource: str,
        tenants: Mapping[str, TenantSection],
        patience: Patience = DEFAULT_PATIENCE,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._tasks: TaskGroup | None = None
        self._verdicts: dict[bytes, _Verdict] = {}
        self._https: list[IssuerHttp] = []
        self._signing: dict[str, tuple[TrustedIssuer, IssuerKeys]] = {}
        self._answering: dict[str, Introspection] = {}
        for name, section in issuers.items():
            try:
                tls = authorities(section.ca_file)
            except ValueError as error:
                raise ValueError(f"[issuers.{name}] `ca_file`: {error}") from None
            issuer = trusted_issuer(name, section, resource=resource, tenants=tenants)
            http = IssuerHttp(tls, patience.request)
            self._https.append(http)
            if section.tokens == "jwt":
                self._signing[section.issuer] = issuer, IssuerKeys(issuer, http, patience, ticks)
            else:
                self._answering[section.issuer] = Introspection(issuer, http, patience, now, ticks)

    async def __aenter__(self) -> Self:
        tasks = await anyio.create_task_group().__aenter__()
        self._tasks = tasks
        for _, keys in self._signing.values():
            keys.keep_fresh(tasks)
        for introspection in self._answering.values():
            introspection.ready(tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What went wrong in the body is not the tasks' affair: a task group would wrap it.
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)
        with anyio.CancelScope(shield=True):
            for http in self._https:
                await http.aclose()

    async def verify(self, token: str) -> Verified:
        """Return the caller behind a token. Raises ``TokenRefused`` and ``IssuerUnavailable``.

        Without a network request where the token was verified before and its verdict still holds.
        """
        check_form(token)
        digest = sha256(token.encode("ascii")).digest()
        known = self._verdicts.get(digest)
        if known is not None:
            if not self._is_alive(known):
                del self._verdicts[digest]
                known = None
            elif known.holds():
                return known.verified
        try:
            verdict = await self._judge(token, digest, known)
        except TokenRefused:
            self._verdicts.pop(digest, None)
            raise
        self._remember(digest, verdict)
        return verdict.verified

    def _is_alive(self, verdict: _Verdict) -> bool:
        expires_at = verdict.verified.principal.expires_at
        return expires_at is not None and self._now() < expires_at

    def _remember(self, digest: bytes, verdict: _Verdict) -> None:
        self._verdicts.pop(digest, None)  # so that it stands at the end
        while len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[digest] = verdict

    async def _judge(self, token: str, digest: bytes, known: _Verdict | None) -> _Verdict:
        unverified = read(token)
        if unverified is not None and unverified.issuer in self._signing:
            return await self._signed(unverified)
        if unverified is None:
            asked = list(self._answering.values())
        else:
            asked = [self._answering[unverified.issuer]] if unverified.issuer in self._answering else []
        if not asked:
            raise TokenRefused("the token is not from an issuer that is trusted here")
        return await self._answered(asked, token, digest, known if isinstance(known, _Answered) else None)

    async def _signed(self, unverified: Unverified) -> _Signed:
        issuer, keys = self._signing[unverified.issuer]
        algorithm, kid = check_header(unverified, issuer)
        tried = set[bytes]()
        while candidates := await keys.candidates(kid, algorithm, tried):
            for candidate in candidates:
                if is_signed_by(unverified, candidate.key):
                    return _Signed(caller(unverified.claims, issuer, self._now()), candidate.identity, keys)
                tried.add(candidate.identity)
        raise TokenRefused("no key of the issuer has signed the token")

    @staticmethod
    async def _answered(asked: list[Introspection], token: str, digest: bytes, known: _Answered | None) -> _Answered:
        """Return the verdict of the first issuer that knows a token, the one that knew it before foremost."""
        unavailable: IssuerUnavailable | None = None
        refused: TokenRefused | None = None
        for issuer in _foremost(known.issuer if known else None, asked):
            try:
                answer = await issuer.ask(token, digest, known.answer if known and known.issuer is issuer else None)
            except IssuerUnavailable as error:
                unavailable = unavailable or error
            except TokenRefused as error:
                refused = refused or error
            else:
                return _Answered(answer.verified, answer, issuer)
        # Whoever did not answer may be the one that knows the token.
        raise unavailable or refused or TokenRefused("the token is not active")


def _foremost(first: Introspection | None, issuers: list[Introspection]) -> Iterator[Introspection]:
    if first is not None:
        yield first
    yield from (issuer for issuer in issuers if issuer is not first)
