"""``guideway token``: an access token of the development issuer, for whoever can read its key."""

import argparse
from typing import Final
from urllib.parse import urlsplit

from guideway.dsl.scopes import Scope, scope_list
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.configured import read_config
from guideway.server.cli.console import Console, clean, write_json
from guideway.server.cli.development import development_issuer, issuer_complaints, known_person
from guideway.server.cli.scopes import add_scope_option, given, require_known
from guideway.server.config import Config
from guideway.server.listen import Scheme, authorities
from guideway.server.section import is_loopback
from guideway.server.sections import ENDPOINT, DevelopmentIssuerSection

_CLIENT: Final = "guideway-token"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--person", required=True, metavar="NAME", help="whose token: one of [development_issuer]")
    add_scope_option(parser, f"what it is good for, within what the person may; without one, {Scope.READ}")
    parser.add_argument(
        "--resource", metavar="URL", help="the server that it is for; without one, where [server] says that it is"
    )
    parser.add_argument("--config", metavar="PATH", help="the configuration file; see docs/configuration.md")


def _run(options: argparse.Namespace) -> int:
    config = read_config(options)
    section = development_issuer(config)
    person = known_person(section, options.person)
    scopes = _scopes(given(options.scope) or (Scope.READ.value,), person, section)
    resource = options.resource or _resource(config)
    if section.port == 0:
        raise Complaint(
            "`port` of [development_issuer] is 0, so that its tokens' issuer has no name", help="name a port there"
        )
    if not is_loopback(urlsplit(resource).hostname or ""):
        raise Complaint(f"`{clean(resource)}` is not on this machine, and the development issuer is for nothing else")
    with issuer_complaints():
        # The issuer's packages are an extra.
        from guideway.server.development_issuer.folder import default_folder, open_folder  # noqa: PLC0415
        from guideway.server.development_issuer.keys import load_key  # noqa: PLC0415
        from guideway.server.development_issuer.serving import issuer_url  # noqa: PLC0415
        from guideway.server.development_issuer.tokens import AccessTokens  # noqa: PLC0415

        keys = load_key(open_folder(section.state_folder or default_folder()))
        tokens = AccessTokens(keys, issuer=issuer_url(section.port), seconds=section.token_seconds)
        token = tokens.issue(person, scopes, client_id=_CLIENT, resource=resource)
    if options.json:
        write_json(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": section.token_seconds,
                "scope": scope_list(scopes),
                "resource": resource,
            }
        )
    else:
        Console().line(token)
    return Exit.OK


def _scopes(names: tuple[str, ...], person: str, section: DevelopmentIssuerSection) -> frozenset[Scope]:
    may = section.people[person]
    scopes = require_known(names)
    for name in names:
        if name not in may:
            raise Complaint(f"{person} may not grant `{name}`", help=f"only: {scope_list(may) or 'nothing'}")
    return scopes


def _resource(config: Config) -> str:
    server = config.server
    if server.url is not None:
        return server.url
    if server.port == 0:
        raise Complaint("`port` of [server] is 0, so that the server's URL is not known", help="say it with --resource")
    scheme: Scheme = "https" if server.tls else "http"
    return f"{scheme}://{next(authorities(server.host, server.port, scheme))}{ENDPOINT}"


COMMAND = Command(
    summary="print a token of the development issuer",
    description="Print an access token of the development issuer, to try things with in a shell. It is signed\n"
    "with the key in the issuer's state folder; the server believes it while the issuer runs.",
    examples=(
        "guideway token --config development.toml --person alice",
        "guideway token --config development.toml --person alice --scope mcp:diag:write",
        "guideway token --config development.toml --person alice --json",
    ),
    exits=((Exit.OK, "the token was printed"),),
    arguments=_arguments,
    run=_run,
)
