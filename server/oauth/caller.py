"""Who is asking in the request that is being answered. Fails closed: where no token was verified, it is nobody."""

from mcp.server.auth.middleware.auth_context import get_access_token

from guideway.interpreter.principal import Principal
from guideway.server.oauth.sdk_token import VerifiedToken
from guideway.server.wiring import NOBODY


def caller() -> Principal:
    """Return the caller behind the current request's own token, also in a session that an older token opened.

    The SDK carries the request's context to the handlers of both protocol eras.
    """
    token = get_access_token()
    return token.verified.principal if isinstance(token, VerifiedToken) else NOBODY
