"""What ``guideway doctor`` says of the issuers: whether this server could check their tokens now.

They are asked as the server asks them, by the same code. Of an issuer that is asked about tokens, it is asked about one
that nobody has: what it answers says whether it knows this server.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import anyio

from guideway.dsl.scopes import PROGRAM_SCOPES
from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.listen import Scheme, authorities
from guideway.server.oauth.discovery import discover, endpoint
from guideway.server.oauth.introspection import read_secret
from guideway.server.oauth.issuer_http import IssuerHttp, NoAnswer, basic_credentials
from guideway.server.oauth.issuer_http import authorities as trusted_authorities
from guideway.server.oauth.keys import KeySet, no_key_set, read_keys
from guideway.server.oauth.trusted import DEFAULT_PATIENCE
from guideway.server.sections import ENDPOINT, IntrospectionSection, IssuerSection

_NOBODYS: Final = "a-token-that-nobody-has"
_SECRET: Final = "write the secret there, in one line, readable by this user alone: chmod 600 FILE"  # noqa: S105


async def look_at_issuers(config: Config) -> list[Finding]:
    """Return what is found of each issuer, in the order of the file; all are asked at the same time."""
    found: dict[str, list[Finding]] = {name: [] for name in config.issuers}

    async def look(name: str, section: IssuerSection) -> None:
        found[name] = await _look_at(name, section, _resource(config))

    async with anyio.create_task_group() as tasks:
        for name, section in config.issuers.items():
            tasks.start_soon(look, name, section)
    return [finding for findings in found.values() for finding in findings]


def _resource(config: Config) -> str | None:
    """Return what clients ask for tokens for; None where that is only known once the server listens."""
    server = config.server
    if server.url is not None or server.port == 0:
        return server.url
    scheme: Scheme = "https" if server.tls else "http"
    return f"{scheme}://{next(authorities(server.host, server.port, scheme))}{ENDPOINT}"


async def _look_at(name: str, section: IssuerSection, resource: str | None) -> list[Finding]:
    about = f"issuer {name}"
    try:
        http = IssuerHttp(trusted_authorities(section.ca_file), DEFAULT_PATIENCE.request)
    except ValueError as error:
        return [
            Finding(Grade.WRONG, about, f"`ca_file` {error}", "name a file with the authority's certificate in PEM")
        ]
    try:
        if section.introspection is not None and section.tokens == "opaque":
            found = [await _asked(about, name, section, section.introspection, http)]
        else:
            found = [await _keys(about, section, http)]
        found += [*await _scopes(about, section, http)] if found[0].grade is Grade.OK else []
    except NoAnswer as why:
        mend = (why.mend or "find out why it does not answer").replace("issuers.NAME", f"issuers.{name}")
        found = [Finding(Grade.WRONG, about, f"{why} ({why.url or section.issuer})", mend)]
    finally:
        await http.aclose()
    return found + _audience(about, name, section, resource)


async def _keys(about: str, section: IssuerSection, http: IssuerHttp) -> Finding:
    """See that there is a key that may verify. Raises ``NoAnswer``."""
    url = section.jwks_url or endpoint(await discover(http, section), "jwks_uri", section)
    published = (await http.get(url)).get("keys")
    if not isinstance(published, list):
        raise no_key_set()
    keys, problems = read_keys(published, section.algorithms, KeySet(()))
    if not keys:
        why = f"of {len(published)} keys none can be used" + "".join(f": {problem}" for problem in sorted(problems))
        mend = "`algorithms` names those that it signs with, where they are others than " + _list(section.algorithms)
        return Finding(Grade.WRONG, about, f"{why} ({url})", mend)
    algorithms = _list({algorithm for key in keys for algorithm in key.algorithms})
    left_out = f"; {len(published) - len(keys)} left out: {', '.join(sorted(problems))}" if problems else ""
    count = "1 key" if len(keys) == 1 else f"{len(keys)} keys"
    return Finding(Grade.OK, about, f"publishes {count} for {algorithms}{left_out} ({url})")


async def _asked(
    about: str, name: str, section: IssuerSection, asks: IntrospectionSection, http: IssuerHttp
) -> Finding:
    """See that it answers about tokens. Raises ``NoAnswer``."""
    try:
        credentials = basic_credentials(asks.client_id, read_secret(name, asks))
    except ValueError as error:
        where = "the environment of whoever runs this server sets it" if asks.client_secret_env else _SECRET
        return Finding(Grade.WRONG, about, str(error).removeprefix(f"[issuers.{name}.introspection] "), where)
    url = asks.endpoint or endpoint(await discover(http, section), "introspection_endpoint", section)
    said = await http.post(url, {"token": _NOBODYS, "token_type_hint": "access_token"}, credentials)
    if said.get("active") is not False:
        why = f"it does not say that a token that nobody has is not active ({url})"
        return Finding(Grade.WRONG, about, why, "its address leads to something else: RFC 7662 says what it answers")
    return Finding(Grade.OK, about, f"answers about tokens ({url})")


async def _scopes(about: str, section: IssuerSection, http: IssuerHttp) -> list[Finding]:
    """Say which scopes it does not have by its own metadata, where it has some: it would grant them to nobody."""
    try:
        supported: Mapping[str, object] = await discover(http, section)
    except NoAnswer:
        return []  # keys and endpoints are named in the configuration, and that is enough
    named = supported.get("scopes_supported")
    missing = [word for word in section.words(PROGRAM_SCOPES) if isinstance(named, list) and word not in named]
    if not missing:
        return []
    why = f"it does not name {_list(missing)} among its scopes ({section.issuer})"
    return [Finding(Grade.NOTE, about, why, "make them there; or `scopes` says which words it has for them")]


def _audience(about: str, name: str, section: IssuerSection, resource: str | None) -> list[Finding]:
    named = section.audience
    audiences = (named,) if isinstance(named, str) else named
    if audiences is None or resource is None or resource in audiences:
        return []
    why = f"clients ask for tokens for `{resource}`, and only those for {_list(audiences)} are taken"
    mend = f"right where it puts a name of its own into `aud`; else leave `audience` of [issuers.{name}] out"
    return [Finding(Grade.NOTE, about, why, mend)]


def _list(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))
