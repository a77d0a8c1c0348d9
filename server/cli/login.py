"""``guideway login``: sign in at a server in the browser, and say what was granted."""

import argparse
from datetime import UTC, datetime
from typing import Any

import anyio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from guideway.dsl.scopes import Scope
from guideway.server.approvals.paths import api_of
from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.console import BOLD, GREEN, RED, YELLOW, Console, write_json
from guideway.server.cli.logs import show_log
from guideway.server.cli.person import complaint, person, speaking_to
from guideway.server.cli.scopes import add_scope_option, given
from guideway.server.sign_in.auth import SignedIn
from guideway.server.sign_in.browser import Person
from guideway.server.sign_in.challenge import is_scope, read_challenge
from guideway.server.sign_in.entry import Entry
from guideway.server.sign_in.errors import ScopesMissingError, SignInError, StorageError, WrongUsageError
from guideway.server.sign_in.servers import client, server_url
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.signing import OFFLINE, Wish, asked_for, sign_in
from guideway.server.sign_in.store import Unreadable, standard_store


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER_URL", nargs="?", help="the endpoint; without a path it is /mcp")
    add_scope_option(parser, "ask for these, in the issuer's words; without it, for what the server wants first")
    parser.add_argument(
        "--no-browser", action="store_true", help="the browser is on another machine: paste its address"
    )
    parser.add_argument("--client-id", metavar="ID", help="the client that the issuer knows already")
    parser.add_argument("--client-metadata-url", metavar="URL", help="the client id metadata document to be known by")
    parser.add_argument("--port", type=int, metavar="PORT", help="where on 127.0.0.1 the browser comes back to")
    parser.add_argument("--ca-file", metavar="FILE", help="PEM of authorities to trust beside the system's")
    parser.add_argument("--show", action="store_true", help="say where you are signed in, and ask nobody")


def _run(options: argparse.Namespace) -> int:
    show_log()
    if options.show == (options.server is not None):
        raise Complaint("either SERVER_URL or --show is needed", help="guideway login https://guideway.example.com/mcp")
    try:
        return _show(options) if options.show else _login(options)
    except WrongUsageError as error:
        raise complaint(error) from None
    except SignInError as error:
        raise complaint(error, Exit.FAILED if error.code == "sign_in" else Exit.USAGE) from None


def _login(options: argparse.Namespace) -> int:
    errors = Console(options.color, error=True)
    scopes = given(options.scope)
    if not all(map(is_scope, scopes)):
        raise Complaint(
            "--scope takes scopes, separated by spaces or commas", help='--scope "mcp:diag:read mcp:diag:write"'
        )
    if options.port is not None and not 0 < options.port < 65_536:
        raise Complaint("--port takes a port")
    wish = Wish(
        scopes,
        client_id=options.client_id,
        client_metadata_url=options.client_metadata_url,
        port=options.port,
    )
    session = Session(server_url(options.server), standard_store(), options.ca_file)
    asked = person(errors, browser=not options.no_browser, pastes=True)
    found = anyio.run(_sign_in, session, asked, wish)
    if found is None:
        if options.json:
            write_json({"server": session.server, "signed_in": False})
        else:
            Console(options.color).line(f"{session.server} asks nobody to sign in")
        return Exit.OK
    entry, wanted = found
    missing = [scope for scope in wanted if scope not in entry.scopes and scope != OFFLINE]
    if options.json:
        write_json({**_document(entry), "signed_in": True, "asked": list(wanted), "missing": missing})
    else:
        _say(Console(options.color), entry, session)
        if missing:
            errors.line(("granted less than was asked: ", f"{BOLD};{YELLOW}"), f"without `{'`, `'.join(missing)}`")
    return Exit.FAILED if missing else Exit.OK


async def _sign_in(session: Session, asked: Person, wish: Wish) -> tuple[Entry, tuple[str, ...]] | None:
    """Sign in, and see that the server takes the token; return what came of it, and the scopes that were asked for.

    None where the server asks for no token.
    """
    with speaking_to(session.server):
        async with client(session.server, session.ca_file) as http:
            response = await http.post(session.server, json={"jsonrpc": "2.0", "id": 0, "method": "ping"})
        challenge = await read_challenge(response)
        found = None
        if challenge is not None:
            found = await sign_in(session, challenge, asked, wish), wish.scopes or asked_for(challenge, None)
        auth = SignedIn(session) if found else None
        async with client(session.server, session.ca_file, auth) as http:
            if found and _approves_alone(found[0]):  # the endpoint is for those who run programs
                await http.get(api_of(session.server), params={"limit": "1"})
                return found
            try:
                async with Client(streamable_http_client(session.server, http_client=http)):
                    pass
            except BaseExceptionGroup as errors:
                # No diagnostic scope at all was granted: that is what is said, below.
                if errors.subgroup(ScopesMissingError) is None or found is None:
                    raise
        return found


def _approves_alone(entry: Entry) -> bool:
    """Say whether a token is for approving and nothing else, in the words that a server has where it says no other."""
    return set(entry.scopes) - {OFFLINE} == {Scope.APPROVE.value}


def _show(options: argparse.Namespace) -> int:
    """Say where somebody is signed in, and what cannot be read of that; one that cannot hides none of the others."""
    store = standard_store()
    entries, problems = list[Entry](), list[StorageError]()
    for kept in store.kept():
        try:
            if isinstance(kept, Unreadable):
                raise kept.why  # told as those of the keyring are
            entry = store.read(kept)
        except StorageError as problem:
            problems.append(problem)
        else:
            entries += [entry] if entry is not None else []
    if options.json:
        unreadable = [{"message": str(problem), "help": problem.help} for problem in problems]
        write_json({"servers": [_document(entry) for entry in entries], "unreadable": unreadable})
    else:
        console, errors = Console(options.color), Console(options.color, error=True)
        for entry in entries:
            _say(console, entry, None)
        if not entries and not problems:
            console.line("signed in nowhere")
        console.stream.flush()
        for one in problems:
            errors.line(("error: ", f"{BOLD};{RED}"), str(one))
            if one.help:
                errors.line(f"  help: {one.help}")
    return Exit.USAGE if problems else Exit.OK


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "server": entry.server,
        "issuer": entry.issuer,
        "client_id": entry.client.client_id,
        "scopes": list(entry.scopes),
        "expires_at": None if entry.expires_at is None else _time(entry.expires_at),
        "renewable": entry.tokens.refresh_token is not None,
    }


def _say(console: Console, entry: Entry, session: Session | None) -> None:
    console.line(("signed in", f"{BOLD};{GREEN}"), f" at {entry.server}")
    console.line(f"  issuer   {entry.issuer}")
    console.line(f"  client   {entry.client.client_id}")
    console.line(f"  scopes   {' '.join(entry.scopes) or 'none'}")
    console.line(f"  lasts    {_lasts(entry)}")
    if session is not None:
        console.line(f"  kept in  {session.store.where(session.server)}")


def _lasts(entry: Entry) -> str:
    if entry.tokens.refresh_token is not None:
        return "until the issuer ends it; the token is renewed by itself"
    if entry.expires_at is None:
        return "the issuer does not say how long"
    return f"{'until' if entry.lasts() else 'ended at'} {_time(entry.expires_at)}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


COMMAND = Command(
    summary="sign in at a server",
    description="Sign in at a server with the browser, for `guideway run --server`. The address to open is\n"
    "always printed. Over SSH, or with --no-browser, paste the address at which the browser ends.",
    examples=(
        "guideway login https://guideway.example.com/mcp",
        'guideway login https://guideway.example.com --scope "mcp:diag:read mcp:diag:write"',
        "guideway login --show",
    ),
    exits=(
        (Exit.OK, "signed in, with all that was asked for; or the server asks nobody to"),
        (Exit.FAILED, "the issuer, or the person, granted less or nothing"),
    ),
    arguments=_arguments,
    run=_run,
)
