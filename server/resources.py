"""The copies of the grammar as resources of the protocol: listed, read, and completed in their template."""

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from guideway.grammar import DIALECTS, GrammarCopy
from guideway.server.publish import CHOICES, RESOURCE, NoCopy, Publisher, Wanted, media_type, resource_uri, wanted

TEMPLATE: Final = f"{RESOURCE}/{{dialect}}{{?layout,wrap}}"

# The revisions with a handshake have a code of their own for this; 2026-07-28 says that it is a wrong parameter.
NOT_FOUND: Final = -32002

_Context = ServerRequestContext[Any, Any]


class Resources:
    """What the caller of a request may read."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def list_resources(
        self,
        ctx: _Context,  # noqa: ARG002
        params: types.PaginatedRequestParams | None,
    ) -> types.ListResourcesResult:
        """Answer ``resources/list``: the caller's copy in every dialect that there is one in."""
        _refuse_cursor(params)
        audience = self._publisher.audience()
        found = []
        for dialect in DIALECTS:
            try:
                found.append(_resource(await self._publisher.copy(audience, Wanted(dialect))))
            except NoCopy:
                continue
        return types.ListResourcesResult(resources=found)

    async def list_templates(
        self,
        ctx: _Context,  # noqa: ARG002
        params: types.PaginatedRequestParams | None,
    ) -> types.ListResourceTemplatesResult:
        """Answer ``resources/templates/list``."""
        _refuse_cursor(params)
        template = types.ResourceTemplate(
            name="grammar",
            title="Grammar of this caller",
            uri_template=TEMPLATE,
            description="The grammar of the programs that this caller may run: "
            + "; ".join(f"{name}: {', '.join(values)}" for name, values in CHOICES.items()),
        )
        return types.ListResourceTemplatesResult(
            resource_templates=[template] if self._publisher.audience().scopes else []
        )

    async def read(self, ctx: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Answer ``resources/read``. What does not exist, or not for this caller, is not found."""
        try:
            copy = await self._publisher.copy(self._publisher.audience(), asked(params.uri))
        except (ValueError, NoCopy) as error:
            if isinstance(error, NoCopy) and error.why is NoCopy.Why.ENGINE_REFUSES:
                raise MCPError(types.INTERNAL_ERROR, str(error), {"uri": params.uri}) from None
            code = types.INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else NOT_FOUND
            raise MCPError(code, f"Resource not found: {error}", {"uri": params.uri}) from None
        contents = types.TextResourceContents(uri=params.uri, mime_type=media_type(copy.dialect), text=copy.text)
        return types.ReadResourceResult(contents=[contents])

    async def complete(self, ctx: _Context, params: types.CompleteRequestParams) -> types.CompleteResult:  # noqa: ARG002
        """Answer ``completion/complete`` for the template's variables."""
        if not isinstance(params.ref, types.ResourceTemplateReference) or params.ref.uri != TEMPLATE:
            raise MCPError(types.INVALID_PARAMS, f"Nothing to complete there; the one template is {TEMPLATE}")
        fitting = [value for value in CHOICES.get(params.argument.name, ()) if value.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=fitting, total=len(fitting), has_more=False))


def asked(uri: str) -> Wanted:
    """Return which copy a URI names. Raises ``ValueError``."""
    parts = urlsplit(uri)
    dialect = parts.path.removeprefix("/")
    if uri.partition("?")[0] != f"{RESOURCE}/{dialect}":
        raise ValueError(f"resources are named {TEMPLATE}")
    return wanted([("dialect", dialect), *parse_qsl(parts.query, keep_blank_values=True)])


def _resource(copy: GrammarCopy) -> types.Resource:
    return types.Resource(
        name=f"grammar-{copy.dialect}",
        title=f"Grammar of this caller, {copy.dialect}",
        uri=resource_uri(Wanted(copy.dialect)),
        description=" ".join(copy.notes) or None,
        mime_type=media_type(copy.dialect),
        size=len(copy.text.encode()),
    )


def _refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: this list has one page")
