"""The routes of page and API, as a server has them: which of them there are, its way in says."""

from collections.abc import Callable

from starlette.routing import Route

from guideway.interpreter.principal import Principal
from guideway.server.approvals.api import api_routes
from guideway.server.approvals.desk import Desk
from guideway.server.approvals.nowhere import NO_CLIENT, NO_ISSUER, nothing_at
from guideway.server.approvals.paths import API, PAGE
from guideway.server.oauth.access import Access


def approval_routes(desk: Desk, access: Access | None, caller: Callable[[], Principal]) -> list[Route]:
    """Return the routes. ``caller`` says who is asking the API, whose callers show a token.

    Raises ``ValueError`` where a file of the configuration cannot be used.
    """
    if access is None:
        return nothing_at((PAGE, API), NO_ISSUER)
    return [*api_routes(desk, caller), *_page_routes(desk, access)]


def _page_routes(desk: Desk, access: Access) -> list[Route]:
    if access.page is None:
        return nothing_at((PAGE,), NO_CLIENT)
    # Its packages are an extra.
    from guideway.server.approvals.pages import Pages  # noqa: PLC0415
    from guideway.server.approvals.sign_in import SignIn  # noqa: PLC0415
    from guideway.server.approvals.visitors import Visitors  # noqa: PLC0415

    return Pages(desk, SignIn(access), Visitors(desk.records), access).routes()
