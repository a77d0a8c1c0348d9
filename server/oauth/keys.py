"""The keys that an issuer publishes (RFC 7517): which of them may verify what, and how they are kept fresh.

They are fetched in the background, so that no call waits for that unless it shows a key that nobody has seen. A key
that cannot be used safely is left out, with a warning; the others are used.
"""

import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from joserfc.jwk import JWKRegistry, Key
from joserfc.util import urlsafe_b64decode

from guideway.server.oauth.discovery import discover, endpoint
from guideway.server.oauth.flight import Flight
from guideway.server.oauth.issuer_http import IssuerHttp, NoAnswer, Outage
from guideway.server.oauth.trusted import Patience, TrustedIssuer

logger = logging.getLogger(__name__)

LEAST_RSA_BITS: Final = 2048
MOST_RSA_BITS: Final = 16_384

_ALGORITHMS: Final[Mapping[tuple[str, str | None], frozenset[str]]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"Ed25519", "EdDSA"}),
}


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """A key with the algorithms that it may verify. ``identity`` is that of everything that was published of it."""

    identity: bytes
    kid: str | None
    algorithms: frozenset[str]
    key: Key


class KeySet:
    """What an issuer published at one time."""

    def __init__(self, keys: Iterable[PublishedKey]) -> None:
        self._by_identity = {key.identity: key for key in keys}
        self._by_kid: dict[str | None, list[PublishedKey]] = {}
        for key in self._by_identity.values():
            self._by_kid.setdefault(key.kid, []).append(key)

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._by_identity

    def get(self, identity: bytes) -> PublishedKey | None:
        """Return a key that was published in exactly this form."""
        return self._by_identity.get(identity)

    def candidates(self, kid: str | None, algorithm: str) -> list[PublishedKey]:
        """Return the keys that may have signed a token. Without a key id only one key may come into question."""
        keys = self._by_identity.values() if kid is None else self._by_kid.get(kid, ())
        fit = [key for key in keys if algorithm in key.algorithms]
        return fit if kid is not None or len(fit) == 1 else []


class UnusableKey(ValueError):  # noqa: N818  # the key is at fault, and left out
    """A published key that verifies nothing here. The message is one of a few fixed ones."""


def read_key(published: Any, allowed: frozenset[str], known: KeySet) -> PublishedKey:
    """Return a key of a key set, the one that is ``known`` where it is the same. Raises ``UnusableKey``."""
    if not isinstance(published, dict):
        raise UnusableKey("it is no JSON object")
    try:
        identity = sha256(json.dumps(published, sort_keys=True).encode()).digest()
    except RecursionError:
        raise UnusableKey("it cannot be read") from None
    if (before := known.get(identity)) is not None:
        return before
    kid = published.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise UnusableKey("its key id is no string")
    return PublishedKey(identity, kid, _algorithms(published, allowed), _imported(published))


def _algorithms(published: Mapping[str, Any], allowed: frozenset[str]) -> frozenset[str]:
    """Return what a key may verify: RFC 7517, sections 4.1 to 4.4. Raises ``UnusableKey``."""
    kind, curve = published.get("kty"), published.get("crv")
    known = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)))
    if known is None:
        raise UnusableKey("it is of a type that is not used")
    if "d" in published:
        raise UnusableKey("it is a private key, and everybody can read it")
    operations = published.get("key_ops", ["verify"])
    if published.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        raise UnusableKey("it is not for signatures")
    algorithms = known & allowed & ({str(published["alg"])} if "alg" in published else known)
    if not algorithms:
        raise UnusableKey("its algorithm is not allowed")
    return algorithms


def _imported(published: Mapping[str, Any]) -> Key:
    # Nothing but what makes the key: what is published beside it was judged before, or does not matter.
    members = {str(name): published[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in published}
    try:
        bits = int.from_bytes(urlsafe_b64decode(members["n"].encode()), "big").bit_length() if "n" in members else None
        if bits is None or LEAST_RSA_BITS <= bits <= MOST_RSA_BITS:
            return JWKRegistry.import_key(members)
    except Exception:  # noqa: BLE001  # whatever junk does to the libraries, the other keys are good
        raise UnusableKey("it cannot be read") from None
    raise UnusableKey("its size is not used")


def read_keys(
    published: Iterable[Any], allowed: frozenset[str], known: KeySet
) -> tuple[list[PublishedKey], frozenset[str]]:
    """Return the keys of a key set that can be used, and why the others cannot."""
    keys, problems = [], set[str]()
    for one in published:
        try:
            keys.append(read_key(one, allowed, known))
        except UnusableKey as unusable:
            problems.add(str(unusable))
    return keys, frozenset(problems)


def no_key_set() -> NoAnswer:
    """Return what is wrong with an answer that has no array of keys: RFC 7517, section 5."""
    return NoAnswer("it publishes no key set", "`jwks_url` of [issuers.NAME] says where its keys are")


class IssuerKeys:
    """The keys of one issuer. ``ticks`` is a clock that never goes back, in seconds."""

    def __init__(self, issuer: TrustedIssuer, http: IssuerHttp, patience: Patience, ticks: Callable[[], float]) -> None:
        self._issuer = issuer
        self._http = http
        self._patience = patience
        self._ticks = ticks
        self._outage = Outage(issuer.name, patience.gap, ticks)
        self._keys = KeySet(())
        self._fetched_at: float | None = None
        self._url: str | None = None
        self._discovered_at = 0.0
        self._look_again_at = 0.0  # at what is signed by none of the keys that it may be signed by
        self._asked_at = -math.inf  # when the request began that brought these keys
        self._told = set[str]()
        self._tasks: TaskGroup | None = None
        self._flight: Flight[bool] | None = None

    def __contains__(self, identity: bytes) -> bool:
        """Say whether a key is published, as far as is known."""
        return identity in self._keys

    def keep_fresh(self, tasks: TaskGroup) -> None:
        """Fetch the keys now and again and again, for as long as the tasks may run."""
        self._tasks = tasks
        tasks.start_soon(self._keep_fresh)

    async def _keep_fresh(self) -> None:
        while True:
            fetched = await self.fetch()
            await anyio.sleep(self._patience.refresh if fetched else self._patience.gap)

    async def fetch(self) -> bool:
        """Fetch the keys, or wait for who does so already. Return whether that succeeded."""
        if self._tasks is None:
            raise RuntimeError("the issuers are not entered")
        if self._flight is None or self._flight.is_over:
            self._flight = Flight(self._tasks, self._fetch)
        return await self._flight.result()

    async def candidates(
        self, kid: str | None, algorithm: str, tried: Collection[bytes] = frozenset()
    ) -> list[PublishedKey]:
        """Return keys that may have signed a token and were not tried, empty where there is none.

        Where none is known, the issuer is asked again: at most once every ``again`` seconds, however many keys nobody
        knows are named, and whoever names one waits for that. So what strangers make up costs little, and cannot have
        a token refused whose key has just come. Raises ``IssuerUnavailable`` where no key could be tried.
        """
        shown = self._ticks()
        while True:
            if self._is_stale():
                self._outage.check()
                if not await self.fetch():
                    raise self._outage.unavailable()
            found = [key for key in self._keys.candidates(kid, algorithm) if key.identity not in tried]
            if found or self._asked_at > shown:
                return found
            if tried:  # perhaps the issuer has put another key under the same id
                if self._ticks() < self._look_again_at:
                    return []
                self._look_again_at = self._ticks() + self._patience.gap
            elif (pause := self._asked_at + self._patience.again - self._ticks()) > 0:
                await anyio.sleep(pause)
                continue
            else:
                self._outage.check()
            if not await self.fetch():
                if tried:
                    return []
                raise self._outage.unavailable()

    def _is_stale(self) -> bool:
        return self._fetched_at is None or self._ticks() - self._fetched_at > self._patience.stale

    async def _fetch(self) -> bool:
        section, began = self._issuer.section, self._ticks()
        try:
            document = await self._http.get(section.jwks_url or await self._discovered())
            published = document.get("keys")
            if not isinstance(published, list):
                raise no_key_set()
        except NoAnswer as why:
            self._url = None
            self._outage.began(why)
            return False
        self._keys = self._read(published)
        self._fetched_at, self._asked_at = self._ticks(), began
        self._outage.over()
        return True

    async def _discovered(self) -> str:
        """Return where the keys are. The metadata is read as seldom as the keys are where all is well."""
        if self._url is None or self._ticks() - self._discovered_at >= self._patience.refresh:
            section = self._issuer.section
            self._url = endpoint(await discover(self._http, section), "jwks_uri", section)
            self._discovered_at = self._ticks()
        return self._url

    def _read(self, published: Iterable[Any]) -> KeySet:
        keys, problems = read_keys(published, self._issuer.section.algorithms, self._keys)
        for problem in sorted(problems - self._told):  # once each, not at every fetch
            self._told.add(problem)
            logger.warning("[issuers.%s] publishes a key that is left out: %s", self._issuer.name, problem)
        return KeySet(keys)
