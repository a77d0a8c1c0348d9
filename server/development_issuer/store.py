"""What the issuer remembers: clients, what people granted, and the codes and refresh tokens of each grant.

Codes and refresh tokens are kept as digests, so that the file gives nobody one to use. Each claim of one is a single
statement: of two requests at the same instant, in whichever processes, the database lets one through.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from guideway.dsl.record import Record
from guideway.dsl.scopes import Scope, known_scopes, scope_list
from guideway.server.development_issuer.client import Client
from guideway.server.development_issuer.folder import StateError, private_file

MOST_CLIENTS: Final = 500
CODE_SECONDS: Final = 60
GRANT_SECONDS: Final = 7 * 24 * 3600
"""How long a client can renew its access, from the moment that it was allowed."""

_METADATA: Final = sa.MetaData()
_CLIENTS: Final = sa.Table(
    "clients",
    _METADATA,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("metadata", sa.String, nullable=False),
    sa.Column("seen", sa.Float, nullable=False),
)
_GRANTS: Final = sa.Table(
    "grants",
    _METADATA,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("client", sa.ForeignKey("clients.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("person", sa.String, nullable=False),
    sa.Column("scope", sa.String, nullable=False),
    sa.Column("resource", sa.String, nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
    sa.Column("revoked", sa.Boolean, nullable=False),
)
_CODES: Final = sa.Table(
    "codes",
    _METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("grant", sa.ForeignKey("grants.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("redirect_uri", sa.String, nullable=False),
    sa.Column("challenge", sa.String, nullable=False),
    sa.Column("until", sa.Float, nullable=False),
    sa.Column("used", sa.Boolean, nullable=False),
)
#: The codes that were asked for with ``openid``. A table of its own, so that files of earlier versions are good.
_OPENID: Final = sa.Table(
    "openid_codes",
    _METADATA,
    sa.Column("digest", sa.ForeignKey("codes.digest", ondelete="CASCADE"), primary_key=True),
    sa.Column("nonce", sa.String),
)
_REFRESH: Final = sa.Table(
    "refresh_tokens",
    _METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("grant", sa.ForeignKey("grants.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("used", sa.Boolean, nullable=False),
)


class Grant(Record):
    """What a person allowed a client to do at a resource. It is what Authlib calls the user of a token."""

    id: str
    client: str
    person: str
    scopes: frozenset[Scope]
    resource: str

    def get_user_id(self) -> str:
        """Return the subject of the grant's tokens."""
        return self.person


class Credential(Record):
    """A code or a refresh token that was shown, and what it stands for.

    It has the names by which Authlib asks. Only of a code are ``redirect_uri`` and ``code_challenge`` more than empty.
    ``openid`` is whether an ID token comes with it, and ``nonce`` what that must repeat.
    """

    digest: str
    grant: Grant
    used: bool
    redirect_uri: str = ""
    code_challenge: str = ""
    code_challenge_method: str = "S256"
    openid: bool = False
    nonce: str | None = None

    def get_redirect_uri(self) -> str:
        """Return where the code was sent."""
        return self.redirect_uri

    def get_scope(self) -> str:
        """Return the most that it can be exchanged for."""
        return scope_list(self.grant.scopes)

    def check_client(self, client: Client) -> bool:
        """Say whether it was given to a client."""
        return self.grant.client == client.client_id


class Store:
    """The file. ``now`` is in seconds since the epoch. Raises ``StateError`` for a file that is not one of these."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._engine = sa.create_engine(f"sqlite:///{private_file(path)}", connect_args={"timeout": 5})
        sa.event.listen(self._engine, "connect", _keep_promises)
        try:
            _METADATA.create_all(self._engine)
            self._sweep()
        except sa.exc.DatabaseError:
            self.close()
            raise StateError(
                f"`{path}` is of another kind or version", "remove it, and clients register anew"
            ) from None

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    def keep_client(self, client: Client) -> None:
        """Keep a client, or what is new of it. Where there are too many, those go that nobody allowed anything."""
        with self._engine.begin() as database:
            database.execute(
                sa.text("INSERT OR IGNORE INTO clients (id, metadata, seen) VALUES (:id, '', 0)"),
                {"id": client.client_id},
            )
            database.execute(
                _CLIENTS.update()
                .where(_CLIENTS.c.id == client.client_id)
                .values(metadata=client.to_json(), seen=self._now())
            )
            allowed = sa.exists().where(_GRANTS.c.client == _CLIENTS.c.id)
            kept = sa.select(_CLIENTS.c.id).order_by(allowed.desc(), _CLIENTS.c.seen.desc()).limit(MOST_CLIENTS)
            database.execute(_CLIENTS.delete().where(_CLIENTS.c.id.not_in(kept), _CLIENTS.c.id != client.client_id))

    def client(self, client_id: str) -> Client | None:
        """Return a client, or None."""
        with self._engine.connect() as database:
            text = database.scalar(sa.select(_CLIENTS.c.metadata).where(_CLIENTS.c.id == client_id))
        return None if text is None else Client.from_json(client_id, text)

    def allow(
        self,
        code: str,
        grant: Grant,
        *,
        redirect_uri: str,
        challenge: str,
        openid: bool = False,
        nonce: str | None = None,
    ) -> None:
        """Keep what a person has just allowed, and the code that stands for it."""
        self._sweep()
        now = self._now()
        with self._engine.begin() as database:
            database.execute(
                _GRANTS.insert().values(
                    id=grant.id,
                    client=grant.client,
                    person=grant.person,
                    scope=scope_list(grant.scopes),
                    resource=grant.resource,
                    expires=now + GRANT_SECONDS,
                    revoked=False,
                )
            )
            database.execute(
                _CODES.insert().values(
                    digest=digest(code),
                    grant=grant.id,
                    redirect_uri=redirect_uri,
                    challenge=challenge,
                    until=now + CODE_SECONDS,
                    used=False,
                )
            )
            if openid:
                database.execute(_OPENID.insert().values(digest=digest(code), nonce=nonce))

    def code(self, code: str) -> Credential | None:
        """Return what a code stands for: None for one that was never given, or has run out unused."""
        row = self._find(_CODES, code)
        if row is None or (not row.used and row.until <= self._now()):
            return None
        with self._engine.connect() as database:
            openid = database.execute(sa.select(_OPENID).where(_OPENID.c.digest == row.digest)).one_or_none()
        return Credential(
            row.digest,
            _grant(row),
            row.used,
            row.redirect_uri,
            row.challenge,
            openid=openid is not None,
            nonce=openid.nonce if openid is not None else None,
        )

    def refresh_token(self, token: str) -> Credential | None:
        """Return what a refresh token stands for: None for one that was never given, or has run out."""
        row = self._find(_REFRESH, token)
        return None if row is None else Credential(row.digest, _grant(row), row.used)

    def redeem(self, code: Credential, refresh_token: str | None) -> bool:
        """Use a code up, and keep the refresh token that comes of it. Say whether this was the first use."""
        return self._claim(_CODES, code, refresh_token)

    def rotate(self, old: Credential, new: str) -> bool:
        """Use a refresh token up, and keep its successor. Say whether this was the first use."""
        return self._claim(_REFRESH, old, new)

    def revoke(self, grant_id: str) -> None:
        """Let nothing more come of a grant. Access tokens that were given run out by themselves."""
        with self._engine.begin() as database:
            database.execute(_GRANTS.update().where(_GRANTS.c.id == grant_id).values(revoked=True))

    def _find(self, table: sa.Table, secret: str) -> Any:
        """Return the row of a code or token with its grant's, None where the grant is revoked or has run out."""
        query = sa.select(table, _GRANTS).join(_GRANTS).where(table.c.digest == digest(secret))
        alive = query.where(_GRANTS.c.revoked.is_(False), _GRANTS.c.expires > self._now())
        with self._engine.connect() as database:
            return database.execute(alive).one_or_none()

    def _claim(self, table: sa.Table, used: Credential, successor: str | None) -> bool:
        with self._engine.begin() as database:
            first = table.update().where(table.c.digest == used.digest, table.c.used.is_(False)).values(used=True)
            if database.execute(first).rowcount != 1:
                return False
            if successor is not None:
                row = _REFRESH.insert().values(digest=digest(successor), grant=used.grant.id, used=False)
                database.execute(row)
            return True

    def _sweep(self) -> None:
        """Forget the grants that have run out, and those whose code nobody fetched."""
        now = self._now()
        fetched = sa.exists().where(_CODES.c.grant == _GRANTS.c.id, _CODES.c.used.is_(True))
        waiting = sa.exists().where(_CODES.c.grant == _GRANTS.c.id, _CODES.c.until > now)
        with self._engine.begin() as database:
            database.execute(_GRANTS.delete().where((_GRANTS.c.expires <= now) | ~(fetched | waiting)))


def new_grant(client: str, person: str, scopes: frozenset[Scope], resource: str) -> Grant:
    """Return a grant with an identifier of its own."""
    return Grant(secrets.token_hex(16), client, person, scopes, resource)


def digest(secret: str) -> str:
    """Return the form in which a code or token is kept. It is random enough that no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _grant(row: Any) -> Grant:
    return Grant(row.id, row.client, row.person, known_scopes(row.scope.split(" ")), row.resource)


def _keep_promises(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
