"""A verified caller. How it was verified is the doors' business: below them there is only this."""

from dataclasses import dataclass

from guideway.dsl.scopes import Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, for whom, and with which rights.

    ``expires_at`` is in seconds since the epoch; None where the identity comes from the local configuration, which
    does not expire. ``client`` names the program that the person uses, where it is known. ``tenant`` is whose
    names they may use beside the shared ones, None where they belong to no tenant.
    """

    subject: str
    scopes: frozenset[Scope]
    issuer: str = "local"
    client: str | None = None
    tenant: str | None = None
    expires_at: float | None = None

    def holds(self, scope: Scope, now: float) -> bool:
        """Say whether the caller has a scope at a time, in seconds since the epoch."""
        return scope in self.scopes and (self.expires_at is None or now < self.expires_at)
