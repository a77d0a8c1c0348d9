"""What is kept of one sign-in: the tokens, and all that renews or revokes them without asking the server again."""

import time
from typing import Final, Literal

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import BaseModel, ConfigDict, Field

#: Seconds before its end at which a token is renewed: it must outlive the request that carries it.
MARGIN: Final = 30.0

#: Seconds that a token may last, and the latest end: what an issuer says beyond a hundred years is no time.
_LONGEST: Final = 100 * 365 * 86_400
_LATEST: Final = 253_402_300_799  # the end of the year 9999, up to which a time can be written down


class Secrets(BaseModel):
    """The part that is kept from everybody: the tokens, and the client, which an issuer may have given a secret."""

    model_config = ConfigDict(frozen=True)

    tokens: OAuthToken = Field(repr=False)
    client: OAuthClientInformationFull = Field(repr=False)


class Entry(BaseModel):
    """A sign-in at one server. Times are in seconds since the epoch.

    ``metadata`` is what the issuer said of itself (RFC 8414), so that a refresh token goes to that issuer and nowhere
    else, whatever the server says by then. ``client_metadata_url`` is the client id where that is a document's URL.
    ``secrets`` is None in a file whose secrets are in the keyring.
    """

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    server: str
    resource: str
    metadata: OAuthMetadata
    client_metadata_url: str | None = None
    expires_at: float | None = Field(default=None, ge=0, le=_LATEST, allow_inf_nan=False)
    secrets: Secrets | None = Field(default=None, repr=False)

    @property
    def issuer(self) -> str:
        """Who issued the tokens."""
        return str(self.metadata.issuer)

    @property
    def held(self) -> Secrets:
        """The secrets of an entry that was read with them."""
        if self.secrets is None:
            raise TypeError("this entry was read without its secrets")
        return self.secrets

    @property
    def tokens(self) -> OAuthToken:
        """The tokens."""
        return self.held.tokens

    @property
    def client(self) -> OAuthClientInformationFull:
        """The client, as the issuer knows it."""
        return self.held.client

    @property
    def scopes(self) -> tuple[str, ...]:
        """What was granted, in the issuer's words."""
        return words(self.tokens.scope)

    def lasts(self, seconds: float = 0.0) -> bool:
        """Say whether the access token is good for that long; one without an end is."""
        return self.expires_at is None or time.time() + seconds < self.expires_at

    def renewed(self, tokens: OAuthToken) -> "Entry":
        """Return the entry with new tokens; what an answer may leave out stays (RFC 6749, section 6)."""
        kept = tokens.model_copy(
            update={
                "scope": self.tokens.scope if tokens.scope is None else tokens.scope,
                "refresh_token": tokens.refresh_token or self.tokens.refresh_token,
            }
        )
        return self.model_copy(
            update={"expires_at": end_of(tokens), "secrets": Secrets(tokens=kept, client=self.client)}
        )

    def without_renewal(self) -> "Entry":
        """Return the entry as it is once the issuer takes its refresh token no more."""
        tokens = self.tokens.model_copy(update={"refresh_token": None})
        return self.model_copy(update={"secrets": Secrets(tokens=tokens, client=self.client)})


def end_of(tokens: OAuthToken) -> float | None:
    """Return when an access token that was issued now ends; None where the issuer does not say, or says no time.

    One that is said to have ended before it was issued ends now.
    """
    seconds = tokens.expires_in
    return None if seconds is None or seconds > _LONGEST else time.time() + max(seconds, 0)


def words(scope: str | None) -> tuple[str, ...]:
    """Return the scopes of a string in the form of RFC 6749, section 3.3, each once."""
    return tuple(dict.fromkeys(word for word in (scope or "").split(" ") if word))
