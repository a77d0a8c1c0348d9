"""``guideway logout``: the issuer revokes the tokens, where it can, and this machine forgets them in any case."""

import argparse
from typing import Any

import anyio

from guideway.server.cli.command import Command, Complaint, Exit
from guideway.server.cli.console import YELLOW, Console, write_json
from guideway.server.cli.logs import show_log
from guideway.server.cli.person import complaint
from guideway.server.sign_in.errors import SignInError
from guideway.server.sign_in.servers import server_url
from guideway.server.sign_in.session import Session
from guideway.server.sign_in.store import TokenStore, Unreadable, standard_store


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER_URL", nargs="?", help="where to sign out")
    parser.add_argument("--all", action="store_true", help="sign out everywhere")
    parser.add_argument("--ca-file", metavar="FILE", help="PEM of authorities to trust beside the system's")


def _run(options: argparse.Namespace) -> int:
    show_log()
    if options.all == (options.server is not None):
        raise Complaint("either SERVER_URL or --all is needed", help="guideway login --show lists where you are")
    try:
        store = standard_store()
        if options.all:
            ended = anyio.run(_sign_out_everywhere, store, options.ca_file)
        else:
            ended = [anyio.run(_sign_out, store, server_url(options.server), options.ca_file)]
    except SignInError as error:
        raise complaint(error) from None
    if options.json:
        write_json({"servers": ended})
    else:
        _say(Console(options.color), ended)
    return Exit.FAILED if any(one["error"] for one in ended) else Exit.OK


async def _sign_out_everywhere(store: TokenStore, ca_file: str | None) -> list[dict[str, Any]]:
    """Sign out of each server, and remove each file that cannot be read; what fails stops none of the others."""
    ended = []
    for kept in list(store.kept()):
        try:
            if isinstance(kept, Unreadable):
                store.discard(kept)
                ended.append(_document(str(kept.path), error=str(kept.why)))
            else:
                ended.append(await _sign_out(store, kept, ca_file))
        except SignInError as error:
            name = str(kept.path) if isinstance(kept, Unreadable) else kept
            ended.append(_document(name, error=str(error), gone=False))
    await store.tidy()
    return ended


def _document(
    server: str, *, was_there: bool = True, revoked: bool = False, error: str | None = None, gone: bool = True
) -> dict[str, Any]:
    return {"server": server, "was_signed_in": was_there, "revoked": revoked, "error": error, "gone": gone}


async def _sign_out(store: TokenStore, server: str, ca_file: str | None) -> dict[str, Any]:
    """Revoke and forget; return what came of it. Raises ``StorageError`` where it cannot be forgotten."""
    revoked, trouble = False, None
    session = Session(server, store, ca_file)
    async with store.lock(server):
        try:
            entry = store.read(server)
            was_there = entry is not None
            if entry is not None:
                revoked = await session.revoke(entry)
        except SignInError as error:  # whatever it is, what is here goes
            was_there, trouble = True, str(error)
        finally:
            store.remove(server)
    return _document(server, was_there=was_there, revoked=revoked, error=trouble)


def _say(console: Console, ended: list[dict[str, Any]]) -> None:
    for one in ended:
        if not one["was_signed_in"]:
            console.line(f"not signed in at {one['server']}")
            continue
        if not one["gone"]:
            console.line(("not removed: ", YELLOW), f"{one['server']}: {one['error']}")
            continue
        console.line(f"signed out of {one['server']}; the tokens are gone from this machine")
        if one["error"]:
            console.line(("  not revoked: ", YELLOW), f"{one['error']}; they stay good until they end")
        elif not one["revoked"]:
            console.line("  the issuer revokes none, so that they stay good until they end")
    if not ended:
        console.line("signed in nowhere")


COMMAND = Command(
    summary="sign out",
    description="Sign out of a server: the issuer revokes the tokens, where it can, and this machine forgets them.",
    examples=("guideway logout https://guideway.example.com/mcp", "guideway logout --all"),
    exits=(
        (Exit.OK, "nothing is left on this machine"),
        (Exit.FAILED, "the issuer was not told, or something could not be removed; what that is is said"),
    ),
    arguments=_arguments,
    run=_run,
)
